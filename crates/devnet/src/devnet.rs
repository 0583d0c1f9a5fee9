//! Starting and stopping the whole: zone, CA, journal.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::listener::{self, TlsListener};
use holdfast_gateway::point::Point;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::ca::{self, Authority, Ca, LABEL, Parts, RenewalWindow, Resolver};
use crate::config::DevnetConfig;
use crate::faults::Faults;
use crate::journal::{Journal, Line};
use crate::zone::{Zone, ZoneServer};

/// The root certificate's file in the data directory.
pub const ROOT_FILE: &str = "dev-ca.pem";

/// A running development network. Dropping it stops it without waiting; [`Devnet::shutdown`] waits.
pub struct Devnet {
    ca: Arc<Ca>,
    ca_address: SocketAddr,
    dns_address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Devnet {
    /// Opens the sockets, takes up what was kept, and serves.
    pub async fn start(config: DevnetConfig) -> Result<Self, Error> {
        if config.profiles.is_empty() {
            return Err(Error::NoProfile);
        }
        let server = ZoneServer::bind(config.dns).await?;
        let dns_address =
            server.address().map_err(|source| Error::Dns { address: config.dns, source })?;
        let tcp = listener::bind(config.ca).await?;
        let ca_address = tcp.local_addr().unwrap_or(config.ca);
        let kept = keep(&config).await?;
        let host = host(&config, ca_address);
        let tls = kept.authority.server_config(&hosts(&host))?;
        let own = || format!("https://{}", authority(&host, ca_address.port()));
        let base = config.base.clone().unwrap_or_else(own);
        let (faults, stop) = (Faults::default(), CancellationToken::new());
        let zone = Zone::new(config.edge.clone(), kept.journal.clone(), &kept.lines)?;
        let served = server.serve(zone.clone(), faults.clone(), stop.clone());
        let ca = Ca::start(Parts {
            settings: config,
            authority: kept.authority,
            zone,
            faults,
            journal: kept.journal,
            lines: &kept.lines,
            resolver: Resolver::new(reachable(dns_address)),
            stop,
            base,
        });
        let listener = TlsListener::new(tcp, tls);
        let tasks = vec![tokio::spawn(served), tokio::spawn(ca::serve(listener, ca.clone()))];
        tracing::warn!(
            directory = ca.url("/directory"),
            dns = %dns_address,
            "{LABEL}: it certifies whatever its own DNS zone says"
        );
        Ok(Self { ca, ca_address, dns_address, tasks })
    }

    /// Where the CA listens.
    pub fn ca_address(&self) -> SocketAddr {
        self.ca_address
    }

    /// Where the zone answers, over UDP and TCP.
    pub fn dns_address(&self) -> SocketAddr {
        self.dns_address
    }

    /// The ACME directory's URL.
    pub fn directory_url(&self) -> String {
        self.ca.url("/directory")
    }

    /// The URL of a path of the CA, as `/dev/orders`.
    pub fn url(&self, path: &str) -> String {
        self.ca.url(path)
    }

    /// The root of what the CA issues and of its own TLS, in PEM.
    pub fn root_pem(&self) -> &str {
        self.ca.authority.root_pem()
    }

    /// Deactivates every account: from now on the CA accepts none of their requests.
    pub fn deactivate_accounts(&self) {
        self.ca.deactivate_accounts();
    }

    /// The faults' switchboard.
    pub fn faults(&self) -> &Faults {
        &self.ca.faults
    }

    /// The zone's records.
    pub fn zone(&self) -> &Zone {
        &self.ca.zone
    }

    /// Looks at challenges on other ports from now on.
    pub fn set_ports(&self, http_port: u16, tls_port: u16) {
        self.ca.set_ports(http_port, tls_port);
    }

    /// Sets or clears the renewal window of a certificate (by its id), of a name's certificates, or of all (`*`).
    pub fn set_renewal_window(&self, target: &str, window: Option<RenewalWindow>) {
        self.ca.windows.set(target, window);
    }

    /// Stops: no new connections, answers under way end, everything noted is written.
    pub async fn shutdown(mut self) {
        self.ca.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            task.await.ok();
        }
        if let Err(error) = self.ca.journal.flushed().await {
            tracing::error!(%error, "development CA: what was done last is lost");
        }
    }
}

impl Drop for Devnet {
    fn drop(&mut self) {
        self.ca.stop.cancel();
    }
}

/// What outlives a restart.
struct Kept {
    authority: Authority,
    journal: Journal,
    lines: Vec<Line>,
}

async fn keep(config: &DevnetConfig) -> Result<Kept, Error> {
    let Some(data) = config.data.clone() else {
        let authority = Authority::in_memory()?;
        return Ok(Kept { authority, journal: Journal::memory(), lines: Vec::new() });
    };
    let own = data.join("devnet");
    let keys = tokio::task::spawn_blocking({
        let (data, own) = (data.clone(), own.clone());
        move || keep_keys(&data, &own)
    });
    let authority = keys.await.map_err(|_| Error::Interrupted)??;
    let (journal, lines) = Journal::open(&own.join("journal.jsonl")).await?;
    Ok(Kept { authority, journal, lines })
}

fn keep_keys(data: &Path, own: &Path) -> Result<Authority, Error> {
    std::fs::create_dir_all(own).map_err(|source| Error::Open { path: own.to_owned(), source })?;
    let authority = Authority::in_file(&own.join("authority.json"))?;
    let (root, file) = (authority.root_pem().as_bytes(), data.join(ROOT_FILE));
    // Not rewritten without need: it must start on a full disk too.
    if std::fs::read(&file).is_ok_and(|kept| kept == root) {
        return Ok(authority);
    }
    files::write(Point::FILE_OTHER, &file, root, Access::Public)?;
    Ok(authority)
}

/// What the CA calls itself in URLs.
fn host(config: &DevnetConfig, address: SocketAddr) -> String {
    config.host.clone().unwrap_or_else(|| reachable(address).ip().to_string())
}

/// Where a listener is reached from this machine: one on all addresses, at the loopback one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn hosts(own: &str) -> Vec<String> {
    let usual = ["localhost", "127.0.0.1", "::1", "ca.holdfast.test"];
    let others = usual.into_iter().filter(|host| *host != own);
    [own].into_iter().chain(others).map(str::to_owned).collect()
}
