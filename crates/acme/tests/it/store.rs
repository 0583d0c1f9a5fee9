//! TEMPORARY double.
use holdfast_model::Timestamp;
use holdfast_store::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Memory {
    accounts: Mutex<Vec<Account>>,
    terms: Mutex<HashMap<String, Terms>>,
}

pub(crate) async fn open() -> Arc<dyn Accounts> {
    Arc::new(Memory::default())
}

impl Memory {
    fn with(&self, id: AccountId, f: impl FnOnce(&mut Account)) {
        f(self.accounts.lock().unwrap().iter_mut().find(|a| a.id == id).unwrap())
    }
}

#[async_trait::async_trait]
impl Accounts for Memory {
    async fn account(&self, directory: &str, _: OrderLimits) -> Result<Option<Account>> {
        tokio::task::yield_now().await;
        Ok(self.accounts.lock().unwrap().iter().find(|a| a.directory == directory).cloned())
    }
    async fn journal_account(&self, new: &NewAccount) -> Result<Account> {
        tokio::task::yield_now().await;
        let mut all = self.accounts.lock().unwrap();
        if let Some(a) = all.iter().find(|a| a.directory == new.directory) {
            return Ok(a.clone());
        }
        let a = Account {
            id: AccountId(uuid::Uuid::new_v4()),
            directory: new.directory.clone(),
            key: new.key.clone(),
            next_key: None,
            email: new.email.clone(),
            url: None,
            paused_until: None,
            pause_reason: None,
            next_slot_at: None,
        };
        all.push(a.clone());
        Ok(a)
    }
    async fn account_registered(
        &self,
        id: AccountId,
        url: &str,
        email: Option<&str>,
    ) -> Result<()> {
        self.with(id, |a| {
            a.url = Some(url.to_owned());
            a.email = email.map(ToOwned::to_owned);
        });
        Ok(())
    }
    async fn account_forgotten(&self, id: AccountId) -> Result<()> {
        self.with(id, |a| a.url = None);
        Ok(())
    }
    async fn journal_next_key(&self, id: AccountId, key: &Secret) -> Result<Secret> {
        let mut got = None;
        self.with(id, |a| got = Some(a.next_key.get_or_insert_with(|| key.clone()).clone()));
        Ok(got.unwrap())
    }
    async fn account_key_changed(&self, id: AccountId) -> Result<()> {
        self.with(id, |a| {
            if let Some(k) = a.next_key.take() {
                a.key = k
            }
        });
        Ok(())
    }
    async fn pause_account(&self, id: AccountId, until: Timestamp, reason: &str) -> Result<()> {
        self.with(id, |a| {
            a.paused_until = Some(until);
            a.pause_reason = Some(reason.to_owned());
        });
        Ok(())
    }
    async fn terms(&self, directory: &str) -> Result<Option<Terms>> {
        Ok(self.terms.lock().unwrap().get(directory).cloned())
    }
    async fn keep_terms(&self, directory: &str, url: &str, agreed: bool) -> Result<()> {
        let now = Timestamp::from_seconds(1);
        self.terms.lock().unwrap().insert(
            directory.to_owned(),
            Terms {
                directory: directory.to_owned(),
                url: url.to_owned(),
                seen_at: now,
                agreed_at: agreed.then_some(now),
            },
        );
        Ok(())
    }
}
