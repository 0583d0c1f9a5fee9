//! Replicas: who is there, since when, and who gave a sign of life lately. All by the store's clock.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use crate::{Fence, Result};

/// A replica that makes itself known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplica {
    /// The name people know it by.
    pub instance: String,
    /// This start of it.
    pub incarnation: Uuid,
    /// How others reach it.
    pub url: String,
    /// What it does.
    pub role: String,
    /// Its release.
    pub version: String,
}

/// A replica, as last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The name people know it by.
    pub instance: String,
    /// This start of it.
    pub incarnation: Uuid,
    /// How others reach it.
    pub url: String,
    /// What it does.
    pub role: String,
    /// Its release.
    pub version: String,
    /// When its name was first heard of: the order of age.
    pub registered_at: Timestamp,
    /// When its process made itself known.
    pub started_at: Timestamp,
    /// When it last gave a sign of life.
    pub last_heartbeat_at: Timestamp,
    /// Was that within the time after which one counts as gone?
    pub healthy: bool,
    /// Is it about to end?
    pub draining: bool,
}

impl Replica {
    /// One of these that gave a sign of life since those before were read.
    #[must_use]
    pub fn heard_since<'a>(before: &[Self], now: &'a [Self]) -> Option<&'a Self> {
        let is_same = |one: &Self, other: &Self| {
            one.incarnation == other.incarnation && one.last_heartbeat_at == other.last_heartbeat_at
        };
        now.iter().find(|one| !before.iter().any(|other| is_same(one, other)))
    }
}

/// What a sign of life was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beat {
    /// Heard; these are all replicas, oldest first.
    Heard(Vec<Replica>),
    /// Another process bears the name now.
    Replaced,
    /// The name is not known (any more).
    Unknown,
}

/// Replicas.
#[async_trait]
pub trait Replicas: Send + Sync {
    /// Makes a replica known. A known name keeps its place in the order of age; a process that bore it before is replaced. Gives
    /// whether that one was alive.
    async fn register_replica(&self, new: &NewReplica, stale: Duration) -> Result<bool>;

    /// A sign of life.
    async fn beat(
        &self,
        instance: &str,
        incarnation: Uuid,
        draining: bool,
        stale: Duration,
    ) -> Result<Beat>;

    /// All that have not left, oldest first.
    async fn replicas(&self, stale: Duration) -> Result<Vec<Replica>>;

    /// It leaves in order.
    async fn deregister_replica(&self, instance: &str, incarnation: Uuid) -> Result<()>;

    /// Forgets those that have been silent for longer than this.
    async fn prune_replicas(&self, fence: Option<&Fence>, silent: Duration) -> Result<u64>;
}
