//! Leases: who holds what, what happened before, and taking one away.

use axum::Json;
use axum::extract::State;
use holdfast_store::Paged;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::{Admin, Reader};
use crate::body::{Body, Input};
use crate::page::{self, List, PageParams};
use crate::path::Segment;
use crate::query::Params;
use crate::view::{LeaseEntryView, LeaseView, ReleasedView};
use crate::{AppState, Kind, Problem, field};

/// Lists the leases: who holds which, since when, in which term.
#[utoipa::path(
    get, path = "/v1/leases", operation_id = "listLeases", tag = "leases",
    responses(
        (status = 200, description = "All leases", body = List<LeaseView>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<LeaseView>>, Problem> {
    let leases = state.cluster.leases().await?;
    Ok(Json(List::whole(leases.into_iter().map(LeaseView::from).collect())))
}

/// The changes of owner of a lease, newest first.
#[utoipa::path(
    get, path = "/v1/leases/{name}/history", operation_id = "listLeaseHistory", tag = "leases",
    params(("name" = String, Path, description = "The lease's name"), PageParams),
    responses(
        (status = 200, description = "A page of the changes", body = List<LeaseEntryView>),
    ),
)]
pub(super) async fn history(
    _reader: Reader,
    State(state): State<AppState>,
    Segment(name): Segment,
    mut params: Params,
) -> Result<Json<List<LeaseEntryView>>, Problem> {
    let page = page::take(&mut params)?;
    params.end()?;
    let before = page.after.map(|cursor| before(&cursor)).transpose()?;
    let items = state.cluster.lease_history(&name, before, page.limit).await?;
    let full = items.len() >= usize::try_from(page.limit).unwrap_or(usize::MAX);
    let next = items.last().filter(|_| full).map(|entry| entry.id.to_string());
    Ok(Json(List::of(Paged { items, next }, LeaseEntryView::from)))
}

fn before(cursor: &str) -> Result<i64, Problem> {
    cursor.parse().map_err(|_| {
        let detail = "The cursor is none of this list; use `next_cursor` of the page before.";
        Problem::new(Kind::InvalidCursor, detail)
    })
}

/// Takes a lease away from whoever holds it. Its term rises, so that writes under way are refused; then anyone may win it.
#[utoipa::path(
    post, path = "/v1/leases/{name}/release", operation_id = "releaseLease", tag = "leases",
    params(("name" = String, Path, description = "The lease's name")),
    responses(
        (status = 200, description = "Taken away", body = ReleasedView),
    ),
)]
pub(super) async fn release(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
) -> Result<Json<ReleasedView>, Problem> {
    let term = state.cluster.release(&name, &caller.name).await?;
    let detail = format!("it was taken from whoever held it; the term is {term} now");
    state.store.notice(&state.actor(&caller), "lease-released", &name, &detail).await?;
    Ok(Json(ReleasedView { name, term }))
}

/// In whose favour.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object, perhaps with `to`")]
pub(super) struct StepDownRequest {
    /// The replica that is to have it; any where none is given.
    to: Option<String>,
}

impl Input for StepDownRequest {}

/// Asks the holder to let go of a lease in good order, for one replica or for any.
#[utoipa::path(
    post, path = "/v1/leases/{name}/step-down", operation_id = "stepDownLease", tag = "leases",
    params(("name" = String, Path, description = "The lease's name")),
    request_body = Option<StepDownRequest>,
    responses(
        (status = 202, description = "Asked; the holder lets go as soon as its work has ended"),
    ),
)]
pub(super) async fn step_down(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Segment(name): Segment,
    request: Option<Body<StepDownRequest>>,
) -> Result<StatusCode, Problem> {
    let wished = request.and_then(|Body(request)| request.to);
    let to = field::optional("to", wished, field::NAME)?;
    state.cluster.step_down(&name, to.as_deref()).await?;
    let favour = to.map_or_else(String::new, |to| format!(" in favour of {to}"));
    let detail = format!("its holder was asked to step down{favour}");
    state.store.notice(&state.actor(&caller), "lease-step-down", &name, &detail).await?;
    Ok(StatusCode::ACCEPTED)
}
