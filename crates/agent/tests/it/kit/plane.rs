//! The control plane's API for edges over HTTP, with [`Memory`] behind it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use holdfast_agent::{Bundles as _, Error, Feed as _, HttpFeedConfig};
use holdfast_gateway::listener::{self, TlsListener};
use holdfast_model::Note;
use holdfast_store::{Adopted, Adoption, Change, EdgeReport, Observation, ReportOrder, Stranger};
use holdfast_testkit::Scratch;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::memory::{Lie, Memory};
use super::name;

pub(crate) const TOKEN: &str = "t0ken-of-the-edge";

/// A server; it ends when dropped.
pub(crate) struct Plane {
    pub(crate) address: SocketAddr,
    scheme: &'static str,
    pub(crate) requests: Arc<AtomicU64>,
    tally: Arc<Tally>,
    scratch: Scratch,
    serving: AbortHandle,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
struct Shared {
    memory: Arc<Memory>,
    requests: Arc<AtomicU64>,
    tally: Arc<Tally>,
}

/// Of the requests, which were what.
#[derive(Default)]
struct Tally {
    open: AtomicU64,
    answered: AtomicU64,
    reports: AtomicU64,
}

/// A poll until it is answered, or nobody waits for the answer any more.
struct Poll(Arc<Tally>);

impl Poll {
    fn open(tally: &Arc<Tally>) -> Self {
        tally.open.fetch_add(1, Relaxed);
        Self(tally.clone())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
        self.0.answered.fetch_add(1, Relaxed);
    }
}

/// What a server was asked, but for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Polls that wait for an answer.
    pub(crate) open: u64,
    /// Polls that have one.
    pub(crate) answered: u64,
    /// Whatever else.
    pub(crate) others: u64,
}

impl Plane {
    pub(crate) async fn start(memory: Arc<Memory>) -> Self {
        Self::serve(memory, None).await
    }

    /// One that speaks TLS, perhaps only to clients with a certificate.
    pub(crate) async fn start_tls(memory: Arc<Memory>, tls: Arc<rustls::ServerConfig>) -> Self {
        Self::serve(memory, Some(tls)).await
    }

    async fn serve(memory: Arc<Memory>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let (requests, tally) = (Arc::new(AtomicU64::new(0)), Arc::<Tally>::default());
        let shared = Shared { memory, requests: requests.clone(), tally: tally.clone() };
        let router = Router::new()
            .route("/v1/edges/{edge}", put(register))
            .route("/v1/edges/{edge}/changes", get(changes))
            .route("/v1/edges/{edge}/desired", get(desired))
            .route("/v1/edges/{edge}/bundles/{sha256}", get(bundle))
            .route("/v1/edges/{edge}/report", post(report))
            .with_state(shared);
        let tcp = listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let serving = match tls {
            Some(tls) => {
                tokio::spawn(axum::serve(TlsListener::new(tcp, tls), router).into_future())
            }
            None => tokio::spawn(axum::serve(tcp, router).into_future()),
        };
        let scratch = Scratch::new().unwrap();
        scratch.write("token", format!("{TOKEN}\n")).unwrap();
        Self { address, scheme, requests, tally, scratch, serving: serving.abort_handle() }
    }

    pub(crate) fn asked(&self) -> Asked {
        let Tally { open, answered, reports } = &*self.tally;
        let [open, answered, reports] = [open, answered, reports].map(|count| count.load(Relaxed));
        Asked { open, answered, others: self.requests.load(Relaxed) - open - answered - reports }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) fn feed(&self) -> HttpFeedConfig {
        HttpFeedConfig {
            servers: vec![self.url().parse().unwrap()],
            edge: "edge-1".to_owned(),
            group: None,
            target: "haproxy".to_owned(),
            mode: "apply".to_owned(),
            token_file: Some(self.scratch.path().join("token")),
            root_pem: None,
            client_pem: None,
            proxy: None,
            allow_plaintext: false,
        }
    }
}

fn refused(error: &Error) -> Response {
    if let Some(after) = error.asked_rest() {
        let problem = json!({ "code": "draining", "detail": error.to_string() });
        let later = [("retry-after", after.as_secs().to_string())];
        return (StatusCode::SERVICE_UNAVAILABLE, later, Json(problem)).into_response();
    }
    let (status, code) = match error {
        Error::RevisionGone => (StatusCode::GONE, "revision-gone"),
        Error::Unregistered => (StatusCode::NOT_FOUND, "edge-unknown"),
        Error::Refused { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        Error::Damaged { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "certificate-damaged"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    (status, Json(json!({ "code": code, "detail": error.to_string() }))).into_response()
}

impl Shared {
    #[expect(clippy::result_large_err, reason = "it is an answer")]
    fn admit(&self, headers: &HeaderMap) -> Result<(), Response> {
        self.requests.fetch_add(1, Relaxed);
        match headers.get("authorization") {
            Some(token) if *token == format!("Bearer {TOKEN}") => Ok(()),
            _ => Err(StatusCode::UNAUTHORIZED.into_response()),
        }
    }
}

async fn register(State(shared): State<Shared>, headers: HeaderMap) -> Result<Response, Response> {
    shared.admit(&headers)?;
    let revision = shared.memory.register().await.map_err(|error| refused(&error))?;
    let session = shared.requests.load(Relaxed);
    Ok(Json(json!({
        "id": "x", "name": "edge-1", "group": "default", "revision": revision.to_string(), "session": session,
    }))
    .into_response())
}

#[derive(Deserialize)]
struct Question {
    after: String,
    wait: u64,
    limit: u32,
}

fn item(change: &Change) -> Value {
    let (id, sha256) = change.certificate.clone().unzip();
    json!({
        "name": change.name.as_str(), "domain_id": change.domain, "sha256": sha256,
        "certificate_id": id.map(|id| id.0), "revision": change.revision.to_string(),
    })
}

async fn changes(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Query(asked): Query<Question>,
) -> Result<Response, Response> {
    shared.admit(&headers)?;
    let _poll = Poll::open(&shared.tally);
    let after = asked.after.parse().unwrap();
    let news = shared.memory.changes(after, asked.limit, Duration::from_secs(asked.wait)).await;
    let news = news.map_err(|error| refused(&error))?;
    let adopt: Vec<_> = news
        .adoptions
        .iter()
        .map(|one| json!({ "file": one.file, "name": one.name.as_str() }))
        .collect();
    let items: Vec<_> = news.changes.items.iter().map(item).collect();
    let (up_to, more) = (news.changes.up_to.to_string(), news.changes.more);
    Ok(Json(json!({ "items": items, "up_to": up_to, "more": more, "adopt": adopt }))
        .into_response())
}

async fn desired(State(shared): State<Shared>, headers: HeaderMap) -> Result<Response, Response> {
    shared.admit(&headers)?;
    let broken = shared.memory.lies() == Some(Lie::Broken);
    if broken {
        shared.memory.lie(None);
    }
    let listing = shared.memory.desired().await.map_err(|error| refused(&error))?;
    if broken {
        shared.memory.lie(Some(Lie::Broken));
    }
    let mut lines: String =
        listing.items.iter().map(|change| format!("{}\n", item(change))).collect();
    if !broken {
        let (count, revision) = (listing.items.len(), listing.revision.to_string());
        lines += &format!("{}\n", json!({ "end": true, "count": count, "revision": revision }));
    }
    Ok(lines.into_response())
}

async fn bundle(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Path((_, sha256)): Path<(String, String)>,
) -> Result<Response, Response> {
    shared.admit(&headers)?;
    let change = shared.memory.change_of(&sha256);
    let change = change.ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    let bundle = shared.memory.bundle(&change).await.map_err(|error| refused(&error))?;
    let bundle = bundle.ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    let key = String::from_utf8_lossy(bundle.key.expose()).into_owned();
    Ok(Json(json!({
        "name": bundle.name.as_str(), "domain_id": bundle.domain, "sha256": bundle.summary.sha256,
        "chain": bundle.chain_pem, "key": key, "not_after": bundle.summary.not_after,
    }))
    .into_response())
}

fn note(value: &Value) -> Option<Note> {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    (!value.is_null()).then(|| Note::new(text("code"), text("detail")))
}

async fn report(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Query(order): Query<HashMap<String, i64>>,
    Json(body): Json<Value>,
) -> Result<Response, Response> {
    shared.admit(&headers)?;
    shared.tally.reports.fetch_add(1, Relaxed);
    let list = |key: &str| body[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let observations = list("observations").into_iter().map(|seen| Observation {
        domain: seen["domain_id"].as_str().unwrap().parse().unwrap(),
        sha256: text(&seen["sha256"]),
        error: note(&seen["error"]),
    });
    let adopted = list("adopted").into_iter().map(|one| Adopted {
        adoption: Adoption {
            file: text(&one["file"]).unwrap(),
            name: name(one["name"].as_str().unwrap()),
        },
        error: note(&one["error"]),
    });
    let stranger = |one: &Value| Stranger {
        file: text(&one["file"]).unwrap(),
        names: one["names"].as_array().unwrap().iter().filter_map(text).collect(),
        sha256: text(&one["sha256"]),
        shadows: one["shadows"].as_bool().unwrap(),
    };
    let report = EdgeReport {
        up_to: body["up_to"].as_str().unwrap().parse().unwrap(),
        observations: observations.collect(),
        error: note(&body["error"]),
        strangers: body["strangers"].as_array().map(|all| all.iter().map(stranger).collect()),
        adopted: adopted.collect(),
        order: order
            .get("session")
            .map(|session| ReportOrder { session: *session, sequence: order["sequence"] }),
        ..EdgeReport::default()
    };
    shared.memory.report(&report).await.map_err(|error| refused(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
