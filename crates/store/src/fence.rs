//! Fences: a write of singleton work commits only while its lease is held, in the term it was begun in.
//!
//! The store knows a lease as a row to look at within a transaction; how leases are won is not its business.

use std::time::Duration;

use uuid::Uuid;

use crate::Error;

/// The right to write under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lease.
    pub lease: String,
    /// The term it is held in.
    pub term: i64,
    /// The process that holds it.
    pub incarnation: Uuid,
    /// How long a statement under it may take: at most a third of the lease.
    pub limit: Duration,
    /// Where the lease is kept.
    pub kept: LeaseHome,
}

tokio::task_local! {
    static AMBIENT: Fence;
}

impl Fence {
    /// Does work whose every write to PostgreSQL commits only while the lease is held, as if each call had been given this fence. What
    /// the work spawns is not part of it. SQLite serves one process, which nobody can have succeeded.
    pub async fn around<T>(self, work: impl Future<Output = T>) -> T {
        AMBIENT.scope(self, work).await
    }

    pub(crate) fn ambient() -> Option<Self> {
        AMBIENT.try_with(Clone::clone).ok()
    }

    pub(crate) fn refusal(&self) -> Error {
        Error::Fenced { lease: self.lease.clone(), term: self.term }
    }
}

/// Where a lease is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseHome {
    /// In this database.
    Here,
    /// Elsewhere; its terms are registered in this database.
    Registered,
}
