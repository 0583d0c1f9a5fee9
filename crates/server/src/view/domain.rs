//! A domain.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_model::{Domain, Timestamp};
use holdfast_store::{DeploymentStatus, Seen};
use serde::Serialize;
use utoipa::ToSchema;

use super::{CertificateView, NoteView, RecordView, alternatives};
use crate::auth::Caller;
use crate::openapi::StateName;

/// What is served at the edges that are live and whose proxies answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Serving {
    /// SHA-256 of the leaf, lower-case hex.
    sha256: String,
    /// Its end of validity; null for a certificate that is none of ours.
    #[schema(value_type = Option<String>, format = DateTime)]
    not_after: Option<Timestamp>,
    /// When it was last seen in a handshake.
    #[schema(value_type = String, format = DateTime)]
    seen_at: Timestamp,
    /// The edges of its group.
    edges: ServingEdges,
}

/// The edges of a group, counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServingEdges {
    /// Reported lately.
    live: u32,
    /// Of those, do not show the newest.
    behind: u32,
}

impl Serving {
    /// What a deployment says of a domain; none when no edge that could serve it now was seen to.
    pub(crate) fn of(deployment: DeploymentStatus) -> Option<Self> {
        let Seen { sha256, not_after, at } = deployment.seen?;
        let behind = deployment.live.saturating_sub(deployment.serving);
        let edges = ServingEdges { live: deployment.live, behind };
        Some(Self { sha256, not_after, seen_at: at, edges })
    }
}

/// A custom domain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Domain)]
pub(crate) struct DomainView {
    /// For ever.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// Lower-case A-labels.
    name: String,
    /// The operator's own key for whose it is.
    tenant: Option<String>,
    /// The operator's own key for what is hosted there; the id where none was given.
    resource: String,
    /// The CNAME value for this customer.
    target: String,
    /// Which edges serve it.
    edge_group: String,
    /// The operator's own labels.
    labels: BTreeMap<String, String>,
    /// The idempotency key; null for scope `read`.
    orchestration_id: Option<String>,
    /// Where it stands.
    #[schema(value_type = StateName)]
    state: String,
    /// What live edges are seen serving; null before, while none serves anything for it, and with `[edge] mode = "none"`.
    serving: Option<Serving>,
    /// How often this state was tried.
    attempt: u32,
    /// When it is tried next.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// The cause of the latest failure, until a success.
    last_error: Option<NoteView>,
    /// What the customer must set: alternatives, each a list of records.
    required_dns: Vec<Vec<RecordView>>,
    /// The newest certificate.
    certificate: Option<CertificateView>,
    /// What a person asked for and is not done yet: `retry` or `renew`.
    wanted: Option<&'static str>,
    /// Since when it is being removed.
    #[schema(value_type = Option<String>, format = DateTime)]
    removing_since: Option<Timestamp>,
    /// When it was added.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// For If-Match.
    version: i64,
}

impl DomainView {
    /// Shows a domain to a caller.
    pub(crate) fn new(
        domain: Domain,
        serving: Option<Serving>,
        addresses: &[IpAddr],
        caller: &Caller,
    ) -> Self {
        let shown = caller.sees_orchestration_ids();
        Self {
            required_dns: alternatives(&domain, addresses),
            state: domain.state_name().to_owned(),
            id: domain.id.to_string(),
            name: domain.name.to_string(),
            tenant: domain.tenant,
            resource: domain.resource,
            target: domain.target.to_string(),
            edge_group: domain.edge_group,
            labels: domain.labels,
            orchestration_id: Some(domain.orchestration_id).filter(|_| shown),
            serving,
            attempt: domain.attempt,
            next_attempt_at: domain.next_attempt_at,
            last_error: domain.last_error.map(NoteView::from),
            certificate: domain.certificate.map(CertificateView::from),
            wanted: domain.wanted.map(holdfast_model::Wanted::as_str),
            removing_since: domain.removing_since,
            created_at: domain.created_at,
            updated_at: domain.updated_at,
            version: domain.version,
        }
    }

    /// Its place, for `Location`.
    pub(crate) fn location(&self) -> String {
        format!("/v1/domains/{}", self.id)
    }

    /// Its version as an entity tag.
    pub(crate) fn etag(&self) -> String {
        format!("\"{}\"", self.version)
    }
}
