//! Health: alive, ready, started, and the whole with its parts.
//!
//! Ready means that requests may be sent here, and an engine that stands still is no reason against it: this replica answers as well as
//! any, and were all engines stuck, taking every replica out of service would add an outage to a standstill. So `engine` turns `/health`
//! red, for whoever is to look, and leaves `/health/ready` alone.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdfast_lease::Health;
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
    let (election, follows) = leader_election(&state);
    let mut results = BTreeMap::from([("database", database(&state).await)]);
    results.extend(engine(&state).map(|engine| ("engine", engine)));
    let overall =
        worst(&results).max(if follows { HealthStatus::Healthy } else { election.status });
    results.insert("leader_election", election);
    with_status(overall, results)
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

/// Who leads; and whether this replica is a follower in good order, which is Degraded by itself and no fault of the whole.
fn leader_election(state: &AppState) -> (HealthResult, bool) {
    let (term, master) = (state.cluster.term(), state.cluster.master());
    let leader = master.as_ref().map(|master| master.instance_id.clone());
    let (status, description, follows) = match (state.cluster.health(), term, &leader) {
        (Health::Unhealthy(why), ..) => (HealthStatus::Unhealthy, why, false),
        (Health::Degraded(why), ..) => (HealthStatus::Degraded, why, false),
        (Health::Healthy, Some(term), _) => {
            (HealthStatus::Healthy, format!("leads in term {term}"), false)
        }
        (Health::Healthy, None, Some(leader)) => {
            (HealthStatus::Degraded, format!("follows {leader}"), true)
        }
        (Health::Healthy, None, None) => {
            (HealthStatus::Degraded, "no replica is known to lead".to_owned(), false)
        }
    };
    let data = json!({
        "is_leader": term.is_some(),
        "instance_id": state.instance,
        "leader": leader,
        "term": term.or(master.map(|master| master.term)),
        "leaderless_seconds": state.leaderless().map(|lasted| lasted.as_secs()),
    });
    (HealthResult { status, description, data: facts(data) }, follows)
}

fn engine(state: &AppState) -> Option<HealthResult> {
    let pulse = state.pulse.as_ref()?;
    let (status, description) = match pulse.check() {
        Ok(()) => (HealthStatus::Healthy, "work goes on".to_owned()),
        Err(stall) => (HealthStatus::Unhealthy, stall.to_string()),
    };
    let last = pulse.last_round().as_secs();
    Some(HealthResult { status, description, data: facts(json!({ "last_round_seconds": last })) })
}

fn facts(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

fn worst(results: &BTreeMap<&'static str, HealthResult>) -> HealthStatus {
    results.values().map(|result| result.status).max().unwrap_or(HealthStatus::Healthy)
}

fn answer(results: BTreeMap<&'static str, HealthResult>) -> (StatusCode, Json<HealthView>) {
    with_status(worst(&results), results)
}

fn with_status(
    status: HealthStatus,
    results: BTreeMap<&'static str, HealthResult>,
) -> (StatusCode, Json<HealthView>) {
    let code = match status {
        HealthStatus::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
        HealthStatus::Healthy | HealthStatus::Degraded => StatusCode::OK,
    };
    (code, Json(HealthView { status, results }))
}
