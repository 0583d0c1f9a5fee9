//! The way to the CA: the account to order with, made when first needed, and how long to stay away after a failure.
//!
//! What the CA *asks* for is kept in the store and holds for every replica. What merely fails here (no route, a wrong root, terms
//! that this configuration does not agree to) keeps only this replica away; its cause is noted, so that `explain` can tell it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_acme::Class;
use holdfast_model::Note;
use holdfast_store::AccountId;
use tokio::time::Instant;

use crate::dispatch::Shared;

/// First wait after a failure of ours; doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Short enough to keep no other replica from ordering, long enough to carry a cause.
const NOTED: Duration = Duration::from_secs(1);

/// What this replica knows of the way.
#[derive(Default)]
pub(crate) struct WayToCa(Mutex<Way>);

#[derive(Default)]
struct Way {
    account: Option<AccountId>,
    failures: u32,
    closed_until: Option<Instant>,
}

impl WayToCa {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account, or when to ask again.
    pub(crate) async fn account(&self, shared: &Shared) -> Result<AccountId, Instant> {
        if let Some(at) = self.way().closed_until.filter(|at| *at > Instant::now()) {
            return Err(at);
        }
        if let Some(id) = self.way().account {
            return Ok(id);
        }
        match shared.ca.account().await {
            Ok(id) => {
                self.way().account = Some(id);
                self.is_open();
                Ok(id)
            }
            Err(error) => Err(self.refused(shared, &error).await),
        }
    }

    /// The CA answered.
    pub(crate) fn is_open(&self) {
        let mut way = self.way();
        way.failures = 0;
        way.closed_until = None;
    }

    async fn refused(&self, shared: &Shared, error: &holdfast_acme::Error) -> Instant {
        match error.class() {
            Class::Wait { after, note } => {
                let wait = after.unwrap_or(FIRST_WAIT);
                pause(shared, wait, &note).await;
                self.close_for(wait)
            }
            Class::Trouble(note)
            | Class::Hopeless(note)
            | Class::OrderGone(note)
            | Class::AccountGone(note) => self.failed(shared, &note).await,
        }
    }

    /// It failed here: this replica stays away for a while, and says why. Gives when to ask again.
    pub(crate) async fn failed(&self, shared: &Shared, note: &Note) -> Instant {
        let failures = self.way().failures;
        let wait = FIRST_WAIT.saturating_mul(1 << failures.min(16)).min(LONGEST_WAIT);
        tracing::warn!(code = %note.code, detail = %note.detail, wait_s = wait.as_secs(), "the CA is not to be had");
        pause(shared, NOTED, note).await;
        self.way().failures = failures.saturating_add(1);
        self.close_for(wait)
    }

    fn close_for(&self, wait: Duration) -> Instant {
        let until = Instant::now() + wait;
        self.way().closed_until = Some(until);
        until
    }
}

/// Leaves the account alone on every replica, and says why.
pub(crate) async fn pause(shared: &Shared, wait: Duration, note: &Note) {
    let until = shared.clock.now().plus(wait);
    let paused = async {
        let Some(account) = shared.store.account(shared.ca.directory(), shared.ca.limits()).await?
        else {
            return Ok(());
        };
        shared.store.pause_account(account.id, until, &note.to_string()).await
    };
    if let Err(error) = paused.await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the account's pause was not kept"
        );
    }
}
