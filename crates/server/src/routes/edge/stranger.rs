//! Everything that is not as it should be at an edge: names it refuses, files that are none of ours.

use axum::Json;
use axum::extract::State;

use crate::auth::Anyone;
use crate::page::{self, List, PageParams};
use crate::path::Segment;
use crate::query::Params;
use crate::view::{RefusalView, StrangerView};
use crate::{AppState, Problem};

/// The files at an edge that are none of ours.
#[utoipa::path(
    get, path = "/v1/edges/{edge}/strangers", operation_id = "listStrangers", tag = "edges",
    params(("edge" = String, Path, description = "The edge's name"), PageParams),
    responses(
        (status = 200, description = "A part of the list, by file", body = List<StrangerView>),
    ),
)]
pub(in crate::routes) async fn list(
    Anyone(caller): Anyone,
    State(state): State<AppState>,
    Segment(name): Segment,
    mut params: Params,
) -> Result<Json<List<StrangerView>>, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let edge = super::seen_by(&state, &caller, &name).await?;
    let strangers = state.store.strangers(edge.id, &page).await?;
    Ok(Json(List::of(strangers, StrangerView::from)))
}

/// The names that an edge does not serve as desired.
#[utoipa::path(
    get, path = "/v1/edges/{edge}/refusals", operation_id = "listRefusals", tag = "edges",
    params(("edge" = String, Path, description = "The edge's name"), PageParams),
    responses(
        (status = 200, description = "A part of the list, by name", body = List<RefusalView>),
    ),
)]
pub(in crate::routes) async fn refusals(
    Anyone(caller): Anyone,
    State(state): State<AppState>,
    Segment(name): Segment,
    mut params: Params,
) -> Result<Json<List<RefusalView>>, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let edge = super::seen_by(&state, &caller, &name).await?;
    let refusals = state.store.refusals(edge.id, &page).await?;
    Ok(Json(List::of(refusals, RefusalView::from)))
}
