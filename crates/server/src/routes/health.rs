//! Health: alive, ready, started, and the whole with its parts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::AppState;
use crate::view::{HealthResult, HealthStatus, HealthView};

/// Longest round trip to the database that still counts as one.
const LIMIT: Duration = Duration::from_secs(3);

/// Is the process alive?
#[utoipa::path(
    get, path = "/health/live", operation_id = "getLiveness", tag = "health",
    security(()),
    responses((status = 200, description = "Alive", body = HealthView)),
)]
pub(super) async fn live() -> Json<HealthView> {
    Json(HealthView { status: HealthStatus::Healthy, results: BTreeMap::new() })
}

/// May requests be sent here? Makes a round trip to the database; 503 from the beginning of the shutdown on.
#[utoipa::path(
    get, path = "/health/ready", operation_id = "getReadiness", tag = "health",
    security(()),
    responses(
        (status = 200, description = "Ready", body = HealthView),
        (status = 503, description = "Not ready", body = HealthView),
    ),
)]
pub(super) async fn ready(State(state): State<AppState>) -> (StatusCode, Json<HealthView>) {
    let mut results = BTreeMap::from([("database", database(&state).await)]);
    if state.shutdown.is_cancelled() {
        let description = "this replica is shutting down".to_owned();
        let status = HealthStatus::Unhealthy;
        results.insert("shutdown", HealthResult { status, description, data: Map::new() });
    }
    answer(results)
}

/// Has it started? Stays so once it is.
#[utoipa::path(
    get, path = "/health/startup", operation_id = "getStartup", tag = "health",
    security(()),
    responses(
        (status = 200, description = "Started", body = HealthView),
        (status = 503, description = "Not yet", body = HealthView),
    ),
)]
pub(super) async fn startup(State(state): State<AppState>) -> (StatusCode, Json<HealthView>) {
    if state.started.load(Ordering::Relaxed) {
        return answer(BTreeMap::new());
    }
    answer(BTreeMap::from([("database", database(&state).await)]))
}

/// How it is, part by part.
#[utoipa::path(
    get, path = "/health", operation_id = "getHealth", tag = "health",
    security(()),
    responses(
        (status = 200, description = "Healthy or Degraded", body = HealthView),
        (status = 503, description = "Unhealthy", body = HealthView),
    ),
)]
pub(super) async fn show(State(state): State<AppState>) -> (StatusCode, Json<HealthView>) {
    answer(BTreeMap::from([
        ("database", database(&state).await),
        ("leader_election", leader_election(&state)),
    ]))
}

async fn database(state: &AppState) -> HealthResult {
    let begun = Instant::now();
    let (status, description) = match tokio::time::timeout(LIMIT, state.store.schema()).await {
        Ok(Ok((applied, known))) if applied == known => {
            (HealthStatus::Healthy, "the database answers".to_owned())
        }
        Ok(Ok((applied, known))) => (
            HealthStatus::Degraded,
            format!("the schema is at version {applied}, this release is made for {known}"),
        ),
        Ok(Err(error)) => (HealthStatus::Unhealthy, error.to_string()),
        Err(_) => (HealthStatus::Unhealthy, format!("no answer within {} s", LIMIT.as_secs())),
    };
    if status != HealthStatus::Unhealthy {
        state.started.store(true, Ordering::Relaxed);
    }
    let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    HealthResult { status, description, data: facts(json!({ "round_trip_us": micros })) }
}

/// A replica by itself leads.
fn leader_election(state: &AppState) -> HealthResult {
    HealthResult {
        status: HealthStatus::Healthy,
        description: "single replica".to_owned(),
        data: facts(json!({ "is_leader": true, "instance_id": state.instance })),
    }
}

fn facts(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

fn answer(results: BTreeMap<&'static str, HealthResult>) -> (StatusCode, Json<HealthView>) {
    let worst = results.values().map(|result| result.status).max();
    let status = worst.unwrap_or(HealthStatus::Healthy);
    let code = match status {
        HealthStatus::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
        HealthStatus::Healthy | HealthStatus::Degraded => StatusCode::OK,
    };
    (code, Json(HealthView { status, results }))
}
