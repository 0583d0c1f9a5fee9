//! What tests and `holdfast dev` ask of the CA: `/dev/…`, plain JSON, no signatures, never touched by faults.
//!
//! The routes are listed in the crate's documentation.

mod body;
mod report;

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use self::body::{Body, Refusal};
use super::problem::{Kind, Problem};
use super::{Ca, RenewalWindow};
use crate::faults::FaultKind;
use crate::zone::ZoneRecord;

/// The control routes.
pub(crate) fn router(ca: &Arc<Ca>) -> Router {
    Router::new()
        .route("/dev/orders", get(report::orders))
        .route("/dev/accounts", get(report::accounts))
        .route("/dev/certificates", get(report::certificates))
        .route("/dev/root", get(report::root))
        .route("/dev/dns", get(dns_list).put(dns_set).delete(dns_clear_all))
        .route("/dev/dns/{name}", get(dns_show).delete(dns_clear))
        .route("/dev/faults", get(fault_list).delete(fault_clear_all))
        .route("/dev/faults/{kind}", put(fault_set).delete(fault_clear))
        .route("/dev/ari", get(ari_list).delete(ari_clear_all))
        .route("/dev/ari/{target}", put(ari_set).delete(ari_clear))
        .layer(from_fn_with_state(ca.clone(), flush))
        .with_state(ca.clone())
}

async fn flush(State(ca): State<Arc<Ca>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match ca.journal.flushed().await {
        Ok(()) => response,
        Err(error) => Problem::new(Kind::ServerInternal, error.to_string()).into_response(),
    }
}

async fn dns_list(State(ca): State<Arc<Ca>>) -> Json<Vec<ZoneRecord>> {
    Json(ca.zone.list())
}

async fn dns_show(
    State(ca): State<Arc<Ca>>,
    Path(name): Path<String>,
) -> Result<Json<Vec<ZoneRecord>>, Refusal> {
    Ok(Json(ca.zone.list_name(&name)?))
}

async fn dns_set(
    State(ca): State<Arc<Ca>>,
    Body(record): Body<ZoneRecord>,
) -> Result<StatusCode, Refusal> {
    ca.zone.set(&record.name, &record.kind, &record.value)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn dns_clear(
    State(ca): State<Arc<Ca>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refusal> {
    ca.zone.clear(&name)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn dns_clear_all(State(ca): State<Arc<Ca>>) -> StatusCode {
    ca.zone.clear_all();
    StatusCode::NO_CONTENT
}

async fn fault_list(State(ca): State<Arc<Ca>>) -> Json<Value> {
    let kinds = FaultKind::ALL.iter().map(|kind| {
        json!({ "kind": kind.name(), "takes": kind.takes(), "description": kind.description() })
    });
    Json(json!({ "faults": ca.faults.list(), "kinds": kinds.collect::<Vec<_>>() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFault {
    value: String,
    times: Option<u64>,
}

async fn fault_set(
    State(ca): State<Arc<Ca>>,
    Path(kind): Path<String>,
    Body(fault): Body<NewFault>,
) -> Result<StatusCode, Refusal> {
    ca.faults.set(&kind, &fault.value, fault.times)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn fault_clear(
    State(ca): State<Arc<Ca>>,
    Path(kind): Path<String>,
) -> Result<StatusCode, Refusal> {
    ca.faults.clear(&kind)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn fault_clear_all(State(ca): State<Arc<Ca>>) -> StatusCode {
    ca.faults.clear_all();
    StatusCode::NO_CONTENT
}

async fn ari_list(State(ca): State<Arc<Ca>>) -> Json<Value> {
    Json(json!(ca.windows.list()))
}

async fn ari_set(
    State(ca): State<Arc<Ca>>,
    Path(target): Path<String>,
    Body(window): Body<RenewalWindow>,
) -> Result<StatusCode, Refusal> {
    if window.end <= window.start {
        return Err(Refusal::new("the window must end after it starts"));
    }
    ca.windows.set(&target, Some(window));
    Ok(StatusCode::NO_CONTENT)
}

async fn ari_clear(State(ca): State<Arc<Ca>>, Path(target): Path<String>) -> StatusCode {
    ca.windows.set(&target, None);
    StatusCode::NO_CONTENT
}

async fn ari_clear_all(State(ca): State<Arc<Ca>>) -> StatusCode {
    ca.windows.clear();
    StatusCode::NO_CONTENT
}
