//! The way to the CA: the account to order with, made when first needed, and how long to stay away after a failure.
//!
//! What the CA *asks* for is kept in the store and holds for every replica. What merely fails here (no route, a wrong root, terms
//! that this configuration does not agree to) keeps only this replica away; it is noted with this replica's name, so that `explain`
//! and the alerts can tell it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_acme::Class;
use holdfast_cluster::ACME_WRITER;
use holdfast_model::{DomainId, Note, State, Timestamp, WaitScope};
use holdfast_store::AccountId;
use tokio::time::Instant;

use crate::{
    ca_record::{self, CaRecord},
    concerns::{Concerns, Failed},
    dispatch::Shared,
    waits,
};

/// First wait after a failure of ours; doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// After so many failures in a row, about four minutes, other names are tried than those at the head of the queue.
const LONG: u32 = 7;
/// How long an account that cannot be used is left alone. Registering another ends it at once.
pub(crate) const STOPPED: Duration = Duration::from_secs(600);

/// A shorter wait of this replica is not worth asking the store whether it was lifted.
const LIFTED_FROM: Duration = Duration::from_secs(10);

/// How long to wait for another replica that is at it.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

/// What this replica knows of the way.
#[derive(Default)]
pub(crate) struct WayToCa(Mutex<Way>, tokio::sync::Mutex<()>);

#[derive(Default)]
struct Way {
    account: Option<AccountId>,
    failures: u32,
    closed_until: Option<Instant>,
    /// Is the CA being asked for the account?
    opening: bool,
    /// Whom the CA failed, and for whom it did what it was asked for.
    record: CaRecord,
    /// For whom an order was last refused in words that nobody knows, and how many orders the CA had made by then.
    unexplained: Option<(DomainId, u64)>,
    /// Whom the CA has failed since it last made an order.
    failed: Failed,
    /// How often everybody had to wait.
    refusals: u64,
    /// Has the CA made no order since the account last had to wait?
    in_doubt: bool,
}

impl WayToCa {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account; or when to ask again, where that is known. Who asks never waits for the CA: it is asked beside, and the queue moves
    /// when it has answered. While the store says that the account is paused, the CA is not asked for it either.
    pub(crate) async fn account(&self, shared: &Arc<Shared>) -> Result<AccountId, Option<Instant>> {
        let closed_until = self.way().closed_until.filter(|at| *at > Instant::now());
        if let Some(at) = closed_until {
            if at <= Instant::now() + LIFTED_FROM || !was_lifted(shared).await {
                return Err(Some(at));
            }
            self.is_open();
        }
        if let Some(id) = self.way().account {
            return Ok(id);
        }
        if let Some(until) = paused_until(shared).await {
            return Err(until.map(|at| Instant::now() + shared.clock.until(at)));
        }
        if !std::mem::replace(&mut self.way().opening, true) {
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
                let was_noted = self.way().record.forget_note(State::AcmeOrdering);
                if was_noted {
                    answers(shared).await;
                }
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
    pub(crate) async fn ordered(&self, shared: &Shared, domain: DomainId) {
        self.is_open();
        {
            let mut way = self.way();
            (way.in_doubt, way.failed) = (false, Failed::Nobody);
        }
        self.got_through(shared, domain, State::AcmeOrdering).await;
    }

    /// The CA did for a domain what it was asked for in this state.
    pub(crate) async fn got_through(&self, shared: &Shared, domain: DomainId, state: State) {
        if self.way().record.done(domain, state) {
            answers(shared).await;
        }
    }

    /// Is it this very name that the CA cannot do?
    pub(crate) fn is_its_own(&self, domain: DomainId, state: State) -> bool {
        self.way().record.is_its_own(domain, state)
    }

    /// May it be for this very name that no order is made? Others got one meanwhile, or nobody has for minutes.
    pub(crate) fn may_be_the_cause(&self, domain: DomainId) -> bool {
        let way = self.way();
        way.failures > LONG || way.record.is_suspect(domain, State::AcmeOrdering)
    }

    /// The CA failed in the middle of an order: noted, rarely.
    pub(crate) async fn fails(&self, shared: &Shared, state: State, note: &Note) {
        if self.way().record.failed(state) {
            fails(shared, note, ca_record::NOTED_EVERY).await;
        }
    }

    async fn refused(&self, shared: &Shared, error: &holdfast_acme::Error) -> Instant {
        match error.class() {
            // There is no account yet that could be limited, so it is this replica that waits.
            Class::Wait { after, note, .. } => {
                let wait = self.sent_away(shared, after, &note).await;
                Instant::now() + wait
            }
            Class::AccountUnusable(note) | Class::ActionRequired(note) => {
                self.stopped(shared, &note).await
            }
            Class::Unavailable(note)
            | Class::Trouble(note)
            | Class::Doubtful(note)
            | Class::Hopeless(note)
            | Class::OrderGone(note)
            | Class::AccountGone(note) => self.failed(shared, &note).await,
        }
    }

    /// Whom does it concern that the CA made no order for this name?
    pub(crate) fn concerns(&self, domain: DomainId) -> Concerns {
        let mut way = self.way();
        let is_suspect = way.record.is_suspect(domain, State::AcmeOrdering);
        way.failed.fails(domain, is_suspect)
    }

    /// This name waits, and others are asked for. Gives how long, no longer than the CA asked for.
    pub(crate) async fn set_aside(
        &self,
        shared: &Shared,
        times: u32,
        after: Option<Duration>,
        note: &Note,
    ) -> Timestamp {
        let wait = match after {
            Some(after) => {
                let longest = LONGEST_WAIT.saturating_mul(1 << times.min(16));
                WaitScope::Server.bounded(Some(after)).min(longest)
            }
            None => FIRST_WAIT.saturating_mul(1 << times.min(16)).min(LONGEST_WAIT),
        };
        self.way().record.note(State::AcmeOrdering);
        fails(shared, note, wait).await;
        shared.clock.now().plus(wait)
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
        tracing::warn!(code = %note.code, detail = %note.detail, wait_s = wait.as_secs(), "the CA is unavailable");
        self.way().record.note(State::AcmeOrdering);
        fails(shared, note, wait).await;
        until
    }

    /// The CA is busy, or limits the address of this replica: nothing is asked from here for as long as the CA says, but for an hour at
    /// most. Gives how long.
    pub(crate) async fn sent_away(
        &self,
        shared: &Shared,
        after: Option<Duration>,
        note: &Note,
    ) -> Duration {
        let Some(after) = after else {
            let until = self.failed(shared, note).await;
            return until.saturating_duration_since(Instant::now());
        };
        let now = Instant::now();
        // Those who were under way together are sent away together.
        if let Some(at) = self.way().closed_until.filter(|at| *at > now) {
            return at - now;
        }
        // What it asked for may be about one name: others are tried before all of it has passed.
        let longest = match self.way().failures {
            0 => FIRST_WAIT,
            failures => LONGEST_WAIT.saturating_mul(1 << (failures - 1).min(16)),
        };
        let wait = WaitScope::Server.bounded(Some(after)).min(longest);
        self.close_for(wait);
        {
            let mut way = self.way();
            way.failures = way.failures.saturating_add(1);
        }
        tracing::warn!(code = %note.code, detail = %note.detail, wait_s = wait.as_secs(), "the CA limits this replica");
        self.way().record.note(State::AcmeOrdering);
        fails(shared, note, wait).await;
        wait
    }

    /// The account has to wait, on every replica.
    pub(crate) async fn account_waits(&self, shared: &Shared, wait: Duration, note: &Note) {
        {
            let mut way = self.way();
            way.refusals += 1;
            way.in_doubt = true;
        }
        pause(shared, wait, note).await;
    }

    /// May an order be asked for now? After the account had to wait, only one is asked for at first; the guard is its turn. The others
    /// wait here for the answer: `None` if it was refused again.
    pub(crate) async fn may_ask(&self) -> Option<Option<tokio::sync::MutexGuard<'_, ()>>> {
        let before = {
            let way = self.way();
            if !way.in_doubt {
                return Some(None);
            }
            way.refusals
        };
        let alone = self.1.lock().await;
        let way = self.way();
        match (way.in_doubt, way.refusals == before) {
            (false, _) => Some(None),
            (true, true) => Some(Some(alone)),
            (true, false) => None,
        }
    }

    /// Was an order refused for another name right before, without one being made in between?
    pub(crate) fn is_refused_in_a_row(&self, domain: DomainId) -> bool {
        let mut way = self.way();
        let made = way.record.count(State::AcmeOrdering);
        let before = way.unexplained.replace((domain, made));
        before.is_none_or(|(other, before)| other != domain && before == made)
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
        let mut way = self.way();
        way.closed_until = Some(until);
        way.refusals += 1;
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

/// Notes how the CA fails, in the words of this replica, which asks again after so long.
async fn fails(shared: &Shared, note: &Note, wait: Duration) {
    let said = format!("{}: replica `{}` says: {}", note.code, instance(shared), note.detail);
    let noted = async {
        let Some(account) = waits::account(shared).await? else { return Ok(()) };
        shared.store.note_failure(account, instance(shared), &said, wait).await
    };
    not_kept(noted.await);
}

/// Has a person resumed the CA since this replica had to stay away? That others get through meanwhile says nothing of this one.
async fn was_lifted(shared: &Shared) -> bool {
    let lifted = async {
        let Some(account) = waits::account(shared).await? else { return Ok(false) };
        shared.store.is_failure_lifted(account, instance(shared)).await
    };
    let lifted: Result<bool, holdfast_store::Error> = lifted.await;
    lifted.unwrap_or(false)
}

/// Notes that the CA answers this replica.
async fn answers(shared: &Shared) {
    let Some(account) = shared.ca.known_account() else { return };
    not_kept(shared.store.end_failure(account, instance(shared)).await);
}

fn instance(shared: &Shared) -> &str {
    &shared.config.claimant.instance
}

fn not_kept(kept: Result<(), holdfast_store::Error>) {
    if let Err(error) = kept {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "the state of the CA could not be stored");
    }
}

/// Leaves the account alone on every replica, and says why. Gives whether that was kept.
pub(crate) async fn pause(shared: &Shared, wait: Duration, note: &Note) -> bool {
    let paused = async {
        let Some(account) = shared.store.account(shared.ca.directory(), shared.ca.limits()).await?
        else {
            return Ok(false);
        };
        shared.store.pause_account(account.id, wait, &note.to_string()).await?;
        Ok(true)
    };
    paused.await.unwrap_or_else(|error: holdfast_store::Error| {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the account's pause was not kept"
        );
        false
    })
}

/// Until when the store says that nothing is ordered, if it does. What cannot be read is found by who goes on.
async fn paused_until(shared: &Shared) -> Option<Option<Timestamp>> {
    let account = shared.store.account(shared.ca.directory(), shared.ca.limits()).await;
    account.ok().flatten().and_then(|account| account.closed_until())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: State = State::AcmeOrdering;

    /// After a wait of the account the CA is asked once, not by all who are in flight.
    #[tokio::test]
    async fn one_asks_for_all_after_the_account_had_to_wait() {
        let way = WayToCa::default();
        assert!(matches!(way.may_ask().await, Some(None)), "nobody waits without need");
        for refused in [true, false] {
            way.way().in_doubt = true;
            let first = way.may_ask().await.unwrap();
            assert!(first.is_some());
            let second = way.may_ask();
            tokio::pin!(second);
            let waited = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
            assert!(waited.is_err(), "two asked at once");
            match refused {
                true => way.way().refusals += 1,
                false => way.way().in_doubt = false,
            }
            drop(first);
            assert_eq!(second.await.is_none(), refused);
        }
    }

    /// Two names that the CA refuses, each now and then, do not stop the others.
    #[test]
    fn only_refusals_in_a_row_are_about_more_than_their_names() {
        let (way, odd, strange) = (WayToCa::default(), DomainId::new(), DomainId::new());
        assert!(way.is_refused_in_a_row(odd), "another replica may have seen the one before");
        assert!(!way.is_refused_in_a_row(odd));
        assert!(way.is_refused_in_a_row(strange));
        way.way().record.done(DomainId::new(), AT);
        assert!(!way.is_refused_in_a_row(odd));
        assert!(way.is_refused_in_a_row(strange));
    }
}
