//! What every store must do, as a suite that any store can run, also one written elsewhere.
//!
//! ```no_run
//! # use holdfast_lease::conformance::{Harness, OpenGuard, run};
//! # use holdfast_lease::store::{MemoryStore, Store};
//! struct Mine(MemoryStore);
//!
//! #[async_trait::async_trait]
//! impl Harness for Mine {
//!     async fn store(&self) -> Box<dyn Store> {
//!         Box::new(self.0.clone())
//!     }
//! }
//!
//! # async fn test() {
//! let failures = run(&Mine(MemoryStore::new())).await;
//! assert!(failures.is_empty(), "{failures:#?}");
//! # }
//! ```

mod administration;
mod beacon;
mod guard;
mod handover;
mod ownership;
mod random;
mod scene;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::identity::{Incarnation, Name, Term};
use crate::store::Store;

/// What the suite needs of a store under test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Another connection to the same leases.
    async fn store(&self) -> Box<dyn Store>;

    /// Opens a guard as a holder's transaction does, if writes can be guarded in this store.
    async fn guard(
        &self,
        name: &Name,
        incarnation: Incarnation,
        term: Term,
    ) -> Option<Box<dyn OpenGuard>> {
        let _ = (name, incarnation, term);
        None
    }
}

/// A transaction that was let in by the guard and is still open.
#[async_trait]
pub trait OpenGuard: Send {
    /// Commits it.
    async fn commit(self: Box<Self>);
}

/// A requirement that is not met.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The requirement.
    pub requirement: &'static str,
    /// What happened instead.
    pub why: String,
}

/// The outcome of one check.
type Verdict = Result<(), String>;

/// One check.
type Check = for<'a> fn(&'a dyn Harness) -> BoxFuture<'a, Verdict>;

macro_rules! checks {
    ($($path:path: $requirement:literal,)*) => {
        const CHECKS: &[(&str, Check)] = &[$(($requirement, |harness| Box::pin($path(harness)))),*];
    };
}

checks! {
    ownership::first_acquire_wins: "the first to acquire gets term 1",
    ownership::second_is_refused: "the second is refused, and told who holds it, since when and until when",
    ownership::renewal_keeps_the_term: "a renewal keeps the term and moves the expiry",
    ownership::beats_are_the_owners_time: "a renewal notes its sender's time, and never one that was shown before",
    ownership::strangers_cannot_renew: "another incarnation, or another term, renews nothing",
    ownership::strangers_cannot_release: "another incarnation, or another term, releases nothing",
    ownership::terms_survive_release: "a release keeps the row, and the next term is higher",
    ownership::expired_can_be_taken: "an expired lease can be taken, and its owner learns by whom",
    ownership::a_lost_reply_does_not_lock_out: "an owner that asks again is granted the same term",
    ownership::an_ended_term_is_not_granted_again: "an owner that saw its term end is granted a higher one",
    ownership::terms_rise_above_what_is_known: "the term granted is above the one named",
    ownership::late_requests_do_nothing: "a request past its time does nothing",
    ownership::one_of_many_wins: "of many that acquire at once one wins",
    ownership::batches_are_answered_in_order: "a batch of renewals is answered in the order asked",
    ownership::survives_a_cut_connection: "a store reconnects by itself",
    handover::unchanged_can_be_taken: "a row seen unchanged can be taken in exactly that state",
    handover::a_successor_goes_first: "a lease reserved for a successor is refused to others until it expires",
    handover::an_owner_can_be_asked: "a request to step down reaches the owner with its renewal",
    handover::only_lower_priorities_are_asked: "a request over a priority leaves equals and betters alone",
    handover::waiters_are_woken: "a release and a request to step down wake those who listen",
    administration::force_raises_the_term: "a forced release raises the term and is noted",
    administration::history_is_kept: "every change of owner is in the history, newest first, in pages",
    administration::history_is_pruned: "the history can be pruned, the leases stay",
    administration::leases_are_listed: "leases are listed by name, in pages",
    guard::renewal_passes_an_open_guard: "renewal and release succeed while a guard is open",
    guard::takeover_waits_for_an_open_guard: "no other owner while a guard is open",
    beacon::a_dark_owner_is_followed: "a row is taken from an owner whose beacon is gone, and from no other",
    random::follows_the_rules: "a random history is answered as the rules say",
}

/// Runs all checks, each on leases of its own, and returns those that failed.
pub async fn run(harness: &dyn Harness) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (requirement, check) in CHECKS {
        if let Err(why) = check(harness).await {
            failures.push(Failure { requirement, why });
        }
    }
    failures
}

/// Says what was expected, and returns from the check if it is not so.
macro_rules! demand {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
use demand;
