//! A client that looks closely: what was shown, was it resumed, what was answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_agent::fingerprint;
use holdfast_gateway::client::{Client, ClientConfig};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{HandshakeKind, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Authority;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Visitor {
    config: Arc<rustls::ClientConfig>,
    https: SocketAddr,
    root_pem: String,
}

/// What one visit saw.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) sha256: String,
    pub(crate) resumed: bool,
    pub(crate) answer: String,
}

impl Visitor {
    pub(crate) fn new(authority: &Authority, https: SocketAddr) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.root_der()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(
            rustls::crypto::ring::default_provider().into(),
        )
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
        Self { config: Arc::new(config), https, root_pem: authority.root_pem() }
    }

    fn change(mut self, change: impl FnOnce(&mut rustls::ClientConfig)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }

    /// Sessions of its own, to be resumed.
    pub(crate) fn resuming(self) -> Self {
        self.change(|config| config.resumption = Resumption::in_memory_sessions(256))
    }

    pub(crate) fn never_resuming(self) -> Self {
        self.change(|config| config.resumption = Resumption::disabled())
    }

    pub(crate) fn offering(self, protocols: &[&[u8]]) -> Self {
        let protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        self.change(|config| config.alpn_protocols = protocols)
    }

    pub(crate) fn without_sni(self) -> Self {
        self.change(|config| config.enable_sni = false)
    }

    /// Makes a handshake, within a limit.
    pub(crate) async fn connect(&self, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            let tcp = TcpStream::connect(self.https).await?;
            let name = ServerName::try_from(name.to_owned()).unwrap();
            TlsConnector::from(self.config.clone()).connect(name, tcp).await
        };
        tokio::time::timeout(LIMIT, handshake).await.expect("a handshake within the limit")
    }

    /// Makes a handshake and one request, over HTTP/1.1 without ALPN.
    pub(crate) async fn visit(&self, name: &str) -> io::Result<Visit> {
        let mut stream = self.connect(name).await?;
        let (_, session) = stream.get_ref();
        let sha256 = session.peer_certificates().map(|chain| fingerprint(&chain[0])).unwrap();
        let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let answer = ask(&mut stream, name, "GET / HTTP/1.1", "Connection: close\r\n").await?;
        Ok(Visit { sha256, resumed, answer })
    }

    /// Why a handshake with this name fails.
    pub(crate) async fn refusal(&self, name: &str) -> rustls::Error {
        let error = self.connect(name).await.expect_err("a refused handshake");
        let inner = error.into_inner().expect("a TLS error");
        *inner.downcast::<rustls::Error>().expect("a TLS error")
    }

    /// A client of HTTP/2 and HTTP/1.1 that reaches every name at the edge.
    pub(crate) fn client(&self) -> Client {
        let https = self.https;
        Client::new(ClientConfig {
            extra_roots_pem: Some(self.root_pem.clone().into_bytes()),
            connect_to: Some(Arc::new(move |_: &str, _| Some(https))),
            time_limit: LIMIT,
            ..ClientConfig::default()
        })
        .unwrap()
    }

    pub(crate) async fn get(&self, url: &str) -> http::Response<Bytes> {
        let request = http::Request::get(url).body(Bytes::new()).unwrap();
        self.client().send(request).await.unwrap()
    }
}

/// Sends a request and reads to the end of the connection.
pub(crate) async fn ask(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    host: &str,
    line: &str,
    headers: &str,
) -> io::Result<String> {
    let request = format!("{line}\r\nHost: {host}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer))
        .await
        .expect("an answer in time")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The leaf shown to a client that takes any; it must agree on that protocol.
pub(crate) async fn unverified_leaf(https: SocketAddr, name: &str, protocol: &[u8]) -> Vec<u8> {
    let mut config = rustls::ClientConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_safe_default_protocol_versions()
    .unwrap()
    .dangerous()
    .with_custom_certificate_verifier(Arc::new(Anything))
    .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let tcp = TcpStream::connect(https).await.unwrap();
    let server = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(server, tcp).await.unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.alpn_protocol(), Some(protocol));
    session.peer_certificates().unwrap()[0].to_vec()
}

#[derive(Debug)]
struct Anything;

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
