//! How this replica is.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) enum HealthStatus {
    /// As it should be.
    Healthy,
    /// Working, with less than all.
    Degraded,
    /// Not working.
    Unhealthy,
}

/// How one part is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthResult {
    /// How good.
    pub(crate) status: HealthStatus,
    /// In a sentence.
    pub(crate) description: String,
    /// Facts.
    #[schema(value_type = Object)]
    pub(crate) data: Map<String, Value>,
}

/// How this replica is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthView {
    /// All in all.
    pub(crate) status: HealthStatus,
    /// Part by part.
    pub(crate) results: BTreeMap<&'static str, HealthResult>,
}
