//! What happens around every request: a time limit, a net under panics, one debug line, two metrics.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http::{HeaderValue, header};
use tokio::time::Instant;

use crate::{Kind, Problem};

/// Longest time until an answer begins. Streams go on after that.
const LIMIT: Duration = Duration::from_secs(30);

/// A handler panicked. The panic itself is in the log, by the hook of the process.
#[derive(Debug, thiserror::Error)]
#[error("a handler panicked")]
struct Panicked;

/// Runs a request.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // What matches no route is one series, whatever strangers ask for.
    let route = route.unwrap_or_else(|| "none".to_owned());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = match tokio::time::timeout(LIMIT, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => panicked().into_response(),
        Err(_) => timed_out().into_response(),
    };
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    tracing::debug!(%method, route, status, ?took, "request");
    let labels = [("method", method.to_string()), ("route", route), ("status", status.to_string())];
    metrics::counter!("holdfast_http_requests_total", &labels).increment(1);
    metrics::histogram!("holdfast_http_request_duration_seconds", &labels).record(took);
    response
}

fn panicked() -> Problem {
    let detail = "The request was sound and this server could not do it; its log says why, under `instance`.";
    Problem::new(Kind::Internal, detail).caused_by(Panicked)
}

fn timed_out() -> Problem {
    let seconds = LIMIT.as_secs();
    let detail = format!("No answer within {seconds} s; try again, with less at once.");
    Problem::new(Kind::TimedOut, detail).header(header::RETRY_AFTER, "5")
}

/// Answers of the API are of the moment and may hold what a cache must not keep.
pub(crate) async fn no_store(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
