//! A whole installation in one process: store, CA, zone, edge, engine. Everything is real but the ladder's length.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use holdfast_acme::{Ca, CaConfig, KeyType};
use holdfast_agent::{AgentConfig, BuiltinEdge, EdgeConfig, StoreFeed, run_agent};
use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_dns::{Limits, Resolver};
use holdfast_engine::{Deployment, Engine, EngineConfig};
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_model::{Domain, DomainId, Hostname, Ladder, Policy, State};
use holdfast_store::{
    Actor, ChallengeKind, Claimant, EventBody, Import, MasterKey, NewDomain, OrderLimits, Page,
    SharedStore,
};
use holdfast_testkit::{LyingCa, Postgres, Scratch, eventually};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// What a test may set.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) backend: Backend,
    pub(crate) policy: Policy,
    pub(crate) devnet: DevnetConfig,
    pub(crate) limits: OrderLimits,
    pub(crate) profile: Option<String>,
    pub(crate) engines: u32,
    pub(crate) concurrency: u32,
    /// Where the first engine asks for names, instead of the zone.
    pub(crate) resolver: Option<SocketAddr>,
    /// Does a proxy that can lie stand before the CA? Then the root of the CA's TLS is not that of what it issues.
    pub(crate) lying: bool,
    /// Is the root of what the CA issues named, or else pinned where it is not that of its TLS?
    pub(crate) issuer_root: bool,
    /// What the CA's TLS is checked by, where that is not its own root: then it cannot be reached.
    pub(crate) wrong_root: Option<String>,
    /// Does the edge answer on plain HTTP? Else only the handshake can prove anything.
    pub(crate) plain: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            backend: Backend::Sqlite,
            policy: quick(),
            devnet: DevnetConfig::default(),
            limits: OrderLimits { per_3h: 100_000, in_flight: 64 },
            profile: None,
            engines: 1,
            concurrency: 64,
            resolver: None,
            lying: false,
            issuer_root: false,
            wrong_root: None,
            plain: true,
        }
    }
}

/// The product's policy with a ladder that fits a test.
pub(crate) fn quick() -> Policy {
    let mut policy = Policy::default();
    policy.ladder = Ladder { rungs: vec![Duration::from_millis(200)], ..policy.ladder };
    policy.dns.first_delay = Duration::from_millis(50);
    policy.watch.first_delay = Duration::from_millis(200);
    policy.watch.longest_delay = Duration::from_millis(200);
    policy
}

/// The product's policy, in which a failure stays long enough to be seen.
pub(crate) fn patient() -> Policy {
    let mut policy = quick();
    policy.ladder = Policy::default().ladder;
    policy.watch = Policy::default().watch;
    policy
}

pub(crate) struct World {
    pub(crate) store: SharedStore,
    pub(crate) devnet: Devnet,
    pub(crate) lying: Option<LyingCa>,
    pub(crate) url: String,
    /// Where the edge answers, on plain HTTP and in handshakes.
    pub(crate) ports: (u16, u16),
    stop: CancellationToken,
    _scratch: Scratch,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Self {
        let scratch = Scratch::new().unwrap();
        let url = url(setup.backend, &scratch).await;
        let store = open(&url).await;
        let stop = CancellationToken::new();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let edge = EdgeConfig::new("built-in", "default", setup.plain.then_some(any), any);
        let edge = Arc::new(BuiltinEdge::start(edge, store.clone(), stop.clone()).await.unwrap());
        // Nobody listens at port 1.
        let (http_port, tls_port) =
            (edge.http().map_or(1, |http| http.port()), edge.https().port());
        let lying = if setup.lying { Some(LyingCa::start().await.unwrap()) } else { None };
        let base = lying.as_ref().map(LyingCa::base);
        let devnet = DevnetConfig { http_port, tls_port, base, ..setup.devnet.clone() };
        let devnet = Devnet::start(devnet).await.unwrap();
        if let Some(lying) = &lying {
            lying.stand_before(devnet.ca_address(), devnet.root_pem()).unwrap();
        }
        let feed = Arc::new(StoreFeed::new(store.clone(), edge.identity()));
        tokio::spawn(run_agent(feed, edge, AgentConfig::default(), stop.clone()));
        let ports = (http_port, tls_port);
        let world = Self { store, devnet, lying, url, ports, stop, _scratch: scratch };
        for number in 0..setup.engines {
            let engine = world.engine(number, &setup);
            tokio::spawn(engine.run(world.stop.clone()));
        }
        world
    }

    fn engine(&self, number: u32, setup: &Setup) -> Engine {
        self.engine_at(&self.devnet, number, uuid::Uuid::new_v4(), setup)
    }

    /// The CA as an engine asks it.
    pub(crate) fn ca(&self, devnet: &Devnet, setup: &Setup) -> Ca {
        let ca = CaConfig {
            directory: devnet.directory_url(),
            extra_roots_pem: Some(match (&setup.wrong_root, &self.lying) {
                (Some(wrong), _) => wrong.clone(),
                (None, Some(_)) => self.tls_root().to_owned(),
                (None, None) => devnet.root_pem().to_owned(),
            }),
            issuer_roots_pem: setup.issuer_root.then(|| devnet.root_pem().to_owned()),
            email: Some("ops@example.com".into()),
            agree_terms: true,
            key_type: KeyType::EcdsaP256,
            profile: setup.profile.clone(),
            challenge: match setup.plain {
                true => ChallengeKind::Http01,
                false => ChallengeKind::TlsAlpn01,
            },
            eab: None,
            time_limit: Duration::from_secs(10),
            limits: setup.limits,
        };
        Ca::new(ca, self.store.clone()).unwrap()
    }

    /// An engine that orders at this CA.
    pub(crate) fn engine_at(
        &self,
        devnet: &Devnet,
        number: u32,
        incarnation: uuid::Uuid,
        setup: &Setup,
    ) -> Engine {
        let zone = setup.resolver.filter(|_| number == 0);
        let zone = [zone.unwrap_or_else(|| devnet.dns_address())];
        let limits_of_looks = Limits { ask_private: true, ..Limits::default() };
        let resolver = Resolver::new(Some(&zone), limits_of_looks).unwrap();
        let ca = self.ca(devnet, setup);
        let config = EngineConfig {
            claimant: Claimant { instance: format!("engine-{number}"), incarnation },
            claim: Duration::from_secs(5),
            concurrency: setup.concurrency,
            policy: setup.policy.clone(),
            targets: vec![name("edge.holdfast.test")],
            addresses: Vec::new(),
            http_proof_port: None,
            deployment: Deployment::Edges,
        };
        Engine::new(self.store.clone(), resolver, ca, config)
    }

    /// The root of the CA's own TLS.
    fn tls_root(&self) -> &str {
        self.lying.as_ref().map_or(self.devnet.root_pem(), LyingCa::tls_root_pem)
    }

    pub(crate) fn lying(&self) -> &LyingCa {
        self.lying.as_ref().unwrap()
    }

    pub(crate) async fn add(&self, text: &str) -> DomainId {
        self.store.add(&new(text, None)).await.unwrap().domain.id
    }

    pub(crate) async fn domain(&self, id: DomainId) -> Domain {
        self.store.domain(id).await.unwrap().unwrap()
    }

    /// Waits until the domain is in `state`.
    pub(crate) async fn reaches(&self, id: DomainId, state: State) -> Domain {
        self.reaches_when(id, state.as_str(), |domain| domain.state == state).await
    }

    pub(crate) async fn reaches_when(
        &self,
        id: DomainId,
        what: &str,
        met: impl Fn(&Domain) -> bool,
    ) -> Domain {
        eventually(Duration::from_secs(60), what, async || {
            let domain = self.domain(id).await;
            if met(&domain) {
                Ok(domain)
            } else {
                Err(format!("{} {:?}", domain.state, domain.last_error))
            }
        })
        .await
    }

    /// The states of the history, checked to be without a gap.
    pub(crate) async fn history(&self, id: DomainId) -> Vec<State> {
        let page = Page { limit: 1_000, after: None };
        let mut states: Vec<State> = Vec::new();
        for event in self.store.history(id, &page).await.unwrap().items {
            let EventBody::Transition { from, to, .. } = event.body else { continue };
            assert_eq!(from, states.last().copied(), "the history has a gap");
            states.extend(to);
        }
        states
    }

    /// What the CA says of itself: `orders`, `certificates`, `accounts`.
    pub(crate) async fn ca_says(&self, what: &str) -> Vec<Value> {
        let roots = Some(self.tls_root().as_bytes().to_vec());
        let client =
            Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() })
                .unwrap();
        let request = http::Request::get(self.devnet.url(&format!("/dev/{what}")))
            .body(Bytes::new())
            .unwrap();
        let reply = client.send(request).await.unwrap();
        serde_json::from_slice(reply.body()).unwrap()
    }

    /// How often a fault that is switched on struck.
    pub(crate) fn struck(&self, kind: &str) -> u64 {
        let faults = self.devnet.faults().list();
        faults.iter().find(|fault| fault.kind == kind).map_or(0, |fault| fault.struck)
    }

    /// How often the CA finalized an order of each name.
    pub(crate) async fn finalized(&self) -> HashMap<String, u64> {
        let mut times = HashMap::new();
        for order in self.ca_says("orders").await {
            let name = order["names"][0].as_str().unwrap().to_owned();
            *times.entry(name).or_default() += order["finalized"].as_u64().unwrap();
        }
        times
    }
}

async fn url(backend: Backend, scratch: &Scratch) -> String {
    match backend {
        Backend::Sqlite => format!("sqlite:{}", scratch.path().join("holdfast.db").display()),
        Backend::Postgres => Postgres::shared().await.unwrap().database().await.unwrap(),
    }
}

async fn open(url: &str) -> SharedStore {
    let key = MasterKey::generate().unwrap();
    holdfast_store::open(url, Some(key), holdfast_store::OpenOptions::default()).await.unwrap()
}

pub(crate) fn name(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

pub(crate) fn actor() -> Actor {
    Actor { instance: "test".into(), name: "test".into() }
}

pub(crate) fn new(text: &str, import: Option<Import>) -> NewDomain {
    NewDomain {
        id: DomainId::new(),
        name: name(text),
        tenant: None,
        resource: None,
        target: name("edge.holdfast.test"),
        target_given: false,
        edge_group: "default".into(),
        labels: BTreeMap::new(),
        orchestration_id: uuid::Uuid::new_v4().to_string(),
        import,
        actor: actor(),
    }
}
