//! What every handler shares. Made once at start, cloned by reference.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdfast_cluster::Cluster;
use holdfast_model::{Hostname, Policy};
use holdfast_store::{Actor, OrderLimits, Secret, SharedStore};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::{Look, Metrics};

/// Event streams that may be open at once: each polls the store, slowly.
const STREAMS: usize = 512;

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
    /// The group of domains and edges that name none.
    pub edge_group: String,
    /// The ACME directory new certificates come from.
    pub directory: String,
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
    pub(crate) rotation: Arc<Mutex<()>>,
    pub(crate) streams: Arc<Semaphore>,
}

impl AppState {
    /// Makes it. Does no I/O.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Shared {
            settings,
            started: AtomicBool::new(false),
            cluster_secret: OnceCell::new(),
            rotation: Arc::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
        }))
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
