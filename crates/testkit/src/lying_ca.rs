//! A CA that lies on demand: a real CA behind a proxy that changes its answers.
//!
//! The proxy terminates TLS with a certificate of its own. The CA behind it must write the proxy's address in its URLs, because
//! requests are signed for their URL: the embedded CA is told it as `DevnetConfig::base`, Pebble takes it from the `Host` header.
//!
//! ```no_run
//! # async fn run() -> anyhow::Result<()> {
//! use holdfast_testkit::{Endpoint, Lie, LyingCa};
//!
//! let lying = LyingCa::start().await?;
//! // let net = Devnet::start(DevnetConfig { base: Some(lying.base()), ..DevnetConfig::default() }).await?;
//! // lying.stand_before(net.ca_address(), net.root_pem())?;
//! // The second answer to newOrder, and no other, has a Location that is no order:
//! lying.tell(Lie::about(Endpoint::NewOrder).nth(2).header("location", "file:///etc/passwd"));
//! // Every certificate comes without its intermediate, until `lying.be_honest()`:
//! lying.tell(Lie::about(Endpoint::Certificate).text(|pem| pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap_or_default().to_owned()));
//! # Ok(())
//! # }
//! ```

mod endpoint;
mod lie;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_gateway::listener::server_config;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::endpoint::Endpoint;
pub use self::lie::Lie;
use self::lie::Told;
use crate::pki::Pki;
use crate::port::free_port;

/// A running proxy before a CA; dropping it closes its connections.
pub struct LyingCa {
    address: SocketAddr,
    pki: Pki,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    upstream: Mutex<Option<Client>>,
    lies: Mutex<Vec<Told>>,
    asked: Mutex<HashMap<Endpoint, usize>>,
}

impl LyingCa {
    /// Listens on a free port of this machine. Before [`LyingCa::stand_before`] every request is answered 502.
    pub async fn start() -> Result<Self> {
        let pki = Pki::new()?;
        let tls = server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), None)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let listener = TcpListener::bind(address).await.context("listening as a CA")?;
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, tls.into(), shared.clone()));
        Ok(Self { address, pki, shared, accepting })
    }

    /// Passes requests on to the CA at this address, whose own TLS leads to this root.
    pub fn stand_before(&self, ca: SocketAddr, tls_root_pem: &str) -> Result<()> {
        let client = Client::new(ClientConfig {
            extra_roots_pem: Some(tls_root_pem.as_bytes().to_vec()),
            connect_to: Some(Arc::new(move |_: &str, _: u16| Some(ca))),
            ..ClientConfig::default()
        })?;
        *lock(&self.shared.upstream) = Some(client);
        Ok(())
    }

    /// The beginning of its URLs: scheme, host and port.
    pub fn base(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// PEM of the root behind its TLS. It has issued no certificate of the CA's.
    pub fn tls_root_pem(&self) -> &str {
        &self.pki.root_pem
    }

    /// Tells a lie from now on. Of several that fit an answer, all change it, in the order in which they were told.
    pub fn tell(&self, lie: Lie) {
        lock(&self.shared.lies).push(lie.into());
    }

    /// Ends every lie.
    pub fn be_honest(&self) {
        lock(&self.shared.lies).clear();
    }

    /// How often an endpoint was asked, lied about or not.
    pub fn asked(&self, endpoint: Endpoint) -> usize {
        lock(&self.shared.asked).get(&endpoint).copied().unwrap_or_default()
    }
}

impl Drop for LyingCa {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    // Connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                connections.spawn(serve(stream, tls.clone(), shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    stream.set_nodelay(true).ok();
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| answer(shared.clone(), request));
    let builder = auto::Builder::new(TokioExecutor::new());
    builder.serve_connection(TokioIo::new(stream), service).await.ok();
}

/// What a client is told. An error closes the connection.
async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let endpoint = Endpoint::of(request.uri().path());
    *lock(&shared.asked).entry(endpoint).or_default() += 1;
    let changes = lie::chosen(&mut lock(&shared.lies), endpoint);
    if changes.iter().any(lie::Change::hangs) {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    let mut answer = match changes.iter().any(lie::Change::is_made_up) {
        true => Response::new(Bytes::new()),
        false => pass_on(&shared, request).await,
    };
    for change in &changes {
        change.apply(&mut answer);
    }
    if changes.iter().any(lie::Change::drops) {
        return Err(io::Error::other("the reply was dropped on purpose"));
    }
    Ok(answer.map(Full::new))
}

async fn pass_on(shared: &Shared, request: Request<Incoming>) -> Response<Bytes> {
    match forward(shared, request).await {
        Ok(answer) => answer,
        Err(error) => {
            let mut answer = Response::new(Bytes::from(format!("{error:#}")));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

async fn forward(shared: &Shared, request: Request<Incoming>) -> Result<Response<Bytes>> {
    let upstream = lock(&shared.upstream).clone().context("it stands before no CA")?;
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    // Over HTTP/1.1 the authority is in the Host header alone, over HTTP/2 in the URI alone.
    let host = head.headers.remove(http::header::HOST);
    let authority = match (&host, head.uri.authority()) {
        (_, Some(authority)) => authority.to_string(),
        (Some(host), None) => host.to_str()?.to_owned(),
        (None, None) => anyhow::bail!("the request names no host"),
    };
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = Uri::builder().scheme("https").authority(authority).path_and_query(path).build()?;
    head.version = http::Version::HTTP_11;
    without_framing(&mut head.headers);
    let answer = upstream.send(Request::from_parts(head, body)).await?;
    let (mut head, body) = answer.into_parts();
    without_framing(&mut head.headers);
    head.version = http::Version::HTTP_11;
    Ok(Response::from_parts(head, body))
}

/// How a body is delimited is each connection's own matter.
fn without_framing(headers: &mut http::HeaderMap) {
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}
