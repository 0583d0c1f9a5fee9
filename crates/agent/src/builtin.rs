//! The built-in edge: TLS for every deployed name, challenges, a page of its own or an upstream behind it.
//!
//! ```text
//!   :80  -> door -> plain   -> challenge, proof | redirect to https
//!   :443 -> door -> hello   -> name? -> shelf (bounded cache) -> source (the store)
//!                      |            `-> challenge certificate (acme-tls/1)
//!                      v
//!                   secure  -> challenge, proof | upstream | page
//! ```
//!
//! Certificates are loaded when a visitor asks for their name, never all at once. A connection keeps the settings it
//! began with, so a swap drops nobody. Whatever comes from outside is bounded in time and size.

mod alpn;
mod answer;
mod asked;
mod config;
mod connection;
mod door;
mod head;
mod hello;
mod page;
mod plain;
mod pulse;
mod queue;
mod quiet;
mod seats;
mod secure;
mod served;
mod shelf;
mod source;
mod tally;
mod upstream;
mod well_known;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use holdfast_gateway::listener;
use holdfast_model::{Hostname, Note};
use holdfast_store::{Change, NewEdge, Observation, SharedStore};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

pub use self::config::{EdgeConfig, EdgeLimits};
use self::door::Door;
use self::hello::Reception;
use self::plain::Plain;
use self::secure::Secure;
use self::served::Maker;
use self::shelf::Shelf;
pub use self::source::{Source, StoreSource};
pub use self::tally::Tallied;
use self::tally::Tally;
use self::upstream::Upstream;
use crate::{Bundles, Error, Prober, Result, Target};

/// How many certificates are fetched at once when many change.
const FETCHES: usize = 16;

/// How long the edge waits for a handshake with itself.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// An edge in this process. Its listeners run until they are told to stop; this is the hold on them, and the agent's target.
pub struct BuiltinEdge {
    identity: NewEdge,
    http: Option<SocketAddr>,
    https: SocketAddr,
    maker: Maker,
    shelf: Arc<Shelf>,
    prober: Prober,
    tally: Arc<Tally>,
    ended: Vec<CancellationToken>,
}

impl BuiltinEdge {
    /// Listens, and serves from the store, until `stop`.
    ///
    /// # Errors
    /// When an address cannot be had, or the upstream is none.
    pub async fn start(
        config: EdgeConfig,
        store: SharedStore,
        stop: CancellationToken,
    ) -> Result<Self> {
        let source = Arc::new(StoreSource::new(store, &config.group));
        Self::start_with(config, source, stop).await
    }

    /// Listens, and serves from any source, until `stop`.
    ///
    /// # Errors
    /// When an address cannot be had, or the upstream is none.
    pub async fn start_with(
        config: EdgeConfig,
        source: Arc<dyn Source>,
        stop: CancellationToken,
    ) -> Result<Self> {
        let https = listener::bind(config.https).await?;
        let http = match config.http {
            Some(address) => Some(listener::bind(address).await?),
            None => None,
        };
        let mut edge = Self::new(&config, source.clone(), &https)?;
        let upstream = upstream(&config, &edge.tally)?;
        let limits = Arc::new(config.limits);
        if let Some(http) = http {
            edge.http = Some(local(&http, config.http.unwrap_or(config.https))?);
            let shown = Some(config.https_port_shown).filter(|port| *port != 0);
            let plain = Plain::new(source.clone(), shown.unwrap_or(edge.https.port()));
            edge.open(Door::new(http, "http", limits.clone(), stop.clone()), plain);
        }
        let reception = Reception::new(edge.shelf.clone(), source.clone(), edge.maker.clone());
        let secure = Secure::new(reception, source, upstream, limits.clone(), edge.tally.clone());
        edge.open(Door::new(https, "https", limits, stop), secure);
        Ok(edge)
    }

    fn new(config: &EdgeConfig, source: Arc<dyn Source>, https: &TcpListener) -> Result<Self> {
        let maker = Maker::new()?;
        let tally = Arc::new(Tally::default());
        let shelf =
            Shelf::new(source, maker.clone(), config.cache_entries, &config.limits, tally.clone());
        Ok(Self {
            identity: NewEdge { name: config.name.clone(), group: config.group.clone() },
            http: None,
            https: local(https, config.https)?,
            maker,
            shelf: Arc::new(shelf),
            prober: Prober::new(PROBE_LIMIT)?,
            tally,
            ended: Vec::new(),
        })
    }

    fn open(&mut self, door: Door, host: impl door::Host) {
        let ended = CancellationToken::new();
        self.ended.push(ended.clone());
        let done = ended.drop_guard();
        tokio::spawn(async move {
            door.run(Arc::new(host)).await;
            drop(done);
        });
    }

    /// The edge as it registers.
    #[must_use]
    pub fn identity(&self) -> NewEdge {
        self.identity.clone()
    }

    /// Where HTTP is answered.
    #[must_use]
    pub const fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where HTTPS is answered.
    #[must_use]
    pub const fn https(&self) -> SocketAddr {
        self.https
    }

    /// What happened so far, in numbers.
    #[must_use]
    pub fn tallied(&self) -> Tallied {
        self.tally.so_far()
    }

    /// Waits until the edge was stopped and the last connection has ended.
    pub async fn ended(&self) {
        for ended in &self.ended {
            ended.cancelled().await;
        }
    }

    async fn put(&self, change: &Change, bundles: &dyn Bundles) -> Result<Result<(), Note>> {
        let bundle = match bundles.bundle(change).await {
            Ok(Some(bundle)) => bundle,
            Ok(None) => {
                let detail = "nothing is deployed for this name any more";
                return Ok(Err(Note::new("edge-certificate-gone", detail)));
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => return Ok(Err(error.note())),
        };
        match self.maker.make(&bundle) {
            Ok(served) => self.shelf.put(&change.name, served),
            Err(error) => return Ok(Err(error.note())),
        }
        Ok(Ok(()))
    }
}

#[async_trait]
impl Target for BuiltinEdge {
    async fn apply(
        &self,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        ready: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        let bundles = bundles.as_ref();
        let puts = changes.iter().enumerate().map(|(at, change)| async move {
            let done = self.put(change, bundles).await;
            if let Ok(Ok(())) = done {
                ready.send(at).ok();
            }
            done
        });
        let puts: Vec<_> = puts.collect();
        let results: Vec<_> = stream::iter(puts).buffered(FETCHES).collect().await;
        results.into_iter().collect()
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        names.iter().for_each(|name| self.shelf.withdraw(name));
        Ok(names.iter().map(|_| Ok(())).collect())
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        self.prober.look(reachable(self.https), name).await
    }

    async fn answers(&self) -> Result<()> {
        self.prober.answers(reachable(self.https)).await
    }

    async fn noticed(&self) -> Observation {
        self.shelf.observed().await
    }

    async fn listing_ended(&self, _restored: bool) -> Result<()> {
        // The source knows what is served: nothing is dropped that it still has.
        self.shelf.recheck_all();
        Ok(())
    }
}

fn upstream(config: &EdgeConfig, tally: &Arc<Tally>) -> Result<Option<Upstream>> {
    let made = config.upstream.as_ref().map(|uri| Upstream::new(uri, &config.limits, tally));
    made.transpose()
}

fn local(tcp: &TcpListener, asked: SocketAddr) -> Result<SocketAddr> {
    let failed = |source| listener::Error::Bind { address: asked, source };
    tcp.local_addr().map_err(failed).map_err(Error::from)
}

/// Where this process reaches a listener that listens everywhere.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}
