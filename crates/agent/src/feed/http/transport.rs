//! Connections to the control plane: TLS with roots and a certificate of the operator's choice, through a proxy where one is
//! named, kept for the next request, and to another replica when one does not answer.
//!
//! The gateway's client serves everybody else: it trusts the system's roots beside those it is given, shows no certificate and
//! knows no proxy. Here only the given roots count. Requests are safe to repeat: registering, asking and reporting
//! the same twice is as good as once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::tunnel::{self, Place};
use super::{HttpFeedConfig, wire};
use crate::{Error, Result};

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// No answer but a listing is larger.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// So many replicas may be found to hang before a request looks.
const HANGING: usize = 16;

/// So many connections are kept for the next request.
const IDLE: usize = 40;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Sender = SendRequest<Full<Bytes>>;

pub(super) struct Transport {
    servers: Vec<Uri>,
    proxy: Option<Place>,
    tls: TlsConnector,
    current: AtomicUsize,
    idle: Mutex<Vec<(usize, Sender)>>,
    /// Until when a replica wants to be left alone.
    rests: Mutex<HashMap<usize, Instant>>,
    /// Replicas that were found to hang.
    hanging: broadcast::Sender<usize>,
}

/// The replica that a request went to last.
#[derive(Default)]
pub(super) struct Asked(AtomicUsize);

impl Asked {
    fn at(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Transport {
    pub(super) fn new(config: &HttpFeedConfig) -> Result<Self> {
        if config.servers.is_empty() {
            return Err(Error::Unconfigurable("no server is named".to_owned()));
        }
        for server in &config.servers {
            check(server, config.allow_plaintext)?;
        }
        let proxy = config.proxy.as_ref().map(Place::of_proxy).transpose()?;
        let (servers, tls) = (config.servers.clone(), tls(config)?);
        let (current, idle, rests) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        let (hanging, _) = broadcast::channel(HANGING);
        Ok(Self { servers, proxy, tls, current, idle, rests, hanging })
    }

    /// Sends a request whose URI is a path, and reads the whole answer.
    pub(super) async fn send(
        &self,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<Bytes>> {
        self.exchange_within(request, limit, &Asked::default()).await
    }

    /// The same for a request that is answered late on purpose: it also ends when its replica is found to hang.
    pub(super) async fn poll(
        &self,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<Bytes>> {
        let (mut hanging, asked) = (self.hanging.subscribe(), Asked::default());
        let is_left = async { while hanging.recv().await.is_ok_and(|at| at != asked.at()) {} };
        tokio::select! {
            answer = self.exchange_within(request, limit, &asked) => answer,
            () = is_left => Err(Error::Timeout(limit)),
        }
    }

    async fn exchange_within(
        &self,
        request: Request<Bytes>,
        limit: Duration,
        asked: &Asked,
    ) -> Result<Response<Bytes>> {
        let exchange = async {
            let (answer, at, sender) = self.exchange(request, asked).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, BODY_LIMIT).collect().await;
            let body = body.map_err(|source| self.failed(at, source))?.to_bytes();
            self.keep(at, sender);
            if head.status.is_server_error() || head.status == StatusCode::MISDIRECTED_REQUEST {
                self.turn_away(at);
            }
            Ok(Response::from_parts(head, body))
        };
        self.within(limit, asked, exchange).await
    }

    /// Sends a request and hands over the body unread, with the replica that it comes from; the limit covers the head alone.
    pub(super) async fn send_streaming(
        &self,
        request: Request<Bytes>,
        limit: Duration,
    ) -> Result<(Response<Incoming>, Asked)> {
        let asked = Asked::default();
        let (answer, ..) = self.within(limit, &asked, self.exchange(request, &asked)).await?;
        Ok((answer, asked))
    }

    /// Waits for a replica. One that takes too long is left.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        asked: &Asked,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            self.turn_away(asked.at());
            if self.servers.len() > 1 {
                self.hanging.send(asked.at()).ok();
            }
            Err(Error::Timeout(limit))
        })
    }

    /// Asks the replica that answered last, and each other one where that does not answer, or asks to be left alone: that is its own
    /// word, and delays nobody else's.
    async fn exchange(
        &self,
        request: Request<Bytes>,
        asked: &Asked,
    ) -> Result<(Response<Incoming>, usize, Sender)> {
        let (mut tried, mut down, mut busy) = (Vec::new(), None, None);
        while let Some(at) = self.next(&tried) {
            tried.push(at);
            asked.0.store(at, Relaxed);
            match self.ask(at, &request).await {
                Ok((answer, _)) if wire::is_busy(answer.status(), answer.headers()) => {
                    busy = Some(self.leave_alone(at, answer).await?);
                }
                Ok((answer, sender)) => return Ok((answer, at, sender)),
                Err(error) => down = Some(error),
            }
        }
        Err(match (down, busy) {
            (None, Some(Error::Busy { source, .. })) => {
                Error::Busy { after: self.shortest_rest(), source }
            }
            // One that is away may be back any moment, whatever the others ask for.
            (down, _) => down.unwrap_or(Error::Stopped),
        })
    }

    /// The replica to ask: the current one, or the next after it that does not want to be left alone. Where all do, it is for the
    /// caller to wait; one who asks all the same gets an answer.
    fn next(&self, tried: &[usize]) -> Option<usize> {
        let (count, now) = (self.servers.len(), Instant::now());
        let current = self.current.load(Relaxed) % count;
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_awake = |at: &usize| rests.get(at).is_none_or(|until| *until <= now);
        let mut others = (current..current + count).map(|at| at % count);
        let awake = others.find(|at| is_awake(at) && !tried.contains(at));
        let next = awake.or(tried.is_empty().then_some(current))?;
        self.current.store(next, Relaxed);
        Some(next)
    }

    /// Asks on a connection that was kept, or on another.
    async fn ask(
        &self,
        at: usize,
        request: &Request<Bytes>,
    ) -> Result<(Response<Incoming>, Sender)> {
        if let Some(mut sender) = self.idle(at) {
            match sender.send_request(self.addressed(at, request)?).await {
                Ok(answer) => return Ok((answer, sender)),
                // It was closed while nobody looked.
                Err(error) => tracing::trace!(%error, "a kept connection was of no use"),
            }
        }
        let connected = self.connect(at).await;
        let mut sender = connected.map_err(|source| self.failed(at, source))?;
        let sent = sender.send_request(self.addressed(at, request)?).await;
        Ok((sent.map_err(|error| self.failed(at, error.into()))?, sender))
    }

    /// Nothing more is asked of this replica for as long as it says.
    async fn leave_alone(&self, at: usize, answer: Response<Incoming>) -> Result<Error> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, BODY_LIMIT).collect().await;
        let body = body.map_err(|source| self.failed(at, source))?.to_bytes();
        let error = wire::refusal(head.status, &head.headers, &body);
        if let Some(rest) = error.asked_rest() {
            let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
            rests.insert(at, Instant::now() + rest);
        }
        self.turn_away(at);
        Ok(error)
    }

    /// How long until the first of those who want to be left alone does not any more.
    fn shortest_rest(&self) -> Duration {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let left = rests.values().map(|until| until.saturating_duration_since(Instant::now()));
        left.min().unwrap_or_default()
    }

    fn server(&self, at: usize) -> Result<&Uri> {
        self.servers.get(at).ok_or(Error::Stopped)
    }

    /// The request as that server, or the proxy before it, wants it.
    fn addressed(&self, at: usize, request: &Request<Bytes>) -> Result<Request<Full<Bytes>>> {
        let server = self.server(at)?;
        let unsendable = |error: http::Error| Error::Unconfigurable(error.to_string());
        let authority = server.authority().map_or("", |authority| authority.as_str());
        let prefix = server.path().trim_end_matches('/');
        let rest = request.uri().path_and_query().map_or("/", |rest| rest.as_str());
        let uri = match (&self.proxy, server.scheme_str()) {
            (Some(_), Some("http")) if !is_loopback(server) => {
                format!("http://{authority}{prefix}{rest}")
            }
            _ => format!("{prefix}{rest}"),
        };
        let mut sent = Request::builder().method(request.method()).uri(uri);
        if let Some(headers) = sent.headers_mut() {
            headers.clone_from(request.headers());
        }
        let agent = concat!("holdfast-agent/", env!("CARGO_PKG_VERSION"));
        sent.header(HOST, authority)
            .header(USER_AGENT, HeaderValue::from_static(agent))
            .body(Full::new(request.body().clone()))
            .map_err(unsendable)
    }

    async fn connect(&self, at: usize) -> Result<Sender, Failure> {
        tokio::time::timeout(CONNECT_LIMIT, self.open(at)).await?
    }

    async fn open(&self, at: usize) -> Result<Sender, Failure> {
        let server = self.server(at)?;
        let place = Place::of(server)?;
        let proxy = self.proxy.as_ref().filter(|_| !is_loopback(server));
        let tcp = TcpStream::connect(proxy.unwrap_or(&place).pair()).await?;
        tcp.set_nodelay(true)?;
        if server.scheme() != Some(&Scheme::HTTPS) {
            return begin(tcp).await;
        }
        let tcp = match proxy {
            Some(proxy) => tunnel::through(tcp, proxy, &place).await?,
            None => tcp,
        };
        let name = ServerName::try_from(place.host().to_owned())?;
        begin(self.tls.connect(name, tcp).await?).await
    }

    fn idle(&self, current: usize) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(at, sender)| *at == current && !sender.is_closed());
        let ready = idle.iter().position(|(_, sender)| sender.is_ready())?;
        Some(idle.swap_remove(ready).1)
    }

    fn keep(&self, at: usize, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push((at, sender));
        }
    }

    /// The next request goes to another replica.
    fn turn_away(&self, at: usize) {
        let next = (at + 1) % self.servers.len();
        self.current.compare_exchange(at, next, Relaxed, Relaxed).ok();
    }

    fn failed(&self, at: usize, source: Failure) -> Error {
        self.turn_away(at);
        let server = self.servers.get(at).map(Uri::to_string).unwrap_or_default();
        Error::Unavailable { source: Box::new(At { server, source }) }
    }
}

/// Which replica it was.
#[derive(Debug, thiserror::Error)]
#[error("{server}")]
struct At {
    server: String,
    source: Failure,
}

async fn begin<S>(stream: S) -> Result<Sender, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::trace!(%error, "a connection to the control plane ended");
        }
    });
    Ok(sender)
}

/// Tokens and keys go out and come in.
fn check(server: &Uri, allow_plaintext: bool) -> Result<()> {
    let refuse = |why: &str| Err(Error::Unconfigurable(format!("the server {server} {why}")));
    match server.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if allow_plaintext || is_loopback(server) => Ok(()),
        Some("http") => refuse(
            "is on another machine and not encrypted; use https, or set allow_plaintext = true",
        ),
        _ => refuse("is no http or https URL"),
    }
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn tls(config: &HttpFeedConfig) -> Result<TlsConnector> {
    let unusable = |what: &str, error: &dyn std::fmt::Display| {
        Error::Unconfigurable(format!("{what} cannot be used: {error}"))
    };
    let mut roots = RootCertStore::empty();
    match &config.root_pem {
        Some(pem) => {
            for root in CertificateDer::pem_slice_iter(pem) {
                let root = root.map_err(|error| unusable("the root certificate", &error))?;
                roots.add(root).map_err(|error| unusable("the root certificate", &error))?;
            }
        }
        None => {
            // Those that cannot be read are of no use; whether any are left is looked at below.
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let encrypted = config.servers.iter().any(|server| server.scheme() == Some(&Scheme::HTTPS));
    if roots.is_empty() && encrypted {
        let why = "there is no root certificate to trust: name one, or install the package ca-certificates";
        return Err(Error::Unconfigurable(why.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut tls = match &config.client_pem {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let failed =
                |error: rustls::pki_types::pem::Error| unusable("the client certificate", &error);
            let chain =
                CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(failed)?;
            let key = PrivateKeyDer::from_pem_slice(key.expose()).map_err(failed)?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls).into())
}
