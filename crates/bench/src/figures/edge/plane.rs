//! A control plane in memory that speaks the API for edges: what is measured is the agent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::certificate::Certificate;

pub(super) const TOKEN: &str = "a-token-of-an-edge";

pub(super) struct Plane {
    address: SocketAddr,
    desk: Arc<Desk>,
    serving: JoinHandle<std::io::Result<()>>,
}

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    reported: watch::Sender<u64>,
    polls: AtomicU64,
    reports: AtomicU64,
    others: AtomicU64,
}

/// How often it was asked for what.
pub(super) struct Asked {
    pub(super) polls: u64,
    pub(super) reports: u64,
    pub(super) others: u64,
}

#[derive(Default)]
struct State {
    at: u64,
    /// By revision; each name once.
    items: BTreeMap<u64, Value>,
    names: HashMap<String, u64>,
    bundles: HashMap<String, Value>,
    seen: HashSet<String>,
    acknowledged: String,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deploy(&self, certificates: &[Certificate]) {
        let mut state = self.state();
        for one in certificates {
            state.at += 1;
            let at = state.at;
            if let Some(before) = state.names.insert(one.name.clone(), at) {
                state.items.remove(&before);
            }
            let (name, domain, sha256) = (&one.name, one.domain, &one.sha256);
            let item = json!({ "name": name, "domain_id": domain, "sha256": sha256, "certificate_id": Uuid::new_v4(), "revision": format!("1.{at}") });
            state.items.insert(at, item);
            let bundle = json!({ "name": name, "domain_id": domain, "sha256": sha256, "chain": one.chain, "key": one.key, "not_after": "2030-01-01T00:00:00Z" });
            state.bundles.insert(sha256.clone(), bundle);
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Plane {
    /// One whose edge has reported these before.
    pub(super) async fn start(present: &[Certificate]) -> Result<Self> {
        let desk = Arc::new(Desk::default());
        desk.deploy(present);
        let at = desk.state().at;
        desk.state().acknowledged = format!("1.{at}");
        let router = Router::new()
            .route("/v1/edges/{edge}", put(register))
            .route("/v1/edges/{edge}/changes", get(changes))
            .route("/v1/edges/{edge}/desired", get(desired))
            .route("/v1/edges/{edge}/bundles/{sha256}", get(bundle))
            .route("/v1/edges/{edge}/report", post(report))
            .with_state(desk.clone());
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let address = tcp.local_addr()?;
        let serving = tokio::spawn(axum::serve(tcp, router).into_future());
        Ok(Self { address, desk, serving })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn asked(&self) -> Asked {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let Desk { polls, reports, others, .. } = &*self.desk;
        Asked { polls: count(polls), reports: count(reports), others: count(others) }
    }

    pub(super) fn deploy(&self, certificates: &[Certificate]) {
        self.desk.deploy(certificates);
    }

    /// Waits until a report says that each was seen.
    pub(super) async fn until_seen(
        &self,
        certificates: &[Certificate],
        within: Duration,
    ) -> Result<()> {
        let mut reported = self.desk.reported.subscribe();
        let all = || {
            let state = self.desk.state();
            certificates.iter().all(|one| state.seen.contains(&one.sha256))
        };
        let wait = async {
            while !all() {
                reported.changed().await?;
            }
            Ok(())
        };
        tokio::time::timeout(within, wait).await.context("the agent did not get there")?
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn register(Shared(desk): Shared<Arc<Desk>>) -> Json<Value> {
    desk.others.fetch_add(1, Relaxed);
    let revision = desk.state().acknowledged.clone();
    Json(json!({ "id": Uuid::new_v4(), "name": "edge", "group": "default", "revision": revision }))
}

async fn changes(
    Shared(desk): Shared<Arc<Desk>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Json<Value> {
    desk.polls.fetch_add(1, Relaxed);
    let number = |key: &str| -> u64 {
        let text = asked.get(key).map_or("0", String::as_str);
        text.rsplit('.').next().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let (after, limit) = (number("after"), usize::try_from(number("limit")).unwrap_or(1));
    let mut changed = desk.changed.subscribe();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(number("wait"));
    loop {
        changed.mark_unchanged();
        {
            let state = desk.state();
            let mut newer = state.items.range(after + 1..);
            let items: Vec<_> = newer.by_ref().take(limit).collect();
            let more = newer.next().is_some();
            let last = items.last().filter(|_| more).map_or(state.at, |(at, _)| **at);
            if !items.is_empty() || tokio::time::Instant::now() >= deadline {
                let items: Vec<_> = items.into_iter().map(|(_, item)| item.clone()).collect();
                return Json(json!({ "items": items, "up_to": format!("1.{last}"), "more": more }));
            }
        }
        tokio::time::timeout_at(deadline, changed.changed()).await.ok();
    }
}

async fn desired(Shared(desk): Shared<Arc<Desk>>) -> String {
    desk.others.fetch_add(1, Relaxed);
    let state = desk.state();
    let mut lines: String = state.items.values().map(|item| format!("{item}\n")).collect();
    let end =
        json!({ "end": true, "count": state.items.len(), "revision": format!("1.{}", state.at) });
    lines += &format!("{end}\n");
    lines
}

async fn bundle(
    Shared(desk): Shared<Arc<Desk>>,
    Path((_, sha256)): Path<(String, String)>,
) -> Response {
    desk.others.fetch_add(1, Relaxed);
    let found = desk.state().bundles.get(&sha256).cloned();
    found.map_or(StatusCode::NOT_FOUND.into_response(), |found| Json(found).into_response())
}

async fn report(Shared(desk): Shared<Arc<Desk>>, Json(body): Json<Value>) -> StatusCode {
    desk.reports.fetch_add(1, Relaxed);
    let seen = body.get("observations").and_then(Value::as_array).into_iter().flatten();
    let seen = seen.filter(|one| one.get("error").is_none_or(Value::is_null));
    let seen: Vec<_> =
        seen.filter_map(|one| one.get("sha256")?.as_str().map(str::to_owned)).collect();
    desk.state().seen.extend(seen);
    desk.reported.send_modify(|count| *count += 1);
    StatusCode::NO_CONTENT
}
