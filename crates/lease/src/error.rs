//! What can go wrong, named after the operation or the decision.

use crate::identity::{Holder, Name, Term};

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name or a holder that cannot be one.
    #[error("{what} {text:?} {fault}")]
    Identity {
        /// What it was to be.
        what: &'static str,
        /// The text, cut if long.
        text: String,
        /// Why not.
        fault: &'static str,
    },
    /// Options that cannot keep a lease safely.
    #[error("unsafe lease options: {0}")]
    UnsafeOptions(String),
    /// The store could not be reached, or answered with an error; whether the request acted is unknown.
    #[error("the lease store failed")]
    Store(#[source] StoreError),
    /// A store whose acknowledged writes can be lost was not asked for by name.
    #[error(
        "{0} can lose acknowledged leases in a failover: say weak_store = true if every effect is fenced elsewhere"
    )]
    WeakStore(&'static str),
    /// A beacon was asked for where the store has none.
    #[error("this store has no beacons: only leases in PostgreSQL can have one")]
    NoBeacon,
    /// A URL that names no store.
    #[error("not a store's address: {0}")]
    Address(String),
    /// Someone else holds the lease.
    #[error("{name} is held by {holder} (term {term}) since {since}, until {until}")]
    Held {
        /// The lease.
        name: Name,
        /// Who holds it.
        holder: Holder,
        /// Under which term.
        term: Term,
        /// Since when, by the store's clock.
        since: crate::row::StoreTime,
        /// Until when, unless renewed.
        until: crate::row::StoreTime,
    },
    /// The lease is kept for a named successor.
    #[error("{name} is reserved for {successor} until {until}")]
    Reserved {
        /// The lease.
        name: Name,
        /// For whom.
        successor: Holder,
        /// Until when.
        until: crate::row::StoreTime,
    },
    /// The lease ended before the work did.
    #[error("the lease {name} was lost in term {term}: {why}")]
    LeaseLost {
        /// The lease.
        name: Name,
        /// The term that ended.
        term: Term,
        /// Why.
        why: crate::event::Loss,
    },
    /// This term, or this incarnation, does not hold the lease: a guarded write was refused.
    #[error("term {term} of {name} no longer holds")]
    Fenced {
        /// The lease.
        name: Name,
        /// The term refused.
        term: Term,
    },
    /// The lease is not contended for by this elector.
    #[error("this elector does not contend for {0}")]
    UnknownLease(Name),
    /// The elector has ended.
    #[error("the elector has shut down")]
    ShutDown,
    /// A term header that no holder of the key made, or that is too old.
    #[error("the term header is {0}")]
    TermHeader(&'static str),
    /// No answer within the time limit.
    #[error("no answer within {0:?}")]
    TimedOut(std::time::Duration),
}

/// What a store says when it fails: its own words, kept as the source.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// Wraps the words of a store's client library.
    pub fn new(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { doing, source: source.into() }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
