//! What is answered while the store is not open yet: alive, and neither started nor ready, with what is waited for.

use std::collections::BTreeMap;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::{StatusCode, header};
use serde_json::Map;
use tokio::sync::watch;

use crate::view::{HealthResult, HealthStatus, HealthView};
use crate::{Kind, Problem};

/// What is waited for, if it is known.
type Waits = watch::Receiver<Option<String>>;

/// Answers health alone, until a store is open. Whatever else is asked is told to come again.
pub fn starting_router(waits: watch::Receiver<Option<String>>) -> Router {
    Router::new()
        .route("/health/live", get(live))
        .route("/health", get(unready))
        .route("/health/ready", get(unready))
        .route("/health/startup", get(unready))
        .fallback(later)
        .with_state(waits)
}

async fn live() -> Json<HealthView> {
    Json(HealthView { status: HealthStatus::Healthy, results: BTreeMap::new() })
}

fn reason(waits: &Waits) -> String {
    waits.borrow().clone().unwrap_or_else(|| "the database is being opened".to_owned())
}

async fn unready(State(waits): State<Waits>) -> (StatusCode, Json<HealthView>) {
    let status = HealthStatus::Unhealthy;
    let database = HealthResult { status, description: reason(&waits), data: Map::new() };
    let results = BTreeMap::from([("database", database)]);
    (StatusCode::SERVICE_UNAVAILABLE, Json(HealthView { status, results }))
}

async fn later(State(waits): State<Waits>) -> Problem {
    let detail = format!("This replica is starting: {}.", reason(&waits).trim_end_matches('.'));
    Problem::new(Kind::DatabaseUnavailable, detail).header(header::RETRY_AFTER, "5")
}
