//! Where an agent learns what to serve and tells what it saw.
//!
//! Nothing here may assume that the control plane is in the same process: every call can be slow, can fail,
//! and can be given up on. Waiting is a long poll, so that the control plane never dials in.

mod http;
mod session;
mod store;

use std::time::Duration;

use async_trait::async_trait;
use holdfast_store::{Adoption, Bundle, Change, Changes, EdgeReport, Names, Revision};

use crate::Result;

pub use self::http::{HttpFeed, HttpFeedConfig};
pub use self::store::StoreFeed;

/// What an edge is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// What changed.
    pub changes: Changes,
    /// Files a person wants taken over; told again until the edge has said how it went.
    pub adoptions: Vec<Adoption>,
}

impl From<Changes> for News {
    fn from(changes: Changes) -> Self {
        Self { changes, adoptions: Vec::new() }
    }
}

/// Everything that is to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// In no particular order; no tombstones.
    pub items: Vec<Change>,
    /// As of; what came later is to be had as changes.
    pub revision: Revision,
}

/// Where the certificate of a change is had.
#[async_trait]
pub trait Bundles: Send + Sync {
    /// What is deployed for the change's name now, which may be newer than the change; none when nothing is.
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>>;
}

/// The control plane, as an edge sees it.
#[async_trait]
pub trait Feed: Bundles {
    /// Makes the edge known, or finds it again. Gives the revision up to which it has reported.
    async fn register(&self) -> Result<Revision>;

    /// What came after `after`, at most `limit`; when nothing has, waits for it, at most `wait`. Fails with
    /// [`RevisionGone`](crate::Error::RevisionGone) when that is not kept any more. Dropping the call half-way is harmless.
    async fn changes(&self, after: Revision, limit: u32, wait: Duration) -> Result<News>;

    /// Everything that is to be served; whole, or an error.
    async fn desired(&self) -> Result<Listing>;

    /// Tells which names the edge serves and the control plane, since its database was restored, does not know; and which it is to
    /// serve and did not, where that is new.
    async fn difference(&self, unknown: &Names, absent: Option<&Names>) -> Result<()>;

    /// Hands a report over; without observations it is the sign of life. Its order is the feed's to give: that of these calls. Fails with
    /// [`Unregistered`](crate::Error::Unregistered) when the edge is not known any more.
    async fn report(&self, report: &EdgeReport) -> Result<()>;
}
