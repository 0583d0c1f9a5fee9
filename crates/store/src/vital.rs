//! The vital signs of an installation, each read by an index and each bounded, so that asking costs the same at any size.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Domain, Hostname, State, Timestamp};

use crate::{Result, Revision};

/// How far is counted; more is told as this many.
pub const COUNTED: u32 = 10_000;

/// What waits, and for how long; what ends, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vitals {
    /// The store's clock.
    pub now: Timestamp,
    /// Domains that are due and in nobody's hands, up to [`COUNTED`].
    pub due: u64,
    /// When the first domain is, or was, due.
    pub next_due_at: Option<Timestamp>,
    /// Domains that wait for an order, up to [`COUNTED`].
    pub queued: u64,
    /// Since when the longest of them waits.
    pub queued_since: Option<Timestamp>,
    /// Orders that are open at CAs, up to [`COUNTED`].
    pub orders: u64,
    /// Challenges that can be answered, up to [`COUNTED`].
    pub challenges: u64,
    /// When the first certificate in use ends, or ended.
    pub first_expiry: Option<Timestamp>,
    /// Certificates in use that end within each of the spans asked for, up to [`COUNTED`].
    pub expiring: Vec<u64>,
    /// Messages to webhooks that are not over, up to [`COUNTED`].
    pub deliveries: u64,
}

/// A certificate in use whose end is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    /// The domain.
    pub name: Hostname,
    /// When its certificate began.
    pub not_before: Timestamp,
    /// When it ends.
    pub not_after: Timestamp,
}

/// Vital signs.
#[async_trait]
pub trait VitalSigns: Send + Sync {
    /// Reads them; `spans` are those of [`Vitals::expiring`].
    async fn vitals(&self, spans: &[Duration]) -> Result<Vitals> {
        self.vitals_from(spans, None).await
    }

    /// The same, without a look at what was due before `from`: for who knows that there is nothing.
    async fn vitals_from(&self, spans: &[Duration], from: Option<Timestamp>) -> Result<Vitals>;

    /// Domains that entered a working state longest ago, and before this long; a state that is none has none.
    async fn staying(&self, state: State, over: Duration, limit: u32) -> Result<Vec<Domain>>;

    /// When the first deployment that an edge of this group at this revision has not applied yet was written.
    async fn unapplied_since(&self, group: &str, at: Revision) -> Result<Option<Timestamp>>;

    /// Certificates in use that end within this long, the first to end first.
    async fn expiring(&self, within: Duration, limit: u32) -> Result<Vec<Expiring>>;
}
