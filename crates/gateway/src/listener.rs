//! Where connections come in: binding with an error that helps, and TLS in front of axum.
//!
//! Handshakes run beside the accepting loop, each with a time limit. When too many are pending the oldest
//! is dropped, so that clients which connect and stay silent cannot keep others out.

mod config;
mod error;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use self::config::server_config;
pub use self::error::Error;

/// How long a client may take for its handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How many handshakes may be pending at once.
const PENDING_LIMIT: usize = 1024;

/// How long accepting rests when the system is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(200);

/// Listens on an address, or says in a sentence why not and what to do.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::from_bind(address, source))
}

/// The address a request came from, on a plain or a TLS listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection whose other end may have shown a certificate.
pub trait Presented {
    /// The client's own certificate, verified, DER.
    fn certificate(&self) -> Option<Vec<u8>>;
}

impl Presented for TcpStream {
    fn certificate(&self) -> Option<Vec<u8>> {
        None
    }
}

impl Presented for TlsStream<TcpStream> {
    fn certificate(&self) -> Option<Vec<u8>> {
        let (_, session) = self.get_ref();
        Some(session.peer_certificates()?.first()?.to_vec())
    }
}

/// A TLS listener for `axum::serve`.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
    oldest_first: VecDeque<AbortHandle>,
    rests_until: Option<Instant>,
    handshake_limit: Duration,
    pending_limit: usize,
}

impl TlsListener {
    /// Puts TLS in front of a bound listener.
    pub fn new(tcp: TcpListener, config: Arc<rustls::ServerConfig>) -> Self {
        Self {
            tcp,
            acceptor: config.into(),
            handshakes: JoinSet::new(),
            oldest_first: VecDeque::new(),
            rests_until: None,
            handshake_limit: HANDSHAKE_LIMIT,
            pending_limit: PENDING_LIMIT,
        }
    }

    /// Other limits than the built-in ones, for tests and small machines.
    pub fn with_limits(mut self, handshake_limit: Duration, pending_limit: usize) -> Self {
        self.handshake_limit = handshake_limit;
        self.pending_limit = pending_limit.max(1);
        self
    }

    fn begin_handshake(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.make_room();
        let (acceptor, limit) = (self.acceptor.clone(), self.handshake_limit);
        let handle = self.handshakes.spawn(async move {
            // Failing only costs latency.
            stream.set_nodelay(true).ok();
            match tokio::time::timeout(limit, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => return Some((stream, peer)),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, ?limit, "TLS handshake took too long"),
            }
            None
        });
        self.oldest_first.push_back(handle);
    }

    fn make_room(&mut self) {
        while self.oldest_first.front().is_some_and(AbortHandle::is_finished) {
            self.oldest_first.pop_front();
        }
        if self.handshakes.len() >= self.pending_limit
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
    }

    fn accepted(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, peer)) => self.begin_handshake(stream, peer),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "connections cannot be accepted now");
                self.rests_until = Some(Instant::now() + ACCEPT_REST);
            }
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let rests_until = self.rests_until;
            tokio::select! {
                // What is ready goes out before anything new comes in.
                biased;
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(ready)) = done {
                        return ready;
                    }
                }
                () = rest(rests_until), if rests_until.is_some() => self.rests_until = None,
                accepted = self.tcp.accept(), if rests_until.is_none() => self.accepted(accepted),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

async fn rest(until: Option<Instant>) {
    if let Some(until) = until {
        tokio::time::sleep_until(until).await;
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
