//! What stands at a name's address: an HTTP server and a TLS server that answer what a test tells them to.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

#[derive(Clone)]
enum Page {
    Text(StatusCode, String),
    Redirect(String),
}

/// An HTTP server.
#[derive(Clone, Default)]
pub(crate) struct Web(Arc<Mutex<HashMap<String, Page>>>);

impl Web {
    /// Serves on an address; the port is what it got.
    pub(crate) async fn listen(&self, address: IpAddr, port: u16) -> u16 {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        port
    }

    /// Answers a token with a key authorization.
    pub(crate) fn challenge(&self, token: &str, key_authorization: &str) {
        self.page(&challenge_path(token), key_authorization);
    }

    /// Answers a path with a text.
    pub(crate) fn page(&self, path: &str, text: &str) {
        let page = Page::Text(StatusCode::OK, text.to_owned());
        self.0.lock().unwrap().insert(path.to_owned(), page);
    }

    /// Answers a path with a redirect.
    pub(crate) fn redirect(&self, path: &str, to: &str) {
        self.0.lock().unwrap().insert(path.to_owned(), Page::Redirect(to.to_owned()));
    }
}

/// Where a token is fetched.
pub(crate) fn challenge_path(token: &str) -> String {
    format!("/.well-known/acme-challenge/{token}")
}

async fn answer(State(web): State<Web>, request: Request) -> Response {
    match web.0.lock().unwrap().get(request.uri().path()).cloned() {
        Some(Page::Text(status, text)) => (status, text).into_response(),
        Some(Page::Redirect(to)) => (StatusCode::FOUND, [(LOCATION, to)]).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A TLS server that presents one certificate to everyone.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tls(Arc<Mutex<Option<Arc<CertifiedKey>>>>);

impl Tls {
    /// Presents a certificate from now on.
    pub(crate) fn present(&self, certificate: &rcgen::Certificate, key: &rcgen::KeyPair) {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        *self.0.lock().unwrap() = Some(Arc::new(CertifiedKey::new(chain, key)));
    }

    /// Serves on an address with a protocol; the address is what it got.
    pub(crate) async fn listen(&self, protocol: &[u8]) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![protocol.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move { acceptor.accept(stream).await });
            }
        });
        (address, serving)
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap().clone()
    }
}
