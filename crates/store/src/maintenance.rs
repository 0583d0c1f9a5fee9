//! What keeps the store small and whole: bounded, repeatable chores that any replica may do.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use crate::{Fence, Replica, Result};

/// How many events are folded into the counts in one transaction, and how many that are not folded yet a look at the counts reads.
pub const FOLDED: u32 = 10_000;

/// What `restored` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The new epoch of revisions.
    pub epoch: i64,
    /// Domains whose open order is to be read anew.
    pub orders: u64,
    /// Domains whose certificate is to be deployed and seen anew.
    pub deployments: u64,
}

/// Where a sweep over certificates by their end goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepCursor {
    /// The end of the last certificate seen.
    pub not_after: Timestamp,
    /// Its id.
    pub id: Uuid,
}

/// What a part of a sweep gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// How many domains were made due that nobody would have looked at in time.
    pub nudged: u64,
    /// How many were to be looked at later than any domain at rest is, and now are within hours.
    pub nearer: u64,
    /// Where to go on; none at the end.
    pub next: Option<SweepCursor>,
}

/// Chores. Those that write are singleton work: with a fence they commit only while its lease is held.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// A round trip to the database, which must take writes; gives its clock.
    async fn ping(&self) -> Result<Timestamp>;

    /// Why requests lately waited for a session with the database, or failed because of others who use it, if they did: a clause.
    fn shortage(&self) -> Option<String>;

    /// The newest migration applied, and the newest this release knows.
    async fn schema(&self) -> Result<(i64, i64)>;

    /// Can it be written? Fails with the cause if it cannot. Cheap, and not free: it writes a row.
    async fn check_writes(&self) -> Result<()>;

    /// Ends all use of the database. SQLite then has everything in its one file; elsewhere nothing needs to be done. Nothing is lost without it.
    async fn close(&self) -> Result<()> {
        Ok(())
    }

    /// How many bytes the log of SQLite has, which grows for as long as another process reads an old state; 0 elsewhere.
    async fn log_bytes(&self) -> u64 {
        0
    }

    /// Counts how much each edge is behind and refuses, for all who read it; gives of how many edges the numbers changed.
    async fn count_edges(&self, fence: Option<&Fence>) -> Result<u64>;

    /// Folds the settled tail of events into the counts per state, at most [`FOLDED`] of them; gives how many.
    async fn fold_counts(&self, fence: Option<&Fence>) -> Result<u64>;

    /// Drops changes of owner of leases older than this; at most `limit` of them.
    async fn prune_lease_history(
        &self,
        fence: Option<&Fence>,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64>;

    /// Forgets a part of what edges that are gone were seen serving: passes at most about `limit` observations, and gives how many of
    /// them it was. None when nothing is left of any such edge.
    async fn forget_departed(&self, fence: Option<&Fence>, limit: u32) -> Result<Option<u64>>;

    /// Is the lease of a fence still held? For effects outside of this database, which nothing can hold to it until their end.
    async fn check_fence(&self, fence: Option<&Fence>) -> Result<()>;

    /// Makes Active domains due that have no next look at all, or one that comes too late for their certificate: the safety net
    /// under renewals. Reads at most `limit` certificates by their end, from `after` on.
    async fn sweep_renewals(
        &self,
        fence: Option<&Fence>,
        after: Option<SweepCursor>,
        limit: u32,
    ) -> Result<Swept>;

    /// Brings up to date what the database's planner knows of its tables, where the database does not do so by itself; gives how often it did.
    async fn refresh_statistics(&self, fence: Option<&Fence>) -> Result<u64>;

    /// A move of certificates to another CA that was asked for and is not finished: the old directory.
    async fn moving_from(&self) -> Result<Option<String>>;

    /// Notes that certificates of `directory` are to be moved, or that none are left.
    async fn move_from(&self, fence: Option<&Fence>, directory: Option<&str>) -> Result<()>;

    /// Is another process of Holdfast connected to this database, or may one be about to come back: a replica that has not left? A
    /// backup holds replicas of its time, which are gone.
    async fn may_be_used_by_others(&self) -> Result<bool>;

    /// After the database was restored from a backup: the epoch rises, claims are void, every deployment is written anew, unfinished
    /// orders are looked at anew, and the CA is asked about every certificate.
    async fn restored(&self) -> Result<Restored> {
        self.restored_above(0, None).await
    }

    /// The same, with numbers above this epoch too: one that edges remember, given out by a restore under a clock that was ahead.
    /// Where replicas are given, as they were before, it is refused (`ReplicaRuns`) if one has given another sign of life by its commit.
    async fn restored_above(&self, epoch: i64, before: Option<&[Replica]>) -> Result<Restored>;
}

/// The latest second that numbers are made of: what is made of it still fits.
const LATEST: i64 = 4_000_000_000;

/// The highest epoch that a restore can go above.
pub const HIGHEST_EPOCH: i64 = LATEST << 15;

/// The first second of which every number is above this epoch's.
pub(crate) fn second_above(epoch: i64) -> i64 {
    if epoch <= 0 { 0 } else { (epoch.min(HIGHEST_EPOCH) >> 15) + 1 }
}
