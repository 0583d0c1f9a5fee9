//! What happens around every request: a time limit, a net under panics, one debug line, two metrics.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http::{HeaderValue, Method, header};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::{Kind, Problem};

/// Longest time until an answer begins. Streams go on after that.
const LIMIT: Duration = Duration::from_secs(30);

/// The same for an edge that waits for changes, which may take up to [`crate::edge::LONGEST_WAIT`] by itself.
const LONG_POLL: Duration = Duration::from_secs(60);

/// A handler panicked. The panic itself is in the log, by the hook of the process.
#[derive(Debug, thiserror::Error)]
#[error("a handler panicked")]
pub(crate) struct Panicked;

impl From<JoinError> for Panicked {
    fn from(_: JoinError) -> Self {
        Self
    }
}

/// Runs a request.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // What matches no route is one series, whatever strangers ask for.
    let route = route.unwrap_or_else(|| "none".to_owned());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = match tokio::time::timeout(limit(&route), answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Problem::from(Panicked).into_response(),
        Err(_) => timed_out().into_response(),
    };
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    tracing::debug!(%method, route, status, ?took, "request");
    let labels =
        [("method", known(&method).to_owned()), ("route", route), ("status", status.to_string())];
    metrics::counter!("holdfast_http_requests_total", &labels).increment(1);
    metrics::histogram!("holdfast_http_request_duration_seconds", &labels).record(took);
    response
}

fn limit(route: &str) -> Duration {
    if route == crate::edge::CHANGES { LONG_POLL } else { LIMIT }
}

/// Strangers may invent methods; they are one series.
fn known(method: &Method) -> &str {
    const KNOWN: [Method; 7] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "other" }
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
