//! The CA's listener. axum's own loop always answers; this one can also close a connection without an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener as _;
use holdfast_gateway::listener::TlsListener;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::Ca;
use super::router::{Dropped, router};

/// How long a stopping CA waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(2);

/// Serves until told to stop, then lets the answers under way end.
pub(crate) async fn serve(mut listener: TlsListener, ca: Arc<Ca>) {
    let (router, stop) = (router(&ca), ca.stop.clone());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            (stream, _) = listener.accept() => {
                connections.spawn(serve_connection(stream, router.clone(), stop.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(GRACE, ended).await.ok();
}

async fn serve_connection(stream: TlsStream<TcpStream>, router: Router, stop: CancellationToken) {
    let service = service_fn(move |request| respond(router.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // A connection that a client or a fault has broken off is nobody's concern.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok();
}

async fn respond(
    router: Router,
    request: Request<Incoming>,
) -> Result<Response<axum::body::Body>, ReplyDropped> {
    let Ok(response) = router.oneshot(request).await;
    match response.extensions().get::<Dropped>() {
        Some(Dropped) => Err(ReplyDropped),
        None => Ok(response),
    }
}

/// The reply was dropped on purpose: the server closes the connection.
#[derive(Debug)]
struct ReplyDropped;

impl fmt::Display for ReplyDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply was dropped on purpose")
    }
}

impl std::error::Error for ReplyDropped {}
