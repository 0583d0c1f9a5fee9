//! A TCP proxy between a client and a server: the wire that a test cuts, holds up and mends.
//!
//! What is held is not lost: it arrives when the wire is mended, as TCP's own repetition would bring it. So a request that
//! was given up on long ago still reaches the server: the case that fencing is for.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::port::free_port;

/// A direction through a [`Proxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What the client sends.
    ToServer,
    /// What the server sends.
    ToClient,
}

/// What happens to connections now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Weather {
    refusing: bool,
    to_server_held: bool,
    to_client_held: bool,
    delay: Duration,
    /// Connections accepted under an earlier number are closed.
    cuts: u64,
}

impl Weather {
    fn held(&self, way: Way) -> bool {
        match way {
            Way::ToServer => self.to_server_held,
            Way::ToClient => self.to_client_held,
        }
    }
}

/// A running proxy; dropping it closes its connections.
pub struct Proxy {
    address: SocketAddr,
    /// Where it led at first, as URLs name it.
    server: SocketAddr,
    target: watch::Sender<SocketAddr>,
    weather: watch::Sender<Weather>,
    listening: watch::Receiver<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of this machine and forwards to `server`.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let listener = TcpListener::bind(address).await.context("listening as a proxy")?;
        let (weather, seen) = watch::channel(Weather::default());
        let (told, listening) = watch::channel(true);
        let (target, leads_to) = watch::channel(server);
        let accepting = tokio::spawn(accept(listener, leads_to, seen, told));
        Ok(Self { address, server, target, weather, listening, accepting })
    }

    /// The same, before a server on this machine.
    pub async fn before(port: u16) -> Result<Self> {
        Self::start((Ipv4Addr::LOCALHOST, port).into()).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of the server behind it, led through it.
    pub fn lead(&self, url: &str) -> String {
        url.replace(&self.server.to_string(), &self.address.to_string())
    }

    /// Leads to another server on this machine from now on, as an address does after a failover; open connections are closed.
    pub fn lead_to(&self, port: u16) {
        self.lead_new_to(port);
        self.cut();
    }

    /// Leads new connections to another server on this machine from now on; open ones stay where they lead.
    pub fn lead_new_to(&self, port: u16) {
        self.target.send_replace((Ipv4Addr::LOCALHOST, port).into());
    }

    /// Closes every connection that is open now; new ones are let in.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Lets no new connection in, as if nothing listened here, until [`Proxy::resume`]. Those that are open stay so.
    pub async fn refuse(&self) {
        self.weather.send_modify(|weather| weather.refusing = true);
        self.until_listening(false).await;
    }

    /// Holds what is sent this way, on open and on new connections, until [`Proxy::resume`]: nothing arrives, nobody is
    /// told.
    pub fn hold(&self, way: Way) {
        self.weather.send_modify(|weather| match way {
            Way::ToServer => weather.to_server_held = true,
            Way::ToClient => weather.to_client_held = true,
        });
    }

    /// Lets everything arrive this much later, each way.
    pub fn delay(&self, by: Duration) {
        self.weather.send_modify(|weather| weather.delay = by);
    }

    /// Mends everything: what was held arrives, new connections are let in, nothing is late.
    pub async fn resume(&self) {
        self.weather
            .send_modify(|weather| *weather = Weather { cuts: weather.cuts, ..Weather::default() });
        self.until_listening(true).await;
    }

    async fn until_listening(&self, wanted: bool) {
        // The sender is gone only when the runtime is.
        self.listening.clone().wait_for(|listening| *listening == wanted).await.ok();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    first: TcpListener,
    leads_to: watch::Receiver<SocketAddr>,
    mut weather: watch::Receiver<Weather>,
    listening: watch::Sender<bool>,
) {
    let address = first.local_addr();
    let mut listener = Some(first);
    loop {
        let refusing = weather.borrow_and_update().refusing;
        if refusing {
            listener = None;
        } else if let (None, Ok(address)) = (&listener, &address) {
            // The port is still ours; only another listener of this very proxy could stand in the way.
            listener = TcpListener::bind(address).await.ok();
        }
        listening.send_replace(listener.is_some());
        let next = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = next => {
                if let Ok((client, _)) = accepted {
                    let server = *leads_to.borrow();
                    tokio::spawn(forward(client, server, weather.clone()));
                }
            }
            changed = weather.changed() => if changed.is_err() { return },
        }
    }
}

async fn forward(client: TcpStream, server: SocketAddr, mut weather: watch::Receiver<Weather>) {
    let cuts = weather.borrow_and_update().cuts;
    let both = async {
        let Ok(server) = TcpStream::connect(server).await else { return };
        client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(
            carry(from_client, to_server, Way::ToServer, weather.clone()),
            carry(from_server, to_client, Way::ToClient, weather.clone()),
        );
    };
    let mut cut = weather.clone();
    tokio::select! {
        () = both => {}
        // An error: the proxy is gone.
        _ = cut.wait_for(|weather| weather.cuts != cuts) => {}
    }
}

/// Carries bytes one way until that way ends.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut weather: watch::Receiver<Weather>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        let delay = weather.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if weather.wait_for(|weather| !weather.held(way)).await.is_err() {
            return;
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if read == 0 || to.write_all(bytes).await.is_err() {
            to.shutdown().await.ok();
            return;
        }
    }
}
