//! What keeps the store small and whole: bounded, repeatable chores that any replica may do.

use async_trait::async_trait;
use holdfast_model::Timestamp;

use crate::Result;

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

/// Chores.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// A round trip to the database; gives its clock.
    async fn ping(&self) -> Result<Timestamp>;

    /// The newest migration applied, and the newest this release knows.
    async fn schema(&self) -> Result<(i64, i64)>;

    /// Folds the settled tail of events into the counts per state.
    async fn fold_counts(&self) -> Result<u64>;

    /// Drops challenges older than ten days.
    async fn sweep_challenges(&self) -> Result<u64>;

    /// Drops notices older than `days`, and the history of domains removed longer ago than that; at most `limit` rows.
    async fn prune_events(&self, days: u32, limit: u32) -> Result<u64>;

    /// A move of certificates to another CA that was asked for and is not finished: the old directory.
    async fn moving_from(&self) -> Result<Option<String>>;

    /// Notes that certificates of `directory` are to be moved, or that none are left.
    async fn move_from(&self, directory: Option<&str>) -> Result<()>;

    /// After the database was restored from a backup: the epoch rises, claims are void, every deployment
    /// is written anew and unfinished orders are looked at anew.
    async fn restored(&self) -> Result<Restored>;
}
