//! Orders at the directory of another configuration. While a directory is changed, replicas of both live side by side: each goes on with
//! the orders of its own CA, and leaves the other's alone for as long as a replica that can work on them lives. Then they are given up.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdfast_model::Outcome;
use holdfast_store::{AccountId, Claimed, Error, OtherAccount};
use tokio::time::Instant;

use crate::dispatch::Shared;

/// A replica without a sign of life for this long does not go on with its orders. Longer than any beat: an order that is given up too
/// early may be finalized twice.
const SILENT: Duration = Duration::from_secs(300);
/// An account counts as served until it was seen for so long that no replica orders with it: after an outage of the store, others need
/// a moment to show that they live, and one that was pruned alive is not seen until it says again where it orders.
const GRACE: Duration = Duration::from_secs(60);
/// How often this replica says again at which directory it orders: its row goes when it is pruned alive.
const SAID_EVERY: Duration = Duration::from_secs(30);
/// How often it is asked who is there.
const EVERY: Duration = Duration::from_secs(5);

/// The accounts of other directories, as last seen.
#[derive(Default)]
pub(crate) struct Elsewhere(Mutex<Known>);

#[derive(Default)]
struct Known {
    asked_at: Option<Instant>,
    said_at: Option<Instant>,
    others: Vec<OtherAccount>,
    /// Since when nobody is seen to order with these.
    unserved: HashMap<AccountId, Instant>,
    /// Those that were served when it was last asked whether that changed.
    served: Vec<AccountId>,
}

/// Whose an open order is.
enum Whose {
    Ours,
    /// Another directory's, and a replica lives that orders there.
    Served,
    /// Another directory's, and nobody is left.
    Nobodys,
}

impl Elsewhere {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks who is there, if it is time to. Gives whether others are served now than at the last look.
    pub(crate) async fn look(&self, shared: &Shared) -> Result<bool, Error> {
        let is_fresh = |at: Instant| at.elapsed() < EVERY;
        if !self.known().asked_at.is_some_and(is_fresh) {
            self.ask(shared).await?;
        }
        Ok(self.has_changed())
    }

    /// Time alone changes who is served: a grace ends between two questions.
    fn has_changed(&self) -> bool {
        let served = self.served();
        let before = std::mem::replace(&mut self.known().served, served.clone());
        before != served
    }

    async fn ask(&self, shared: &Shared) -> Result<(), Error> {
        self.say(shared).await?;
        let others = shared.store.other_accounts(shared.ca.directory(), SILENT).await?;
        self.seen(others);
        Ok(())
    }

    fn seen(&self, others: Vec<OtherAccount>) {
        let mut known = self.known();
        let now = Instant::now();
        known.asked_at = Some(now);
        known
            .unserved
            .retain(|id, _| others.iter().any(|other| other.id == *id && !other.is_served));
        for other in others.iter().filter(|other| !other.is_served) {
            known.unserved.entry(other.id).or_insert(now);
        }
        known.others = others;
    }

    /// Says at which directory this replica orders.
    async fn say(&self, shared: &Shared) -> Result<(), Error> {
        let is_due = |at: Instant| at.elapsed() >= SAID_EVERY;
        if self.known().said_at.is_none_or(is_due) {
            let who = &shared.config.claimant;
            let directory = shared.ca.directory();
            shared.store.serve_directory(&who.instance, who.incarnation, directory).await?;
            self.known().said_at = Some(Instant::now());
        }
        Ok(())
    }

    /// The accounts that a live replica orders with, or did a moment ago.
    pub(crate) fn served(&self) -> Vec<AccountId> {
        let known = self.known();
        let lately = |id| known.unserved.get(&id).is_some_and(|since| since.elapsed() < GRACE);
        let served = |other: &&OtherAccount| other.is_served || lately(other.id);
        known.others.iter().filter(served).map(|other| other.id).collect()
    }

    fn is_served(&self, account: AccountId) -> bool {
        self.served().contains(&account)
    }

    /// Whose the open order of a domain is. With one directory ever, nobody is asked.
    async fn whose(
        &self,
        shared: &Shared,
        claimed: &Claimed,
        knowledge: Knowledge,
    ) -> Result<Whose, Error> {
        if knowledge == Knowledge::New {
            self.ask(shared).await?;
        }
        let is_other = |account| self.known().others.iter().any(|other| other.id == account);
        if !claimed.domain.order_open || self.known().others.is_empty() {
            return Ok(Whose::Ours);
        }
        let order = shared.store.order_account(claimed.domain.id).await?;
        let Some(account) = order.filter(|account| is_other(*account)) else {
            return Ok(Whose::Ours);
        };
        // They may have come since.
        self.ask(shared).await?;
        Ok(if self.is_served(account) { Whose::Served } else { Whose::Nobodys })
    }
}

/// What to do first with a domain whose order belongs to another CA's account; none: go on.
pub(crate) enum Instead {
    /// Leave it to those that can go on with it.
    Leave,
    /// The order is given up.
    Abandon(Outcome),
}

/// Which accounts to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Those that were there a moment ago.
    Kept,
    /// Those that are there now.
    New,
}

/// What to do instead of the next step.
pub(crate) async fn instead(
    shared: &Shared,
    claimed: &Claimed,
    knowledge: Knowledge,
) -> Result<Option<Instead>, Error> {
    Ok(match shared.elsewhere.whose(shared, claimed, knowledge).await? {
        Whose::Ours => None,
        Whose::Served => Some(Instead::Leave),
        Whose::Nobodys => {
            tracing::info!(domain = %claimed.domain.name, "its order was at another CA's directory; it is ordered here instead");
            Some(Instead::Abandon(Outcome::OrderAbandoned))
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use uuid::Uuid;

    use super::*;

    fn other(is_served: bool) -> Vec<OtherAccount> {
        vec![OtherAccount { id: AccountId(Uuid::nil()), is_served }]
    }

    /// Domains that were left to other replicas can be claimed from then on, so the change must be reported exactly once.
    #[tokio::test(start_paused = true)]
    async fn that_nobody_is_left_is_told_once() {
        let elsewhere = Elsewhere::default();
        assert!(!elsewhere.has_changed());
        elsewhere.seen(other(true));
        assert!(elsewhere.has_changed() && !elsewhere.has_changed());
        elsewhere.seen(other(false));
        assert!(!elsewhere.has_changed(), "it may come back");
        advance(GRACE).await;
        elsewhere.seen(other(false));
        assert!(elsewhere.has_changed() && !elsewhere.has_changed());
        elsewhere.seen(other(true));
        assert!(elsewhere.has_changed());
    }

    /// Its row went right after it had said where it orders; it says so again, and is asked for no later than that.
    #[tokio::test(start_paused = true)]
    async fn a_replica_that_was_pruned_alive_is_not_gone() {
        let elsewhere = Elsewhere::default();
        elsewhere.seen(other(true));
        let pruned = Instant::now();
        while pruned.elapsed() < SAID_EVERY + EVERY {
            elsewhere.seen(other(false));
            advance(EVERY).await;
            assert!(elsewhere.is_served(AccountId(Uuid::nil())), "{:?}", pruned.elapsed());
        }
    }
}
