//! Health: alive, ready, started, and the whole with its parts.
//!
//! Ready means that requests may be sent here, and an engine that stands still is no reason against it: this replica answers as well as
//! any, and were all engines stuck, taking every replica out of service would add an outage to a standstill. So `engine` turns `/health`
//! red, for whoever is to look, and leaves `/health/ready` alone.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use holdfast_lease::Health;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::AppState;
use crate::database::{self, Trouble};
use crate::view::{HealthResult, HealthStatus, HealthView};

/// Is the process alive?
#[utoipa::path(
    get, path = "/health/live", operation_id = "getLiveness", tag = "health",
    security(()),
    responses((status = 200, description = "Alive", body = HealthView)),
)]
pub(super) async fn live() -> Json<HealthView> {
    Json(HealthView { status: HealthStatus::Healthy, results: BTreeMap::new() })
}

/// May requests be sent here? Reads the database, and sees that it can be written; 503 from the beginning of the shutdown on.
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
    let trouble = state.database.known().await;
    results.extend(engine(&state, trouble).map(|engine| ("engine", engine)));
    let overall =
        worst(&results).max(if follows { HealthStatus::Healthy } else { election.status });
    results.insert("leader_election", election);
    with_status(overall, results)
}

async fn database(state: &AppState) -> HealthResult {
    let begun = Instant::now();
    let looked = database::look(state).await;
    let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let log = database::large_log(state.store.log_bytes().await);
    let (status, description) = match &looked {
        Ok((applied, known)) if applied == known => match (state.store.shortage(), log) {
            (Some(why), _) => (HealthStatus::Degraded, why),
            (None, Some(large)) => (HealthStatus::Degraded, large),
            (None, None) => {
                (HealthStatus::Healthy, "the database answers and can be written".to_owned())
            }
        },
        Ok((applied, known)) => (
            HealthStatus::Degraded,
            format!("the schema is at version {applied}, this release is made for {known}"),
        ),
        Err(trouble) => (HealthStatus::Unhealthy, trouble.detail.clone()),
    };
    if looked.is_ok() {
        state.started.store(true, Ordering::Relaxed);
    }
    let mut data = facts(json!({ "round_trip_us": micros }));
    if let Err(trouble) = &looked {
        data.extend(facts(json!({ "cause": trouble.code(), "fix": trouble.fix() })));
    }
    HealthResult { status, description, data }
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

fn engine(state: &AppState, trouble: Option<Trouble>) -> Option<HealthResult> {
    let pulse = state.pulse.as_ref()?;
    let (status, description) = match (pulse.check(), trouble) {
        (_, Some(trouble)) => {
            (HealthStatus::Unhealthy, format!("work stands still: {}", trouble.detail))
        }
        (Err(stall), None) => (HealthStatus::Unhealthy, stall.to_string()),
        (Ok(()), None) => (HealthStatus::Healthy, "work goes on".to_owned()),
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
