//! Connections: accepted, bounded in their silence, drained and ended in order.
//!
//! From the shutdown on `/health/ready` says 503 (the token is in the settings too), but requests are still taken
//! for the time of the drain, so that whoever balances load can look away first.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use holdfast_gateway::listener::{Presented, TlsListener};
use http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// How long a client may take for the head of a request, and may keep an idle connection.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a client may take for its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// How long requests may still run after the drain.
const GRACE: Duration = Duration::from_secs(10);

/// Where connections come in.
pub enum Door {
    /// Plain HTTP.
    Plain(TcpListener),
    /// HTTPS.
    Tls(TlsListener),
}

impl From<TcpListener> for Door {
    fn from(listener: TcpListener) -> Self {
        Self::Plain(listener)
    }
}

impl From<TlsListener> for Door {
    fn from(listener: TlsListener) -> Self {
        Self::Tls(listener)
    }
}

/// How a request came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    peer: SocketAddr,
    tls: bool,
}

impl Channel {
    /// Can nobody on the way read along?
    pub(crate) fn is_private(self) -> bool {
        self.tls || self.peer.ip().to_canonical().is_loopback()
    }
}

/// The edge that a verified client certificate is for.
#[derive(Debug, Clone)]
pub(crate) struct CertifiedEdge(pub(crate) Arc<str>);

impl CertifiedEdge {
    /// `edge:NAME` as the common name, or `urn:holdfast:edge:NAME` among the URIs.
    fn of(certificate: &[u8]) -> Option<Self> {
        let names = holdfast_acme::certificate::identities(certificate);
        let edge = |name: &String| {
            let name = name.strip_prefix("urn:holdfast:").unwrap_or(name).strip_prefix("edge:")?;
            (!name.is_empty()).then(|| Self(name.into()))
        };
        names.iter().find_map(edge)
    }
}

/// Serves until `shutdown`, then for as long as `drain`, then ends in order.
pub async fn serve(
    door: impl Into<Door>,
    router: Router,
    shutdown: CancellationToken,
    drain: Duration,
) {
    match door.into() {
        Door::Plain(listener) => accept(listener, false, router, shutdown, drain).await,
        Door::Tls(listener) => accept(listener, true, router, shutdown, drain).await,
    }
}

async fn accept<L>(
    mut listener: L,
    tls: bool,
    router: Router,
    shutdown: CancellationToken,
    drain: Duration,
) where
    L: Listener<Addr = SocketAddr>,
    L::Io: Presented,
{
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut drained = pin!(async {
        shutdown.cancelled().await;
        tokio::time::sleep(drain).await;
    });
    loop {
        tokio::select! {
            () = &mut drained => break,
            (stream, peer) = listener.accept() => {
                let channel = Channel { peer, tls };
                connections.spawn(connection(stream, channel, router.clone(), closing.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    closing.cancel();
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections were cut: their requests did not end"
        );
    }
}

static HTTP: LazyLock<Builder<TokioExecutor>> = LazyLock::new(|| {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(SILENCE);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(SILENCE);
    http
});

async fn connection<I>(stream: I, channel: Channel, router: Router, closing: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Presented + Unpin + Send + 'static,
{
    let edge = stream.certificate().as_deref().and_then(CertifiedEdge::of);
    let begun = CancellationToken::new();
    let first = begun.clone();
    let service = router.map_request(move |mut request: Request<_>| {
        first.cancel();
        request.extensions_mut().insert(channel);
        if let Some(edge) = edge.clone() {
            request.extensions_mut().insert(edge);
        }
        request
    });
    let mut served =
        pin!(HTTP.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = closing.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = silent(&begun) => return,
    };
    if let Err(error) = result {
        tracing::debug!(peer = %channel.peer, error = error.to_string(), "a connection broke");
    }
}

/// Ends only if no request began in time.
async fn silent(begun: &CancellationToken) {
    if tokio::time::timeout(FIRST_REQUEST, begun.cancelled()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}
