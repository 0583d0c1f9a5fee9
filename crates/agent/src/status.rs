//! How the agent is doing, for a health check and for Prometheus; on a listener of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdfast_model::Note;
use holdfast_store::Revision;
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Error, Result};

/// An edge whose last report is older is not live for the control plane.
const LIVE: Duration = Duration::from_secs(30);

/// How often samples are folded when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Seconds, from a handshake to a slow reload.
const BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// What is known of a running agent.
#[derive(Debug, Default)]
pub struct Status(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    reported: Option<Instant>,
    revision: Revision,
    complaint: Option<Note>,
    /// Why nothing can be reported.
    failure: Option<Note>,
}

impl Status {
    pub(crate) fn reported(&self, revision: Revision, complaint: Option<&Note>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (known.reported, known.revision) = (Some(Instant::now()), revision);
        (known.complaint, known.failure) = (complaint.cloned(), None);
    }

    /// The control plane was not reached, or did not take it.
    pub(crate) fn failed(&self, error: &Error) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.failure = Some(error.note());
    }

    /// Does the control plane hear of this edge, and is nothing wrong with it as a whole?
    fn verdict(&self) -> (StatusCode, serde_json::Value) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = known.reported.map(|at| at.elapsed());
        let live = age.is_some_and(|age| age < LIVE);
        let ready = live && known.complaint.is_none();
        let complaint = known
            .complaint
            .as_ref()
            .or(known.failure.as_ref())
            .map(|note| json!({ "code": note.code, "detail": note.detail }));
        let body = json!({
            "status": if ready { "Healthy" } else { "Unhealthy" },
            "live": live,
            "reported_seconds_ago": age.map(|age| age.as_secs()),
            "revision": known.revision.to_string(),
            "error": complaint,
        });
        (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
    }
}

/// Records every metric of this process.
#[derive(Clone)]
pub struct Recorder(PrometheusHandle);

impl Recorder {
    /// Records from now on, until `stop`.
    ///
    /// # Errors
    /// When another recorder was installed before.
    pub fn install(stop: CancellationToken) -> Result<Self> {
        let failed = |error: metrics_exporter_prometheus::BuildError| {
            Error::Unconfigurable(error.to_string())
        };
        let builder = PrometheusBuilder::new().set_buckets(BUCKETS).map_err(failed)?;
        let handle = builder.install_recorder().map_err(failed)?;
        describe();
        let folded = handle.clone();
        tokio::spawn(async move {
            while tokio::time::timeout(UPKEEP, stop.cancelled()).await.is_err() {
                folded.run_upkeep();
            }
        });
        Ok(Self(handle))
    }
}

/// What each metric counts, as docs/metrics.md says it.
fn describe() {
    describe_gauge!("holdfast_agent_ready", "1 while it reports and nothing is wrong");
    describe_gauge!("holdfast_agent_names_refused", "Names whose certificate the proxy refuses");
    describe_histogram!("holdfast_agent_apply_seconds", "How long applying took");
    describe_counter!(
        "holdfast_agent_handshakes_total",
        "Handshakes by which it looked at what is served"
    );
    describe_counter!("holdfast_agent_reports_total", "Reports to the control plane");
    describe_counter!("holdfast_agent_reloads_total", "Reloads of the proxy");
}

/// Answers `/health/live`, `/health/ready`, `/health` and `/metrics`, until `stop`.
pub async fn serve_status(
    tcp: TcpListener,
    status: Arc<Status>,
    recorder: Recorder,
    stop: CancellationToken,
) {
    let router = Router::new()
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .route("/health", get(ready))
        .route("/metrics", get(scrape))
        .with_state((status, recorder));
    let served = axum::serve(tcp, router).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the agent's own listener ended");
    }
}

async fn ready(State((status, _)): State<(Arc<Status>, Recorder)>) -> Response {
    let (code, body) = status.verdict();
    (code, Json(body)).into_response()
}

async fn scrape(State((status, recorder)): State<(Arc<Status>, Recorder)>) -> Response {
    let (code, _) = status.verdict();
    metrics::gauge!("holdfast_agent_ready").set(u8::from(code == StatusCode::OK));
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], recorder.0.render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ready_while_it_reports_and_nothing_is_wrong() {
        let status = Status::default();
        assert_eq!(status.verdict().0, StatusCode::SERVICE_UNAVAILABLE);
        status.reported(Revision { epoch: 1, number: 7 }, None);
        assert_eq!(status.verdict().0, StatusCode::OK);
        assert_eq!(status.verdict().1["revision"], "1.7");
        status.reported(Revision::default(), Some(&Note::new("edge-proxy-unreachable", "away")));
        assert_eq!(status.verdict().1["error"]["code"], "edge-proxy-unreachable");
        status.reported(Revision::default(), None);
        let said = "token `edge-1` was revoked".to_owned();
        status.failed(&Error::TokenRefused { said });
        assert_eq!(status.verdict().1["error"]["code"], "edge-token-refused");
        status.reported(Revision::default(), None);
        tokio::time::advance(LIVE).await;
        assert_eq!(status.verdict().0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
