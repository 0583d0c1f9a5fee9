//! The one outgoing HTTP client: pooled, HTTP/2 and HTTP/1.1, bounded in time and size.
//!
//! Roots given by the operator are *added* to the system's. Redirects are never followed: where a request
//! goes is the caller's decision. What the requests mean is not known here.

mod connector;
mod error;
mod roots;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;

use self::connector::Connector;
pub use self::error::Error;
pub use self::roots::native as system_roots;

/// Chooses the address to connect to for a host and port; `None` leaves it to the system's resolver.
pub trait ConnectTo: Fn(&str, u16) -> Option<SocketAddr> + Send + Sync {}

impl<F: Fn(&str, u16) -> Option<SocketAddr> + Send + Sync> ConnectTo for F {}

/// How a [`Client`] behaves.
#[derive(Clone)]
pub struct ClientConfig {
    /// PEM of root certificates trusted beside the system's.
    pub extra_roots_pem: Option<Vec<u8>>,
    /// Longest time for one request, from its start to the last byte of the answer.
    pub time_limit: Duration,
    /// Largest body of an answer, in bytes.
    pub body_limit: usize,
    /// Sent as `User-Agent` unless the request has one; none where requests are somebody else's.
    pub user_agent: Option<String>,
    /// How long a connection may rest and be used again; zero for a connection of its own for each request.
    pub idle_limit: Duration,
    /// Most header fields of an answer over HTTP/1.1.
    pub head_fields: usize,
    /// Where to connect instead of where the name leads; TLS still checks the name.
    pub connect_to: Option<Arc<dyn ConnectTo>>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            extra_roots_pem: None,
            time_limit: Duration::from_secs(30),
            body_limit: 1024 * 1024,
            user_agent: Some(concat!("holdfast/", env!("CARGO_PKG_VERSION")).to_owned()),
            idle_limit: Duration::from_secs(90),
            head_fields: 100,
            connect_to: None,
        }
    }
}

/// An HTTP client with its pool of connections; clones share it.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    time_limit: Duration,
    body_limit: usize,
    user_agent: Option<HeaderValue>,
    idle_limit: Duration,
    head_fields: usize,
    connector: Connector,
    extra_roots: Vec<CertificateDer<'static>>,
    plain: OnceLock<Pool>,
    // Reading the system's roots takes longer than a request: only the first request that needs them pays.
    tls: OnceLock<Pool>,
}

/// A pool of connections for bodies of any kind.
#[expect(clippy::disallowed_types, reason = "this is the one place")]
struct Pool(
    legacy::Client<
        HttpsConnector<Connector>,
        UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>,
    >,
);

impl Client {
    /// Makes a client; nothing is connected or loaded yet.
    pub fn new(config: ClientConfig) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            time_limit: config.time_limit,
            body_limit: config.body_limit,
            user_agent: user_agent(config.user_agent.as_deref())?,
            idle_limit: config.idle_limit,
            head_fields: config.head_fields,
            connector: Connector::new(config.time_limit, config.connect_to),
            extra_roots: config
                .extra_roots_pem
                .as_deref()
                .map(roots::parse)
                .transpose()?
                .unwrap_or_default(),
            plain: OnceLock::new(),
            tls: OnceLock::new(),
        })))
    }

    /// Sends a request and reads the whole answer, within the time and size limits.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let (uri, limit) = (request.uri().clone(), self.0.time_limit);
        let exchange = async {
            let answer = self.exchange(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            Ok(Response::from_parts(head, self.read(&uri, body).await?))
        };
        let answered = tokio::time::timeout(limit, exchange).await;
        answered.unwrap_or_else(|_| Err(Error::Timeout { host: host(&uri), limit }))
    }

    /// Sends a request and hands over the answer's body unread; the time limit covers the head alone.
    pub async fn send_streaming<B>(&self, request: Request<B>) -> Result<Response<Incoming>, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (uri, limit) = (request.uri().clone(), self.0.time_limit);
        let answered = tokio::time::timeout(limit, self.exchange(request)).await;
        answered.unwrap_or_else(|_| Err(Error::Timeout { host: host(&uri), limit }))
    }

    async fn exchange<B>(&self, request: Request<B>) -> Result<Response<Incoming>, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        if let Some(user_agent) = &self.0.user_agent {
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| user_agent.clone());
        }
        let answer = self.0.pool(&uri)?.0.request(request).await;
        answer.map_err(|failure| Error::from_exchange(&uri, failure))
    }

    async fn read(&self, uri: &Uri, body: Incoming) -> Result<Bytes, Error> {
        let limit = self.0.body_limit;
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(failure) if failure.is::<LengthLimitError>() => {
                Err(Error::TooLarge { host: host(uri), limit })
            }
            Err(source) => Err(Error::Body { host: host(uri), source }),
        }
    }
}

impl Inner {
    fn pool(&self, uri: &Uri) -> Result<&Pool, Error> {
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(self
                .plain
                .get_or_init(|| self.connect_with(rustls::RootCertStore::empty())));
        }
        if let Some(pool) = self.tls.get() {
            return Ok(pool);
        }
        let roots = roots::with_native(&self.extra_roots)?;
        Ok(self.tls.get_or_init(|| self.connect_with(roots)))
    }

    #[expect(clippy::disallowed_types, reason = "this is the one place")]
    fn connect_with(&self, roots: rustls::RootCertStore) -> Pool {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(roots::client_config(roots))
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(self.connector.clone());
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        // Without keep-alive a dead HTTP/2 connection looks alive to every request that shares it.
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.idle_limit)
            .http1_max_headers(self.head_fields)
            .http2_keep_alive_interval(Duration::from_secs(20));
        if self.idle_limit.is_zero() {
            builder.pool_max_idle_per_host(0);
        }
        Pool(builder.build(connector))
    }
}

fn user_agent(text: Option<&str>) -> Result<Option<HeaderValue>, Error> {
    text.map(HeaderValue::from_str).transpose().map_err(|_| Error::UserAgent)
}

fn host(uri: &Uri) -> String {
    uri.authority().map_or_else(|| uri.to_string(), ToString::to_string)
}
