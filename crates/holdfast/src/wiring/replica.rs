//! One replica: API, engine and built-in edge over one store, from their start to their end.

use std::{path::Path, sync::Arc, time::Duration};

use holdfast_acme::Ca;
use holdfast_agent::{AgentConfig, BuiltinEdge, EdgeConfig, StoreFeed, run_agent};
use holdfast_cluster::{ALERTS, Cluster, MAINTENANCE, Task};
use holdfast_dns::{Limits, Resolver};
use holdfast_engine::{Deployment, Engine, EngineConfig, Pulse, Retention, chores};
use holdfast_gateway::listener::{self, TlsListener};
use holdfast_model::Policy;
use holdfast_server::{
    AppState, Courier, CourierConfig, Door, Guard, Metrics, Settings, Writes, pull_router, router,
    serve,
};
use holdfast_store::{Claimant, Error, Progress, SharedStore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ca, cluster, instance};
use crate::{
    config::{self, Config, EdgeMode, Role},
    failure::{Failure, chain},
};

/// How long after the drain a replica may take to end: requests under way, work under way, leases, visitors of the edge.
const GRACE: Duration = Duration::from_secs(20);

/// How often alerts are evaluated.
const ALERTS_EVERY: Duration = Duration::from_secs(15);

/// Messages to webhooks that are over are kept for so long, for whoever asks why.
const MESSAGE_DAYS: u32 = 7;
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const PRUNE_ROWS: u32 = 10_000;

/// What a replica is made from.
pub(crate) struct Plan {
    /// What it was told.
    pub(crate) config: Config,
    /// What it does.
    pub(crate) role: Role,
    /// Retry, timeout, renewal.
    pub(crate) policy: Policy,
    /// Who it is.
    pub(crate) instance: String,
    /// What it remembers.
    pub(crate) store: SharedStore,
    /// Fires when it is to end.
    pub(crate) shutdown: CancellationToken,
}

/// A running replica.
pub(crate) struct Replica {
    tasks: JoinSet<Ended>,
    edge: Option<(Arc<BuiltinEdge>, CancellationToken)>,
    cluster: Cluster,
    /// How long it serves after it was told to end.
    drain: Duration,
    shutdown: CancellationToken,
}

/// A part that has ended, and why if it could not go on.
type Ended = (&'static str, Result<(), Failure>);

/// Retry, timeout and renewal as configured.
pub(crate) fn policy(config: &Config) -> Policy {
    let mut policy = Policy::default();
    policy.dns.attempts = config.provisioning.dns_attempts;
    policy.dns.within = Duration::from_secs(config.provisioning.dns_timeout_seconds.into());
    policy.renewal.before_days = config.renewal.before_days;
    policy
}

/// Where the API listens, as configured.
pub(crate) async fn door(server: &config::Server) -> Result<Door, Failure> {
    let tcp = listener::bind(server.listen)
        .await
        .map_err(|error| refused("the API cannot listen", &error))?;
    let (Some(chain), Some(key)) = (&server.tls_certificate, &server.tls_key) else {
        return Ok(tcp.into());
    };
    let chain = pem("server.tls_certificate", chain)?;
    let key = pem("server.tls_key", key)?;
    let clients =
        server.client_ca.as_deref().map(|path| pem("server.client_ca", path)).transpose()?;
    let tls = listener::server_config(&chain, &key, clients.as_deref());
    let tls = tls.map_err(|error| refused("server.tls_certificate", &error))?;
    Ok(TlsListener::new(tcp, tls).into())
}

impl Plan {
    /// Opens every listener, then lets everything run. Serves when this returns.
    pub(crate) async fn start(self) -> Result<Replica, Failure> {
        let resolver = self.resolver()?;
        let door = door(&self.config.server).await?;
        let edge = self.edge().await?;
        let pull = self.pull().await?;
        let drain = Duration::from_secs(self.config.server.drain_seconds.into());
        // Once it can be reached it makes itself known.
        let cluster = cluster::join(&self).await?;
        let mut tasks = JoinSet::new();
        let ca = ca::open(&self.config.acme, &self.config.edge, self.store.clone())?;
        let engine = match self.role {
            Role::Api => None,
            Role::All | Role::Worker => {
                let settings = self.engine(&cluster);
                Some(Engine::new(self.store.clone(), resolver.clone(), ca.clone(), settings))
            }
        };
        let pulse = engine.as_ref().map(Engine::pulse);
        let state = AppState::new(self.api(Arc::new(resolver), ca, cluster.clone(), pulse)?);
        let served = serve(door, router(state.clone()), self.shutdown.clone(), drain);
        tasks.spawn(async move {
            served.await;
            ("API", Ok(()))
        });
        if let Some(engine) = engine {
            let (engine, stopping) = (engine.among(cluster.clone()), self.shutdown.clone());
            tasks.spawn(async move {
                engine.run(stopping).await;
                ("engine", Ok(()))
            });
        }
        tasks.spawn(self.courier()?);
        if let Some(pull) = pull {
            let served = serve(pull, pull_router(state.clone()), self.shutdown.clone(), drain);
            tasks.spawn(async move {
                served.await;
                ("pull listener", Ok(()))
            });
        }
        if let Some((edge, stop)) = &edge {
            let feed = Arc::new(StoreFeed::new(self.store.clone(), edge.identity()));
            let (target, stop) = (edge.clone(), stop.clone());
            tasks.spawn(async move {
                run_agent(feed, target, AgentConfig::default(), stop).await;
                ("edge", Ok(()))
            });
        }
        tasks.spawn(self.singletons(&cluster, state));
        Ok(Replica { tasks, edge, cluster, drain, shutdown: self.shutdown })
    }

    /// The work that one replica does for all.
    fn singletons(&self, cluster: &Cluster, api: AppState) -> impl Future<Output = Ended> + use<> {
        let sweep = Duration::from_secs(self.config.renewal.sweep_seconds.max(1).into());
        let mut tasks = chores(&self.store, &self.instance, sweep, self.retention());
        tasks.extend(self.watching(api));
        let (cluster, store) = (cluster.clone(), self.store.clone());
        let stopping = self.shutdown.clone();
        async move {
            let ran = cluster.run(&store, tasks, stopping).await;
            ("cluster", ran.map_err(cluster::failed))
        }
    }

    fn retention(&self) -> Retention {
        let days = |days: u32| Duration::from_secs(24 * 3600) * days;
        let kept = &self.config.retention;
        Retention { history: days(kept.history_days), removed: days(kept.removed_days) }
    }

    /// What is told to people: alerts, and the messages about them, which are kept for a while.
    fn watching(&self, api: AppState) -> [Task; 2] {
        let store = self.store.clone();
        [
            Task::new("alerts", ALERTS, ALERTS_EVERY, move |fence| {
                let api = api.clone();
                async move { api.settle_alerts(fence.as_ref()).await }
            }),
            Task::new("prune-messages", MAINTENANCE, PRUNE_EVERY, move |fence| {
                let store = store.clone();
                async move {
                    let pruned = store.prune_deliveries(fence.as_ref(), MESSAGE_DAYS, PRUNE_ROWS);
                    Ok::<_, Error>(Progress::of(pruned.await?, PRUNE_ROWS))
                }
            })
            .by_age(),
        ]
    }

    /// Carries messages to webhooks; any replica does, whatever its role.
    fn courier(&self) -> Result<impl Future<Output = Ended> + use<>, Failure> {
        let config = CourierConfig { roots: self.roots()?, ..CourierConfig::default() };
        let courier = Courier::new(self.store.clone(), config);
        let courier = courier.map_err(|error| refused("server.root_certificate", &error))?;
        let stopping = self.shutdown.clone();
        Ok(async move {
            courier.run(stopping).await;
            ("webhooks", Ok(()))
        })
    }

    /// Roots for the TLS of other replicas and of webhooks, beside the system's.
    fn roots(&self) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.config.server.root_certificate.as_deref();
        path.map(|path| pem("server.root_certificate", path)).transpose()
    }

    fn guard(&self, cluster: &Cluster) -> Result<Guard, Failure> {
        let writes = match self.config.server.writes {
            config::Writes::Any => Writes::Any,
            config::Writes::Forward => Writes::Forward,
            config::Writes::Redirect => Writes::Redirect,
            config::Writes::Reject => Writes::Reject,
        };
        let guard = Guard::new(writes, Arc::new(cluster.clone()), self.roots()?);
        guard.map_err(|error| refused("server.root_certificate", &error))
    }

    fn resolver(&self) -> Result<Resolver, Failure> {
        let servers = self.config.dns.resolvers.as_ref();
        let servers =
            servers.map(|servers| servers.iter().map(|server| server.0).collect::<Vec<_>>());
        // A CA on this machine is one for development: names lead to this machine as well, and who is not near does not answer.
        let limits = match self.config.acme.directory.is_loopback() {
            true => Limits { ask_private: true, http: Duration::from_secs(1), ..Limits::default() },
            false => Limits::default(),
        };
        Resolver::new(servers.as_deref(), limits).map_err(|error| Failure::usage(chain(&error)))
    }

    /// The door for proxies that fetch certificates by themselves.
    async fn pull(&self) -> Result<Option<Door>, Failure> {
        let Some(address) = self.config.edge.pull else { return Ok(None) };
        let tcp = listener::bind(address).await;
        let tcp = tcp.map_err(|error| refused("the pull listener cannot listen", &error))?;
        Ok(Some(tcp.into()))
    }

    async fn edge(&self) -> Result<Option<(Arc<BuiltinEdge>, CancellationToken)>, Failure> {
        let edge = &self.config.edge;
        let (EdgeMode::Builtin, Some(https)) = (edge.mode, edge.https) else { return Ok(None) };
        let name = edge.name.clone().or_else(|| self.config.replicas.instance_id.clone());
        // Without a name of its own it is known by its place, which a restart does not change.
        let name = name.unwrap_or_else(|| format!("{}:{}", instance::machine(), https.port()));
        let mut settings = EdgeConfig::new(&name, &edge.group, edge.http, https);
        settings.https_port_shown = edge.redirect_port.unwrap_or(0);
        settings.upstream = edge.upstream.as_ref().and_then(|url| url.as_str().parse().ok());
        let stop = CancellationToken::new();
        let started = BuiltinEdge::start(settings, self.store.clone(), stop.clone()).await;
        let edge = started.map_err(|error| Failure::failed(format!("{}.", chain(&error))))?;
        Ok(Some((Arc::new(edge), stop)))
    }

    fn http_proof_port(&self) -> Option<u16> {
        Some(self.config.dns.http_proof_port).filter(|port| *port != 0)
    }

    fn engine(&self, cluster: &Cluster) -> EngineConfig {
        let (dns, provisioning) = (&self.config.dns, &self.config.provisioning);
        EngineConfig {
            claimant: Claimant {
                instance: self.instance.clone(),
                incarnation: cluster.incarnation().unwrap_or_else(uuid::Uuid::new_v4),
            },
            claim: Duration::from_secs(provisioning.claim_seconds.into()),
            concurrency: provisioning.concurrency,
            policy: self.policy.clone(),
            targets: dns.targets.clone(),
            addresses: dns.addresses.clone(),
            http_proof_port: self.http_proof_port(),
            deployment: match self.config.edge.mode {
                EdgeMode::None => Deployment::Stored,
                EdgeMode::Agents | EdgeMode::Builtin => Deployment::Edges,
            },
        }
    }

    fn api(
        &self,
        look: Arc<Resolver>,
        ca: Ca,
        cluster: Cluster,
        pulse: Option<Pulse>,
    ) -> Result<Settings, Failure> {
        let config = &self.config;
        let metrics = Metrics::install(self.shutdown.clone());
        Ok(Settings {
            store: self.store.clone(),
            look,
            targets: config.dns.targets.clone(),
            addresses: config.dns.addresses.clone(),
            unique_target: config.dns.unique_target,
            http_proof_port: self.http_proof_port(),
            instance: self.instance.clone(),
            guard: self.guard(&cluster)?,
            cluster,
            pulse,
            edge_group: config.edge.group.clone(),
            directory: config.acme.directory.to_string(),
            ca_name: config.acme.name.clone(),
            ca: Some(ca),
            limits: ca::limits(&config.acme),
            policy: self.policy.clone(),
            edges_in_use: config.edge.mode != EdgeMode::None,
            allow_plaintext: config.security.allow_plaintext,
            shutdown: self.shutdown.clone(),
            metrics: metrics.map_err(|error| Failure::failed(chain(&error)))?,
        })
    }
}

impl Replica {
    /// Waits until it was told to end and has ended in order: the API last, and visitors of the edge after it.
    pub(crate) async fn ended(mut self) -> Result<(), Failure> {
        let mut broken = None;
        tokio::select! {
            // What ends because it was told to may end in the same moment.
            biased;
            () = self.shutdown.cancelled() => {}
            Some(ended) = self.tasks.join_next() => broken = Some(ended),
        }
        if let Some(Ok((_, Err(failure @ Failure::AtOnce(_))))) = broken {
            // Kept as it is until the process ends: dropping it would close the database.
            std::mem::forget(self);
            return Err(failure);
        }
        self.shutdown.cancel();
        let limit = self.drain + GRACE;
        if tokio::time::timeout(limit, self.wind_down()).await.is_err() {
            return Err(Failure::failed(format!(
                "It did not end in order within {} s and is cut off; what was under way goes on at another replica.",
                limit.as_secs()
            )));
        }
        match broken {
            None => Ok(()),
            Some(Ok((_, Err(failure)))) => Err(failure),
            Some(Ok((part, Ok(())))) => Err(Failure::failed(format!(
                "The {part} ended by itself; see the log, and start again."
            ))),
            Some(Err(panic)) => Err(Failure::failed(format!(
                "A part of the replica broke down ({panic}); see the log, and start again."
            ))),
        }
    }

    async fn wind_down(&mut self) {
        // The agent's own token comes last: until then the edge goes on reporting and serving.
        let agents = usize::from(self.edge.is_some());
        while self.tasks.len() > agents {
            self.tasks.join_next().await;
        }
        if let Some((edge, stop)) = &self.edge {
            stop.cancel();
            edge.ended().await;
        }
        while self.tasks.join_next().await.is_some() {}
        self.cluster.leave().await;
    }
}

fn pem(key: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "{key}: {} cannot be read ({error}); put a PEM file there.",
            path.display()
        ))
    })
}

fn refused(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::failed(format!("{what}: {}.", chain(error)))
}
