//! A server on a store of its own, and a client of three scopes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use holdfast_cluster::Cluster;
use holdfast_dns::{End, Expectation, Finding, Seen, Walk};
use holdfast_model::{Hostname, Outcome, Policy, decide};
use holdfast_server::{AppState, Guard, Look, Metrics, Settings, Writes, router, token};
use holdfast_store::{
    Actor, Claimant, Claimed, Commit, MasterKey, NewToken, OpenOptions, OrderLimits, Products,
    Scope, SharedStore,
};
use holdfast_testkit::{Postgres, Scratch};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use uuid::Uuid;

pub(crate) const DIRECTORY: &str = "https://ca.example/directory";
pub(crate) const LIMITS: OrderLimits = OrderLimits { per_3h: 300, in_flight: 64 };

/// A world whose DNS says what a test says.
#[derive(Default)]
pub(crate) struct World {
    says: Mutex<Option<End>>,
    is_silent: Mutex<bool>,
    asked: Mutex<Option<Expectation>>,
}

impl World {
    /// Names end so from now on; without it they point at us.
    pub(crate) fn say(&self, end: End) {
        *self.says.lock().unwrap() = Some(end);
    }

    /// What was last asked.
    pub(crate) fn asked(&self) -> Expectation {
        self.asked.lock().unwrap().clone().expect("somebody looked")
    }

    /// Nothing answers from now on.
    pub(crate) fn fall_silent(&self) {
        *self.is_silent.lock().unwrap() = true;
    }
}

#[async_trait]
impl Look for World {
    async fn look(&self, expectation: &Expectation) -> Finding {
        *self.asked.lock().unwrap() = Some(expectation.clone());
        if *self.is_silent.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        let end = self.says.lock().unwrap().unwrap_or(End::Target);
        let aliases = match end {
            End::Target => expectation.targets.iter().take(1).map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let walk = Walk { aliases, addresses: Vec::new(), end };
        let seen = Seen {
            ipv4: walk.clone(),
            ipv6: walk,
            target_addresses: Vec::new(),
            target_silent: false,
            http: Vec::new(),
        };
        Finding::new(expectation.clone(), seen)
    }
}

/// Who works in these tests.
pub(crate) fn actor() -> Actor {
    Actor { instance: "replica".into(), name: "worker".into() }
}

/// A server with its store.
pub(crate) struct Kit {
    pub(crate) store: SharedStore,
    pub(crate) router: Router,
    pub(crate) state: AppState,
    pub(crate) world: Arc<World>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) admin: String,
    pub(crate) read: String,
    pub(crate) edge: String,
    pub(crate) scratch: Scratch,
}

impl Kit {
    /// With the usual settings.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::in_directory(Scratch::new().unwrap(), change).await
    }

    /// On the SQLite file of a directory.
    pub(crate) async fn in_directory(scratch: Scratch, change: impl FnOnce(&mut Settings)) -> Self {
        let url = format!("sqlite:{}", scratch.path().join("holdfast.db").display());
        Self::on(&url, scratch, change).await
    }

    /// On PostgreSQL.
    pub(crate) async fn on_postgres() -> Self {
        Self::on_postgres_with(|_| {}).await
    }

    /// On PostgreSQL, with other settings.
    pub(crate) async fn on_postgres_with(change: impl FnOnce(&mut Settings)) -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        Self::on(&url, Scratch::new().unwrap(), change).await
    }

    /// Two replicas on one PostgreSQL.
    pub(crate) async fn two_on_postgres(change: impl Fn(&mut Settings)) -> (Self, Self) {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        let key = MasterKey::generate().unwrap();
        let one = Self::keyed(&url, &key, Scratch::new().unwrap(), &change).await;
        (one, Self::keyed(&url, &key, Scratch::new().unwrap(), &change).await)
    }

    /// On this database.
    pub(crate) async fn on(
        url: &str,
        scratch: Scratch,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::keyed(url, &MasterKey::generate().unwrap(), scratch, change).await
    }

    async fn keyed(
        url: &str,
        key: &MasterKey,
        scratch: Scratch,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let store = holdfast_store::open(url, Some(key.clone()), OpenOptions::default());
        let store = store.await.unwrap();
        let world = Arc::new(World::default());
        let shutdown = CancellationToken::new();
        let mut settings = settings(store.clone(), world.clone(), shutdown.clone());
        change(&mut settings);
        let admin = keep(&store, Scope::Admin, None).await;
        let read = keep(&store, Scope::Read, None).await;
        let edge = keep(&store, Scope::Edge, Some("default")).await;
        let state = AppState::new(settings);
        let router = router(state.clone());
        Self { store, router, state, world, shutdown, admin, read, edge, scratch }
    }

    /// Sends a request as it stands.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let answer = Answer::of(response).await;
        // Whatever a test is about: what is answered is what is documented.
        crate::schema::hold_against(&method, &path, &answer);
        answer
    }

    /// Asks as admin, without a body.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Answer {
        self.send(asked(method, path, &self.admin).body(Body::empty()).unwrap()).await
    }

    /// Asks for something as admin.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path).await
    }

    /// Sends JSON as admin.
    pub(crate) async fn json(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = asked(method, path, &self.admin)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }

    /// Adds a domain and gives it as answered.
    pub(crate) async fn add(&self, name: &str) -> Value {
        let body = serde_json::json!({ "name": name });
        let answer = self.json(Method::POST, "/v1/domains", &body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        answer.json()
    }

    /// Works on the one domain that is due, as an engine would.
    pub(crate) async fn work(&self, outcome: Outcome, products: Products) -> Claimed {
        let batch = self.store.claim(&worker(), 1, Duration::from_secs(30)).await.unwrap();
        let claimed = batch.work.into_iter().next().expect("a domain is due");
        let commit = Commit {
            transition: decide(&claimed.domain, &outcome, &Policy::default(), batch.now),
            products,
            answers_request: false,
            keep_claim: false,
            actor: actor(),
        };
        self.store.commit(&claimed, &commit).await.unwrap()
    }
}

/// Who works in tests.
pub(crate) fn worker() -> Claimant {
    Claimant { instance: "replica".into(), incarnation: Uuid::from_u128(1) }
}

pub(crate) fn settings(
    store: SharedStore,
    world: Arc<World>,
    shutdown: CancellationToken,
) -> Settings {
    Settings {
        store,
        look: world,
        targets: vec![Hostname::parse("edge.example.net").unwrap()],
        addresses: Vec::new(),
        http_proof_port: None,
        unique_target: false,
        instance: "replica".into(),
        cluster: Cluster::alone("replica"),
        guard: Guard::new(Writes::Any, Arc::new(Cluster::alone("replica")), None).unwrap(),
        pulse: None,
        edge_group: "default".into(),
        directory: DIRECTORY.into(),
        ca_name: None,
        ca: None,
        limits: LIMITS,
        policy: Policy::default(),
        edges_in_use: true,
        allow_plaintext: false,
        shutdown,
        metrics: Metrics::none(),
    }
}

async fn keep(store: &SharedStore, scope: Scope, group: Option<&str>) -> String {
    let text = token::mint().unwrap();
    let new = NewToken {
        name: format!("{}-token", scope.as_str()),
        scope,
        hash: token::hash(&text),
        edge: group.map(|_| "edge-1".to_owned()),
        group: group.map(ToOwned::to_owned),
    };
    store.keep_token(&new).await.unwrap();
    text
}

/// A request with a token, to be finished with a body.
pub(crate) fn asked(method: Method, path: &str, token: &str) -> http::request::Builder {
    let authorization = format!("Bearer {token}");
    Request::builder().method(method).uri(path).header(header::AUTHORIZATION, authorization)
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    async fn of(response: http::Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// The answer's JSON, if the status is as it should be.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self.json()
    }

    /// The problem's JSON, if it is this one and well made.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            (body["code"].as_str(), body["status"].as_u64()),
            (Some(code), Some(status.into())),
            "{body}"
        );
        assert!(
            body["title"].is_string() && !body["detail"].as_str().unwrap().is_empty(),
            "{body}"
        );
        body
    }
}
