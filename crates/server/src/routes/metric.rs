//! Metrics for Prometheus.

use axum::extract::State;
use axum::response::IntoResponse;
use http::header;

use crate::metrics::{Process, gauges};
use crate::{AppState, database, vital};

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "meta",
    security(()),
    responses((status = 200, description = "Every name begins with `holdfast_`", body = String, content_type = "text/plain")),
)]
pub(super) async fn show(State(state): State<AppState>) -> impl IntoResponse {
    let trouble = database::trouble(&state).await;
    let process = Process {
        trouble,
        log_bytes: state.store.log_bytes().await,
        leads: state.cluster.is_leader(),
        last_round: state.pulse.as_ref().map(holdfast_engine::Pulse::last_round),
    };
    let installation = vital::installation(&state).await;
    let text = state.metrics.recorded() + &gauges(&process, installation.as_deref());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
