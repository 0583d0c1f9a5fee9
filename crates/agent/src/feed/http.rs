//! The feed over HTTP: the control plane's API for edges, at any of its replicas.
//!
//! Answers are taken apart by [`wire`], carried by [`transport`]. What is not whole is not believed: a listing counts only
//! with its last line.

mod lines;
mod transport;
mod tunnel;
mod wire;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use holdfast_model::{CertificateSummary, Timestamp};
use holdfast_store::{Bundle, Change, EdgeReport, Names, ReportOrder, Revision, Secret};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use serde_json::json;

use self::lines::Lines;
use self::transport::Transport;
use super::session::Session;
use super::{Bundles, Feed, Listing, News};
use crate::{Error, Result};

/// The longest time for an answer, beyond waiting on purpose.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The longest time for the answer to a report. Another replica must have heard of this edge well before it counts as gone.
const REPORT_LIMIT: Duration = Duration::from_secs(6);

/// How the control plane is reached, and as whom.
#[derive(Debug, Clone)]
pub struct HttpFeedConfig {
    /// Its replicas; any will do.
    pub servers: Vec<Uri>,
    /// The edge's name.
    pub edge: String,
    /// Its group, where the token does not say.
    pub group: Option<String>,
    /// What is certified: `haproxy`, `files`.
    pub target: String,
    /// `apply` or `observe`.
    pub mode: String,
    /// Where the token is; read again when it is refused. None: the certificate shown says who it is.
    pub token_file: Option<PathBuf>,
    /// PEM of the only roots that are trusted; none: the system's.
    pub root_pem: Option<Vec<u8>>,
    /// PEM of a certificate chain and its key, shown to the control plane.
    pub client_pem: Option<(Vec<u8>, Secret)>,
    /// A plain HTTP proxy on the way.
    pub proxy: Option<Uri>,
    /// May tokens and keys pass unencrypted to another machine?
    pub allow_plaintext: bool,
}

/// The control plane, over HTTP.
pub struct HttpFeed {
    config: HttpFeedConfig,
    transport: Transport,
    token: Mutex<Option<Secret>>,
    session: Session,
}

impl HttpFeed {
    /// A feed; nothing is asked yet.
    ///
    /// # Errors
    /// When what is configured cannot be used, or is not safe.
    pub fn new(config: HttpFeedConfig) -> Result<Self> {
        let transport = Transport::new(&config)?;
        Ok(Self { config, transport, token: Mutex::new(None), session: Session::default() })
    }

    fn token(&self) -> Result<Option<Secret>> {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_some() {
            return Ok(token.clone());
        }
        let Some(path) = &self.config.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.display().to_string(), source })?;
        let read = Secret::from(format!("Bearer {}", text.trim()));
        Ok(Some(token.insert(read).clone()))
    }

    fn request(&self, method: &Method, path: &str, body: Bytes) -> Result<Request<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/v1/edges/{}{path}", self.config.edge))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.token()? {
            let mut authorization = HeaderValue::from_bytes(token.expose()).map_err(|_| {
                Error::Unconfigurable("the token's file holds no token that can be sent".to_owned())
            })?;
            authorization.set_sensitive(true);
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(body).map_err(|error| {
            Error::Unconfigurable(format!("the edge's name cannot be sent: {error}"))
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Response<Bytes>> {
        let request = self.request(&method, path, body)?;
        let answer = self.transport.send(request, limit).await?;
        self.accepted(answer.status(), answer.headers(), answer.body())?;
        Ok(answer)
    }

    /// Tells answers that are none from those that are.
    fn accepted(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<()> {
        if status.is_success() {
            return Ok(());
        }
        if status == StatusCode::UNAUTHORIZED {
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Err(wire::refusal(status, headers, body))
    }
}

#[async_trait]
impl Bundles for HttpFeed {
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>> {
        let Some((id, sha256)) = &change.certificate else { return Ok(None) };
        let path = format!("/bundles/{sha256}?domain_id={}", change.domain);
        let answer = match self.ask(Method::GET, &path, Bytes::new(), ANSWER_LIMIT).await {
            Err(error) if wire::is_missing(&error) => return Ok(None),
            answer => answer.map_err(wire::of_one_alone)?,
        };
        let wire::BundleAnswer { sha256: said, chain, key, not_after } =
            wire::parse(answer.body())?;
        if said != *sha256 {
            return Err(Error::Nonsense(format!("it gave certificate {said} for {sha256}")));
        }
        let summary = CertificateSummary {
            serial: String::new(),
            sha256: said,
            not_before: Timestamp::from_seconds(0),
            not_after,
            issuer: String::new(),
            directory: String::new(),
        };
        let (name, domain) = (change.name.clone(), change.domain);
        Ok(Some(Bundle {
            id: *id,
            domain,
            name,
            chain_pem: chain,
            key: Secret::from(key),
            summary,
        }))
    }
}

#[async_trait]
impl Feed for HttpFeed {
    async fn register(&self) -> Result<Revision> {
        let HttpFeedConfig { group, target, mode, .. } = &self.config;
        let version = env!("CARGO_PKG_VERSION");
        let mut body = json!({ "agent": { "version": version, "target": target, "mode": mode } });
        if let (Some(group), Some(body)) = (group, body.as_object_mut()) {
            body.insert("group".to_owned(), json!(group));
        }
        let body = Bytes::from(body.to_string());
        let answer = self.ask(Method::PUT, "", body, ANSWER_LIMIT).await?;
        let registered: wire::Registered = wire::parse(answer.body())?;
        let revision = wire::revision(&registered.revision)?;
        self.session.begin(registered.session);
        Ok(revision)
    }

    async fn changes(&self, after: Revision, limit: u32, wait: Duration) -> Result<News> {
        let (limit, seconds) = (limit.clamp(1, 1_000), wait.as_secs().min(30));
        let path = format!("/changes?after={after}&wait={seconds}&limit={limit}");
        let request = self.request(&Method::GET, &path, Bytes::new())?;
        let answer = self.transport.poll(request, wait + ANSWER_LIMIT).await?;
        self.accepted(answer.status(), answer.headers(), answer.body())?;
        let news = wire::news(answer.body())?;
        // A wait of less than a second is not worth a long poll, and without a rest it would be a busy one.
        if news.changes.items.is_empty() && seconds == 0 {
            tokio::time::sleep(wait).await;
        }
        Ok(news)
    }

    async fn desired(&self) -> Result<Listing> {
        let mut request = self.request(&Method::GET, "/desired", Bytes::new())?;
        let ndjson = HeaderValue::from_static("application/x-ndjson");
        request.headers_mut().insert(ACCEPT, ndjson);
        let (answer, asked) = self.transport.send_streaming(request, ANSWER_LIMIT).await?;
        let (head, body) = answer.into_parts();
        let mut lines = Lines::new(body);
        if !head.status.is_success() {
            let body = lines.rest().await?;
            return self
                .accepted(head.status, &head.headers, &body)
                .and(Err(Error::Nonsense("no answer".to_owned())));
        }
        let mut listing = wire::Listed::default();
        while let Some(line) = self.transport.within(ANSWER_LIMIT, &asked, lines.next()).await? {
            listing.take(&line)?;
        }
        listing.into_whole()
    }

    async fn difference(&self, unknown: &Names, absent: Option<&Names>) -> Result<()> {
        let body = Bytes::from(wire::difference(unknown, absent).to_string());
        self.ask(Method::PUT, "/difference", body, ANSWER_LIMIT).await.map(drop)
    }

    async fn report(&self, report: &EdgeReport) -> Result<()> {
        let path = match self.session.next() {
            Some(ReportOrder { session, sequence }) => {
                format!("/report?session={session}&sequence={sequence}")
            }
            None => "/report".to_owned(),
        };
        let body = Bytes::from(wire::report(report, &self.config.mode).to_string());
        self.ask(Method::POST, &path, body, REPORT_LIMIT).await.map(drop)
    }
}
