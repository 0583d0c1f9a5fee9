//! The beginning of a TLS connection: which name the client greets us by, and with which certificate we answer.

use std::io;
use std::sync::Arc;

use holdfast_model::Hostname;
use rustls::server::{Acceptor, ClientHello};
use rustls::{AlertDescription, HandshakeKind, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::alpn;
use super::served::{Maker, Served};
use super::shelf::Shelf;
use super::source::Source;
use crate::Error;

/// Receives TLS clients.
pub(super) struct Reception {
    shelf: Arc<Shelf>,
    source: Arc<dyn Source>,
    maker: Maker,
}

/// How a handshake ended well.
pub(super) enum Received {
    /// A visitor, and the certificate that was shown.
    Visitor(Box<TlsStream<TcpStream>>, Arc<Served>),
    /// A CA that has seen what it wanted.
    Challenger,
}

/// Why there was no handshake.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoHandshake {
    #[error("the client named no server")]
    NoName,
    #[error("nothing is deployed for {0}")]
    UnknownName(String),
    #[error("the certificate could not be had")]
    Lookup(#[source] Error),
    #[error("the handshake broke off")]
    Broken(#[from] io::Error),
}

/// What a client's first message says.
struct Hello {
    name: Option<String>,
    wants_challenge: bool,
}

impl Hello {
    fn of(hello: &ClientHello<'_>) -> Self {
        // RFC 8737: that protocol and no other. Whoever offers more is a visitor.
        let wants_challenge = hello.alpn().is_some_and(|protocols| protocols.eq([alpn::PROTOCOL]));
        Self { name: hello.server_name().map(str::to_owned), wants_challenge }
    }
}

impl Reception {
    pub(super) fn new(shelf: Arc<Shelf>, source: Arc<dyn Source>, maker: Maker) -> Self {
        Self { shelf, source, maker }
    }

    /// Makes the handshake. The caller limits its time.
    pub(super) async fn receive(&self, tcp: TcpStream) -> Result<Received, NoHandshake> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let hello = Hello::of(&start.client_hello());
        if hello.wants_challenge {
            return self.answer_challenge(start, &hello).await;
        }
        let served = match self.choose(&hello).await {
            Ok(served) => served,
            Err(refusal) => return Err(refuse(start, refusal).await),
        };
        let stream = start.into_stream(served.config.clone()).await?;
        Ok(Received::Visitor(Box::new(stream), served))
    }

    async fn choose(&self, hello: &Hello) -> Result<Arc<Served>, NoHandshake> {
        let name = parse(hello)?;
        let found = self.shelf.find(&name).await.map_err(NoHandshake::Lookup)?;
        found.ok_or_else(|| NoHandshake::UnknownName(name.to_string()))
    }

    async fn answer_challenge(
        &self,
        start: StartHandshake<TcpStream>,
        hello: &Hello,
    ) -> Result<Received, NoHandshake> {
        let config = match self.challenge(hello).await {
            Ok(config) => config,
            Err(refusal) => return Err(refuse(start, refusal).await),
        };
        let mut stream = start.into_stream(config).await?;
        // The CA may be gone by now: it has seen the certificate.
        stream.shutdown().await.ok();
        Ok(Received::Challenger)
    }

    async fn challenge(&self, hello: &Hello) -> Result<Arc<ServerConfig>, NoHandshake> {
        let name = parse(hello)?;
        let answer = self.source.alpn_answer(&name).await.map_err(NoHandshake::Lookup)?;
        let answer = answer.ok_or_else(|| NoHandshake::UnknownName(name.to_string()))?;
        alpn::challenge_config(&self.maker, &name, &answer).map_err(NoHandshake::Lookup)
    }
}

fn parse(hello: &Hello) -> Result<Hostname, NoHandshake> {
    let name = hello.name.as_deref().ok_or(NoHandshake::NoName)?;
    Hostname::parse_host(name).map_err(|_| NoHandshake::UnknownName(name.to_owned()))
}

/// Was a session resumed?
pub(super) fn is_resumed(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// Tells the client why, as TLS does: rustls itself only knows "access denied" for a name without a certificate.
async fn refuse(start: StartHandshake<TcpStream>, refusal: NoHandshake) -> NoHandshake {
    let alert = match refusal {
        NoHandshake::NoName | NoHandshake::UnknownName(_) => AlertDescription::UnrecognisedName,
        NoHandshake::Lookup(_) | NoHandshake::Broken(_) => AlertDescription::InternalError,
    };
    // An alert record: TLS 1.2 on the wire whatever the version, two bytes long, fatal.
    let record = [21, 3, 3, 0, 2, 2, u8::from(alert)];
    let mut tcp = start.io;
    if tcp.write_all(&record).await.is_ok() {
        tcp.shutdown().await.ok();
    }
    refusal
}
