//! Metrics for Prometheus.

use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header;

use crate::AppState;

/// A scrape must end also when the store does not answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "meta",
    security(()),
    responses((status = 200, description = "Every name begins with `holdfast_`", body = String, content_type = "text/plain")),
)]
pub(super) async fn show(State(state): State<AppState>) -> impl IntoResponse {
    let counts = tokio::time::timeout(LIMIT, state.store.counts()).await;
    let counts = counts.ok().and_then(Result::ok);
    let text = state.metrics.render(counts.as_deref());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
