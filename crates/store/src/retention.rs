//! Retention: what is over is deleted, in small transactions that any replica may repeat.
//!
//! Each kind has a budget of its own, so that a flood of one keeps no other from being deleted. What is kept, and for how long, is in
//! docs/production.md.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Fence, Result};

/// What may be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outdated {
    /// Events that are about no domain, by when they happened.
    Notices,
    /// Transitions of domains that live, by when they happened.
    History,
    /// Removed domains with their history and certificates, by their removal. Their claims stay, so that a replay is told apart.
    Removed,
    /// Claims on a resource that never became a domain, by when they were released.
    Claims,
    /// Orders that have ended, by their end.
    Orders,
    /// Challenges, by when they were made: whatever became of their orders.
    Challenges,
    /// Certificates that were superseded, with their keys, by their end of validity.
    Certificates,
    /// Deployments that tell edges to stop serving a name, by when they were written. Edges that are further behind list anew.
    Tombstones,
    /// What waited for a CA, by when that was over.
    CaWaits,
}

impl Outdated {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Notices,
        Self::History,
        Self::Removed,
        Self::Claims,
        Self::Orders,
        Self::Challenges,
        Self::Certificates,
        Self::Tombstones,
        Self::CaWaits,
    ];

    /// Where the deletion stands in an error.
    pub(crate) const fn at(self) -> &'static str {
        match self {
            Self::Notices => "prune notices",
            Self::History => "prune history",
            Self::Removed => "prune removed domains",
            Self::Claims => "prune claims",
            Self::Orders => "prune orders",
            Self::Challenges => "prune challenges",
            Self::Certificates => "prune certificates",
            Self::Tombstones => "prune tombstones",
            Self::CaWaits => "prune waits",
        }
    }
}

/// What one bounded step of singleton work did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// How much.
    pub done: u64,
    /// Is there more to do at once?
    pub more: bool,
}

impl Progress {
    /// Of a step that was to do at most `limit`: there may be more if it did as much.
    #[must_use]
    pub fn of(done: u64, limit: u32) -> Self {
        Self { done, more: done > 0 && done >= u64::from(limit) }
    }
}

impl From<u64> for Progress {
    fn from(done: u64) -> Self {
        Self { done, more: false }
    }
}

/// Deleting what is over. Singleton work: with a fence it commits only while its lease is held.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Deletes about `limit` rows at most of what has been over for longer than `age`, the oldest first. Events go only after they
    /// were folded into the counts.
    async fn prune(
        &self,
        fence: Option<&Fence>,
        what: Outdated,
        age: Duration,
        limit: u32,
    ) -> Result<Progress>;
}
