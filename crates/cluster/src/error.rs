//! What can go wrong, named after the decision.

use holdfast_store::Outage;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The leases cannot be asked, or said no.
    #[error(transparent)]
    Lease(#[from] holdfast_lease::Error),
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] holdfast_store::Error),
    /// There is no such lease.
    #[error("there is no lease `{0}`; `holdfast lease list` shows those there are")]
    UnknownLease(String),
    /// Nobody holds the lease, so nobody can step down.
    #[error("nobody holds the lease `{0}`; whoever wants it takes it by itself")]
    NotHeld(String),
    /// There is no such replica, or it gave no sign of life lately.
    #[error("there is no healthy replica `{0}`; `holdfast replica list` shows those there are")]
    UnknownReplica(String),
    /// Another process came with this replica's name.
    #[error(
        "identity-taken: another process started as `{0}` and takes its place; give every replica a name of its own in [replicas] instance_id, or none"
    )]
    IdentityTaken(String),
    /// The database file, or its log, was deleted, renamed or replaced under this process.
    #[error(
        "the database {}; this process ends at once and has written nothing since. {}",
        .0.predicate(), .0.fix()
    )]
    DatabaseLost(Outage),
    /// Leases in Redis are fenced in PostgreSQL.
    #[error(
        "leases in Redis need PostgreSQL as the database, where their terms are registered; use coordination.backend = \"database\""
    )]
    NoPlaceToRegister,
}

impl From<holdfast_lease::StoreError> for Error {
    fn from(error: holdfast_lease::StoreError) -> Self {
        Self::Lease(error.into())
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
