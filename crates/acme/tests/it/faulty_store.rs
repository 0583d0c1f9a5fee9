//! A store that loses its process at a chosen write: the write before it happened, this one and all after it do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_store::{
    Account, AccountId, Accounts, Error, NewAccount, OrderLimits, Result, Secret, Terms,
};

/// At which write it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Journal,
    Registered,
    NextKey,
    KeyChanged,
}

pub(crate) struct FaultyStore {
    inner: Arc<dyn Accounts>,
    ends: Ends,
    ended: AtomicBool,
}

impl FaultyStore {
    pub(crate) fn new(inner: &Arc<dyn Accounts>, ends: Ends) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), ends, ended: AtomicBool::new(false) })
    }

    fn alive(&self, at: Option<Ends>) -> Result<()> {
        if at == Some(self.ends) {
            self.ended.store(true, Ordering::SeqCst);
        }
        if self.ended.load(Ordering::SeqCst) { Err(Error::HolderVanished) } else { Ok(()) }
    }
}

#[async_trait]
impl Accounts for FaultyStore {
    async fn account(&self, directory: &str, limits: OrderLimits) -> Result<Option<Account>> {
        self.alive(None)?;
        self.inner.account(directory, limits).await
    }

    async fn journal_account(&self, new: &NewAccount) -> Result<Account> {
        self.alive(Some(Ends::Journal))?;
        self.inner.journal_account(new).await
    }

    async fn account_registered(
        &self,
        id: AccountId,
        url: &str,
        email: Option<&str>,
    ) -> Result<()> {
        self.alive(Some(Ends::Registered))?;
        self.inner.account_registered(id, url, email).await
    }

    async fn account_forgotten(&self, id: AccountId) -> Result<()> {
        self.alive(None)?;
        self.inner.account_forgotten(id).await
    }

    async fn journal_next_key(&self, id: AccountId, key: &Secret) -> Result<Secret> {
        self.alive(Some(Ends::NextKey))?;
        self.inner.journal_next_key(id, key).await
    }

    async fn account_key_changed(&self, id: AccountId) -> Result<()> {
        self.alive(Some(Ends::KeyChanged))?;
        self.inner.account_key_changed(id).await
    }

    async fn pause_account(&self, id: AccountId, wait: Duration, reason: &str) -> Result<()> {
        self.alive(None)?;
        self.inner.pause_account(id, wait, reason).await
    }

    async fn mark_account(&self, id: AccountId, unusable: Option<&str>) -> Result<()> {
        self.alive(None)?;
        self.inner.mark_account(id, unusable).await
    }

    async fn pin_issuer(&self, id: AccountId, pin: &str) -> Result<String> {
        self.alive(None)?;
        self.inner.pin_issuer(id, pin).await
    }

    async fn unpin_issuer(&self, id: AccountId) -> Result<()> {
        self.alive(None)?;
        self.inner.unpin_issuer(id).await
    }

    async fn terms(&self, directory: &str) -> Result<Option<Terms>> {
        self.alive(None)?;
        self.inner.terms(directory).await
    }

    async fn keep_terms(&self, directory: &str, url: &str, agreed: bool) -> Result<()> {
        self.alive(None)?;
        self.inner.keep_terms(directory, url, agreed).await
    }
}
