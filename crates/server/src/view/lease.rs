//! Leases.

use holdfast_cluster::{LeaseEntry, LeaseView as Lease};
use holdfast_model::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseView {
    /// What is coordinated.
    name: String,
    /// Who holds it, or held it until it ran out; null when it was let go of.
    holder: Option<String>,
    /// The process of that replica.
    #[schema(value_type = Option<String>, format = Uuid)]
    incarnation: Option<String>,
    /// The fencing term of the holder, or of the last one.
    term: u64,
    /// When this holder came, or the last one went.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Until when it is held without renewal.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Is it held now?
    held: bool,
    /// How the holder ranks among candidates: older replicas higher.
    priority: i16,
    /// In whose favour the holder was asked to step down, or for whom it is reserved.
    successor: Option<String>,
}

impl From<Lease> for LeaseView {
    fn from(lease: Lease) -> Self {
        Self {
            name: lease.name,
            holder: lease.holder,
            incarnation: lease.incarnation.map(|incarnation| incarnation.to_string()),
            term: lease.term,
            since: lease.since,
            expires_at: lease.expires_at,
            held: lease.held,
            priority: lease.priority,
            successor: lease.successor,
        }
    }
}

/// One change of owner.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LeaseChange)]
pub(crate) struct LeaseEntryView {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Why: `created`, `released`, `reserved`, `expired`, `unchanged`, `reacquired`, `beacon-gone`, `departed`, `stepped-down` or `forced`.
    change: String,
    /// The term from then on.
    term: u64,
    /// Who held it before.
    from: Option<String>,
    /// Who holds it from then on.
    to: Option<String>,
    /// Who forced it; otherwise null.
    note: Option<String>,
}

impl From<LeaseEntry> for LeaseEntryView {
    fn from(entry: LeaseEntry) -> Self {
        Self {
            at: entry.at,
            change: entry.change.to_owned(),
            term: entry.term,
            from: entry.from,
            to: entry.to,
            note: entry.note,
        }
    }
}

/// A lease that was taken away.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReleasedLease)]
pub(crate) struct ReleasedView {
    /// Which.
    pub(crate) name: String,
    /// Its term from now on.
    pub(crate) term: u64,
}
