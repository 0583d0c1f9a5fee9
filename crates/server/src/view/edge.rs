//! An edge.

use holdfast_model::Timestamp;
use holdfast_store::{Edge, Revision};
use serde::Serialize;
use utoipa::ToSchema;

use super::NoteView;

/// A point in the history of what is to be served.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Revision)]
pub(crate) struct RevisionView {
    /// Rises when a backup was restored.
    epoch: i64,
    /// Rises with every deployment.
    number: i64,
}

impl From<Revision> for RevisionView {
    fn from(Revision { epoch, number }: Revision) -> Self {
        Self { epoch, number }
    }
}

/// An edge as last heard of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Edge)]
pub(crate) struct EdgeView {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// Its name.
    name: String,
    /// Which domains it serves.
    group: String,
    /// Did it report within the last 30 s?
    live: bool,
    /// When it last reported.
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
    /// Up to where it has applied.
    revision: RevisionView,
    /// How many deployments of its group are newer.
    behind: u64,
    /// What it last complained of.
    last_error: Option<NoteView>,
}

impl From<Edge> for EdgeView {
    fn from(edge: Edge) -> Self {
        Self {
            id: edge.id.0.to_string(),
            name: edge.name,
            group: edge.group,
            live: edge.live,
            last_seen_at: edge.last_seen_at,
            revision: edge.revision.into(),
            behind: edge.behind,
            last_error: edge.last_error.map(NoteView::from),
        }
    }
}
