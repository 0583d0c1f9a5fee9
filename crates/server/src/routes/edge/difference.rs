//! What an edge found when it compared itself with a restored database.

use axum::extract::State;
use holdfast_store::{NAMED, Names};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::body::{Body, Input, Object};
use crate::edge::AtEdge;
use crate::{AppState, Kind, Problem, field};

/// Names on which the edge and the database do not agree.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `unknown`")]
#[schema(as = EdgeDifference)]
pub(in crate::routes) struct DifferenceRequest {
    /// Served there, and not known to the database.
    #[schema(value_type = NamesRequest)]
    unknown: Object<NamesRequest>,
    /// To be served, and not served when the edge was told; absent or null where nothing changed.
    #[schema(value_type = Option<NamesRequest>)]
    absent: Option<Object<NamesRequest>>,
}

impl Input for DifferenceRequest {}

/// Some names, and how many there are.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `count` and `names`")]
#[schema(as = EdgeNames)]
struct NamesRequest {
    /// How many there are in all.
    count: u32,
    /// The first thousand of them.
    names: Vec<String>,
}

/// Takes what an edge found when it compared itself with the database.
#[utoipa::path(
    put, path = "/v1/edges/{edge}/difference", operation_id = "compareEdge", tag = "edge feed",
    params(("edge" = String, Path, description = "The edge's name")),
    request_body = DifferenceRequest,
    responses(
        (status = 204, description = "Taken"),
    ),
)]
pub(in crate::routes) async fn take(
    edge: AtEdge,
    State(state): State<AppState>,
    Body(request): Body<DifferenceRequest>,
) -> Result<StatusCode, Problem> {
    let unknown = names("unknown.names", request.unknown)?;
    let absent = request.absent.map(|given| names("absent.names", given)).transpose()?;
    let known = edge.known(&state).await?;
    let taken = state.store.keep_difference(known.id, &unknown, absent.as_ref()).await;
    taken.map_err(|error| edge.gone(error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn names(field: &str, Object(given): Object<NamesRequest>) -> Result<Names, Problem> {
    if given.names.len() > NAMED {
        let detail = format!("{} names were sent; send the first {NAMED}.", given.names.len());
        return Err(Problem::new(Kind::TooManyItems, detail));
    }
    let first = given.names.into_iter().map(|name| field::text(field, name, field::NAME));
    Ok(Names { count: given.count.into(), first: first.collect::<Result<_, _>>()? })
}
