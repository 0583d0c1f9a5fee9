//! Claims: one orchestration owns a resource, and optionally a name, at a time.

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname, Timestamp};

use crate::Result;

/// Who holds what was asked for. Never the orchestration id: that is the key to the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The holder's resource.
    pub resource: String,
    /// Since when.
    pub since: Timestamp,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The operator's own key.
    pub resource: String,
    /// A name, or none; none never conflicts.
    pub name: Option<Hostname>,
    /// The idempotency key.
    pub orchestration_id: String,
}

/// A claim, live or released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The operator's own key.
    pub resource: String,
    /// The name, if it holds one.
    pub name: Option<Hostname>,
    /// Whose it is.
    pub orchestration_id: String,
    /// The domain that lives on it.
    pub domain_id: Option<DomainId>,
    /// Since when.
    pub created_at: Timestamp,
    /// Given back.
    pub released_at: Option<Timestamp>,
}

/// Claims.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Claims, or finds the same orchestration's claim (`false`). Refused with the holder otherwise.
    async fn claim_resource(&self, request: &ClaimRequest) -> Result<(Claim, bool)>;

    /// The live claim on a resource, else its latest released one.
    async fn claim_on(&self, resource: &str) -> Result<Option<Claim>>;

    /// Gives a claim back; only its own orchestration may, and only without a live domain. Again is the same.
    async fn release_resource(&self, resource: &str, orchestration_id: &str) -> Result<Claim>;
}
