//! Edges, as last heard of.

use axum::Json;
use axum::extract::State;
use holdfast_store::Scope;

use crate::auth::Anyone;
use crate::page::List;
use crate::view::EdgeView;
use crate::{AppState, Problem};

/// Lists the edges; an edge's token sees its own group.
#[utoipa::path(
    get, path = "/v1/edges", operation_id = "listEdges", tag = "edges",
    responses(
        (status = 200, description = "All edges", body = List<EdgeView>),
    ),
)]
pub(super) async fn list(
    Anyone(caller): Anyone,
    State(state): State<AppState>,
) -> Result<Json<List<EdgeView>>, Problem> {
    let edges = state.store.edges().await?;
    let visible =
        |group: &str| caller.scope != Scope::Edge || caller.group.as_deref() == Some(group);
    let edges = edges.into_iter().filter(|edge| visible(&edge.group)).map(EdgeView::from);
    Ok(Json(List::whole(edges.collect())))
}
