//! What every handler shares. Made once at start, cloned by reference.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_acme::Ca;
use holdfast_cluster::Cluster;
use holdfast_engine::Pulse;
use holdfast_model::{Hostname, Policy};
use holdfast_store::{Actor, ChallengeDesk, Error, Fence, OrderLimits, Secret, SharedStore};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::auth::Caller;
use crate::database::WriteCheck;
use crate::stream::{Tail, Welcomes};
use crate::vital::VitalCache;
use crate::{Guard, Look, Metrics, alert};

/// Event streams that may be open at once. One reader feeds them all.
const STREAMS: usize = 512;

/// Edges that may wait for changes at once.
const POLLS: usize = 1024;

/// What a server is made of.
pub struct Settings {
    /// What is remembered.
    pub store: SharedStore,
    /// What the world's DNS says.
    pub look: Arc<dyn Look>,
    /// What a CNAME may point to; the first is told to new customers.
    pub targets: Vec<Hostname>,
    /// What an apex may point to.
    pub addresses: Vec<IpAddr>,
    /// The port at which a name that reaches us over HTTP counts as pointed at us; none when it does not.
    pub http_proof_port: Option<u16>,
    /// Does every domain get a target of its own below the first?
    pub unique_target: bool,
    /// This replica, as people know it.
    pub instance: String,
    /// The cluster as this replica sees it.
    pub cluster: Cluster,
    /// What happens to writes where this replica does not lead.
    pub guard: Guard,
    /// Whether its engine goes on, where it has one.
    pub pulse: Option<Pulse>,
    /// The group of domains and edges that name none.
    pub edge_group: String,
    /// The ACME directory new certificates come from.
    pub directory: String,
    /// What that CA is called; none: by the host of the directory.
    pub ca_name: Option<String>,
    /// The CA there, as this replica asks it; none where it asks none.
    pub ca: Option<Ca>,
    /// How fast orders may be made there.
    pub limits: OrderLimits,
    /// How long a domain may stay in a state before that is worth an alert.
    pub policy: Policy,
    /// Does anybody report what is served? Else `serving` is null.
    pub edges_in_use: bool,
    /// May private keys leave over plain HTTP to other machines?
    pub allow_plaintext: bool,
    /// Fires when this replica begins to end: `/health/ready` is 503 from then on.
    pub shutdown: CancellationToken,
    /// What `/metrics` shows.
    pub metrics: Metrics,
}

/// What every handler shares.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// See [`AppState`].
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) started: AtomicBool,
    pub(crate) cluster_secret: OnceCell<Secret>,
    pub(crate) challenges: ChallengeDesk,
    pub(crate) vitals: VitalCache,
    pub(crate) database: WriteCheck,
    leaderless: std::sync::Mutex<Option<Instant>>,
    pub(crate) rotation: Arc<Mutex<()>>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) tail: Tail,
    pub(crate) welcomes: Welcomes,
    pub(crate) polls: Arc<Semaphore>,
    pub(crate) audit: Audit,
}

impl AppState {
    /// Makes it. Does no I/O.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let challenges = ChallengeDesk::new(settings.store.clone());
        Self(Arc::new(Shared {
            settings,
            challenges,
            vitals: VitalCache::default(),
            database: WriteCheck::default(),
            leaderless: std::sync::Mutex::default(),
            started: AtomicBool::new(false),
            cluster_secret: OnceCell::new(),
            rotation: Arc::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            tail: Tail::default(),
            welcomes: Welcomes::default(),
            polls: Arc::new(Semaphore::new(POLLS)),
            audit: Audit::default(),
        }))
    }

    /// Evaluates alerts and makes them stand: each raising and clearing becomes one event. For whoever holds the lease of that work.
    ///
    /// # Errors
    /// When the store does not answer, or the fence says that the work is another's.
    pub async fn settle_alerts(&self, fence: Option<&Fence>) -> Result<u64, Error> {
        alert::gather::settle(self, fence).await
    }

    /// How many edges wait here for changes.
    #[must_use]
    pub fn edges_waiting(&self) -> usize {
        POLLS.saturating_sub(self.polls.available_permits())
    }

    /// How long nobody has been known to lead, as far as anybody looked.
    pub(crate) fn leaderless(&self) -> Option<Duration> {
        let known = self.cluster.master().is_some();
        let mut since = self.leaderless.lock().unwrap_or_else(PoisonError::into_inner);
        *since = match known {
            true => None,
            false => Some(since.unwrap_or_else(Instant::now)),
        };
        since.map(|since| since.elapsed())
    }

    /// Who is to stand in the history for what `caller` asks of this replica.
    pub(crate) fn actor(&self, caller: &Caller) -> Actor {
        Actor { instance: self.instance.clone(), name: caller.name.clone() }
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Deref for Shared {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}
