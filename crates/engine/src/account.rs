//! The way to the CA: the account to order with, made when first needed, and how long to stay away after a failure.
//!
//! What the CA *asks* for is kept in the store and holds for every replica. What merely fails here (no route, a wrong root, terms
//! that this configuration does not agree to) keeps only this replica away; its cause is noted, so that `explain` can tell it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_acme::Class;
use holdfast_cluster::ACME_WRITER;
use holdfast_model::{DomainId, Note};
use holdfast_store::AccountId;
use tokio::time::Instant;

use crate::dispatch::Shared;

/// First wait after a failure of ours; doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Short enough to keep no other replica from ordering, long enough to carry a cause.
const NOTED: Duration = Duration::from_secs(1);
/// How long an account that cannot be used is left alone. Registering another ends it at once.
const STOPPED: Duration = Duration::from_secs(600);

/// How long to wait for another replica that is at it.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

/// What this replica knows of the way.
#[derive(Default)]
pub(crate) struct WayToCa(Mutex<Way>);

#[derive(Default)]
struct Way {
    account: Option<AccountId>,
    failures: u32,
    closed_until: Option<Instant>,
    /// Is the CA being asked for the account?
    opening: bool,
    /// How many orders the CA has made for us.
    made: u64,
    /// For whom the CA failed, and how many orders it had made by then.
    suspects: HashMap<DomainId, u64>,
}

/// More than this need not be remembered: who is forgotten gets one more try.
const SUSPECTS: usize = 10_000;

impl WayToCa {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account; or when to ask again, where that is known. Who asks never waits for the CA: it is asked beside, and the queue moves
    /// when it has answered.
    pub(crate) fn account(&self, shared: &Arc<Shared>) -> Result<AccountId, Option<Instant>> {
        let mut way = self.way();
        if let Some(at) = way.closed_until.filter(|at| *at > Instant::now()) {
            return Err(Some(at));
        }
        if let Some(id) = way.account {
            return Ok(id);
        }
        if !std::mem::replace(&mut way.opening, true) {
            tokio::spawn(open(shared.clone()));
        }
        Err(None)
    }

    async fn open(&self, shared: &Shared) {
        // Registration, contact and key are one writer's at a time; that there is one account rests on its row.
        let opened = shared.cluster.around(ACME_WRITER, LEASE_PATIENCE, shared.ca.account());
        match opened.await {
            Ok(id) => {
                self.way().account = Some(id);
                self.is_open();
            }
            Err(error) => {
                self.refused(shared, &error).await;
            }
        }
    }

    /// The CA answered.
    fn is_open(&self) {
        let mut way = self.way();
        way.failures = 0;
        way.closed_until = None;
    }

    /// The CA made an order.
    pub(crate) fn ordered(&self, domain: DomainId) {
        self.is_open();
        let mut way = self.way();
        way.made += 1;
        way.suspects.remove(&domain);
    }

    /// The CA failed when it was asked for an order. Is it this very name that it cannot do? It is if others got through since it
    /// failed for this one before. Without that it is the CA that has failed, and not the domain.
    pub(crate) fn is_its_own(&self, domain: DomainId) -> bool {
        let mut way = self.way();
        let made = way.made;
        if way.suspects.remove(&domain).is_some_and(|before| made > before) {
            return true;
        }
        if way.suspects.len() < SUSPECTS {
            way.suspects.insert(domain, made);
        }
        false
    }

    async fn refused(&self, shared: &Shared, error: &holdfast_acme::Error) -> Instant {
        match error.class() {
            Class::Wait { after, note } => {
                let wait = after.unwrap_or(FIRST_WAIT);
                pause(shared, wait, &note).await;
                self.close_for(wait)
            }
            Class::AccountUnusable(note) => self.stopped(shared, &note).await,
            Class::Trouble(note)
            | Class::Hopeless(note)
            | Class::OrderGone(note)
            | Class::AccountGone(note) => self.failed(shared, &note).await,
        }
    }

    /// It failed here: this replica stays away for a while, and says why. Gives when to ask again.
    pub(crate) async fn failed(&self, shared: &Shared, note: &Note) -> Instant {
        // Those who were under way together fail together: that is one failure.
        if let Some(at) = self.way().closed_until.filter(|at| *at > Instant::now()) {
            return at;
        }
        let failures = self.way().failures;
        let wait = FIRST_WAIT.saturating_mul(1 << failures.min(16)).min(LONGEST_WAIT);
        let until = self.close_for(wait);
        self.way().failures = failures.saturating_add(1);
        tracing::warn!(code = %note.code, detail = %note.detail, wait_s = wait.as_secs(), "the CA is not to be had");
        pause(shared, NOTED, note).await;
        until
    }

    /// The account cannot be used: nothing is ordered with it, on any replica, until a person has registered another. The CA is asked
    /// again now and then, since it may have been the CA's mistake.
    pub(crate) async fn stopped(&self, shared: &Shared, note: &Note) -> Instant {
        tracing::error!(code = %note.code, detail = %note.detail, "nothing is ordered");
        pause(shared, STOPPED, note).await;
        self.close_for(FIRST_WAIT)
    }

    fn close_for(&self, wait: Duration) -> Instant {
        let until = Instant::now() + wait;
        self.way().closed_until = Some(until);
        until
    }
}

/// Asks the CA for the account, and has the queue looked at with whatever came of it.
async fn open(shared: Arc<Shared>) {
    let asked = Opening(&shared);
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = shared.way.open(&shared) => {}
    }
    drop(asked);
}

/// However the asking ends, it has ended.
struct Opening<'a>(&'a Shared);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.way.way().opening = false;
        self.0.queue_moved.notify_one();
    }
}

/// How long to leave a CA alone that asked for it without saying how long.
pub(crate) const UNSAID: Duration = Duration::from_secs(60);

/// Leaves the account alone on every replica, and says why.
pub(crate) async fn pause(shared: &Shared, wait: Duration, note: &Note) {
    let paused = async {
        let Some(account) = shared.store.account(shared.ca.directory(), shared.ca.limits()).await?
        else {
            return Ok(());
        };
        shared.store.pause_account(account.id, wait, &note.to_string()).await
    };
    if let Err(error) = paused.await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the account's pause was not kept"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fails_while_others_get_through_fails_by_itself() {
        let (way, poor, lucky) = (WayToCa::default(), DomainId::new(), DomainId::new());
        // The CA is down for all: nobody's fault, however often.
        for _ in 0..3 {
            assert!(!way.is_its_own(poor));
            assert!(!way.is_its_own(lucky));
        }
        way.ordered(lucky);
        assert!(way.is_its_own(poor));
        // And from the beginning.
        assert!(!way.is_its_own(poor));
        way.ordered(poor);
        assert!(!way.is_its_own(poor));
    }
}
