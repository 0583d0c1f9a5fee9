//! Removing an edge: one that is gone for good is neither waited for nor complained about any longer.

use axum::Json;
use axum::extract::State;

use crate::auth::Admin;
use crate::path::Segment;
use crate::view::RemovedEdgeView;
use crate::{AppState, Problem};

/// Forgets an edge and ends its tokens. Whoever is still there and has a valid token registers as a new one.
#[utoipa::path(
    delete, path = "/v1/edges/{edge}", operation_id = "removeEdge", tag = "edges",
    params(("edge" = String, Path, description = "The edge's name")),
    responses(
        (status = 200, description = "Forgotten", body = RemovedEdgeView),
    ),
)]
pub(in crate::routes) async fn remove(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
) -> Result<Json<RemovedEdgeView>, Problem> {
    let removed = state.store.remove_edge(&name, &state.actor(&caller)).await?;
    let removed = removed.ok_or_else(|| super::none(&name))?;
    Ok(Json(RemovedEdgeView::new(name, removed)))
}
