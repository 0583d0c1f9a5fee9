//! A claim.

use holdfast_model::Timestamp;
use holdfast_store::Claim;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Caller;

/// A claim on a resource and perhaps a name, live or released.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
pub(crate) struct ClaimView {
    /// The operator's own key.
    resource: String,
    /// The name, if it holds one.
    name: Option<String>,
    /// Whose it is; null for scope `read`.
    orchestration_id: Option<String>,
    /// The domain that lives on it.
    #[schema(value_type = Option<String>, format = Uuid)]
    domain_id: Option<String>,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Given back.
    #[schema(value_type = Option<String>, format = DateTime)]
    released_at: Option<Timestamp>,
}

impl ClaimView {
    /// Shows a claim to a caller.
    pub(crate) fn new(claim: Claim, caller: &Caller) -> Self {
        let shown = caller.sees_orchestration_ids();
        Self {
            resource: claim.resource,
            name: claim.name.map(|name| name.to_string()),
            orchestration_id: Some(claim.orchestration_id).filter(|_| shown),
            domain_id: claim.domain_id.map(|id| id.to_string()),
            created_at: claim.created_at,
            released_at: claim.released_at,
        }
    }
}
