//! The other side of the tests: a little HTTPS server with a CA of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use holdfast_gateway::listener::{self, Peer, TlsListener};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A CA and a leaf for `peer.test` and 127.0.0.1.
pub(crate) struct Pki {
    pub root_pem: String,
    pub chain_pem: String,
    pub key_pem: String,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = ["peer.test".to_owned(), "127.0.0.1".to_owned()];
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        Self { root_pem: authority.pem(), chain_pem: leaf.pem(), key_pem: key.serialize_pem() }
    }

    pub(crate) fn server_config(&self) -> Arc<rustls::ServerConfig> {
        listener::server_config(self.chain_pem.as_bytes(), self.key_pem.as_bytes(), None).unwrap()
    }
}

pub(crate) async fn bound() -> (tokio::net::TcpListener, SocketAddr) {
    let tcp = listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = tcp.local_addr().unwrap();
    (tcp, address)
}

/// Serves over TLS until the test's runtime ends.
pub(crate) async fn serve_tls(
    listen: impl FnOnce(tokio::net::TcpListener) -> TlsListener,
) -> SocketAddr {
    let (tcp, address) = bound().await;
    let service = router().into_make_service_with_connect_info::<Peer>();
    tokio::spawn(axum::serve(listen(tcp), service).into_future());
    address
}

/// Serves in the clear until the test's runtime ends.
pub(crate) async fn serve_plain() -> SocketAddr {
    let (tcp, address) = bound().await;
    let service = router().into_make_service_with_connect_info::<Peer>();
    tokio::spawn(axum::serve(tcp, service).into_future());
    address
}

fn router() -> Router {
    Router::new()
        .route("/", get(|ConnectInfo(Peer(peer))| async move { peer.ip().to_string() }))
        .route(
            "/version",
            get(|request: Request| async move { format!("{:?}", request.version()) }),
        )
        .route(
            "/host",
            get(|request: Request| async move { format!("{:?}", request.headers()["host"]) }),
        )
        .route(
            "/agent",
            get(|request: Request| async move { format!("{:?}", request.headers()["user-agent"]) }),
        )
        .route("/large", get(|| async { "x".repeat(2000) }))
        .route("/slow", get(std::future::pending::<()>))
        .route("/moved", get(|| async { Redirect::temporary("/") }))
        .fallback(|| async { StatusCode::NOT_FOUND })
}
