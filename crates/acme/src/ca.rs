//! One CA, and how every request in the account's name is made.

use std::sync::{Arc, Mutex};

use holdfast_store::{AccountId, Accounts, OrderLimits};
use tokio::time::Instant;

use crate::session::Session;
use crate::sessions::Sessions;
use crate::transport::{Transport, check_directory};
use crate::trust::Trust;
use crate::{CaConfig, Error, KeyType};

/// instant-acme gives up after three nonces: so often it may do that.
const NONCE_ROUNDS: usize = 4;

/// A CA and our account there; clones share it.
#[derive(Clone)]
pub struct Ca(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: CaConfig,
    pub(crate) store: Arc<dyn Accounts>,
    pub(crate) transport: Transport,
    pub(crate) sessions: Sessions,
    pub(crate) trust: Trust,
    /// When the store was last told that the CA accepts the account.
    pub(crate) accepted_at: Mutex<Option<Instant>>,
}

impl Ca {
    /// Makes the client; nothing is connected, read or written yet.
    ///
    /// # Errors
    /// When the directory is no URL or not safe to talk to, or the extra roots are none.
    pub fn new(config: CaConfig, store: Arc<dyn Accounts>) -> Result<Self, Error> {
        check_directory(&config.directory)?;
        let transport = Transport::new(&config)?;
        let trust = Trust::of(&config)?;
        let sessions = Sessions::default();
        let accepted_at = Mutex::default();
        Ok(Self(Arc::new(Inner { config, store, transport, sessions, trust, accepted_at })))
    }

    /// The ACME directory.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.0.config.directory
    }

    /// The kind of key that certificates get.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.0.config.key_type
    }

    /// How many orders the account may make and have.
    #[must_use]
    pub fn limits(&self) -> OrderLimits {
        self.0.config.limits
    }

    /// The account, if this process has used it before.
    #[must_use]
    pub fn known_account(&self) -> Option<AccountId> {
        self.0.sessions.current().map(|session| session.id)
    }

    /// Asks in the account's name. When the answer casts doubt on the account itself, and the store or the CA
    /// gives us another view of it, asks once more with that.
    pub(crate) async fn ask<T, F, A>(&self, question: F) -> Result<T, Error>
    where
        F: Fn(Arc<Session>) -> A,
        A: Future<Output = Result<T, Error>>,
    {
        let session = self.session().await?;
        let error = match insist(&session, &question).await {
            Err(error) if error.may_have_moved() => match self.moved(&session).await {
                Some(session) => return insist(&session, &question).await,
                None => return Err(error),
            },
            Err(error) if error.doubts_the_account() => error,
            answered => return answered,
        };
        if let Some(session) = self.reopened(&session, error.is("accountDoesNotExist")).await? {
            return insist(&session, &question).await;
        }
        let session = self.blamed(&session, error).await?;
        insist(&session, &question).await
    }
}

/// Asks again when it was only ever the nonce that was refused.
async fn insist<T, F, A>(session: &Arc<Session>, question: &F) -> Result<T, Error>
where
    F: Fn(Arc<Session>) -> A,
    A: Future<Output = Result<T, Error>>,
{
    let mut round = 1;
    loop {
        match question(session.clone()).await {
            Err(error) if error.is("badNonce") && round < NONCE_ROUNDS => round += 1,
            answered => return answered,
        }
    }
}
