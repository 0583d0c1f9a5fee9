//! Who is asking: every signed request is checked here, once, before a handler sees it (RFC 8555, section 6).

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode, Uri};
use serde::de::DeserializeOwned;

use super::Ca;
use super::account::AccountStatus;
use super::jwk::{ALGORITHMS, Jwk};
use super::jws::{Jws, Signer};
use super::problem::{Kind, Problem};
use crate::faults::FaultKind;

/// The largest request.
const BODY_LIMIT: usize = 128 * 1024;

/// A request signed with an account's key, known by its URL.
pub(crate) struct ByAccount {
    pub(crate) account: String,
    pub(crate) key: Jwk,
    pub(crate) url: String,
    pub(crate) payload: Payload,
}

/// A request signed with a key that it brings along.
pub(crate) struct ByKey {
    pub(crate) key: Jwk,
    pub(crate) url: String,
    pub(crate) payload: Payload,
}

/// A request signed in either way.
pub(crate) enum ByEither {
    Account(ByAccount),
    Key(ByKey),
}

/// What a request says.
pub(crate) struct Payload(Vec<u8>);

impl Payload {
    /// Parses it.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.0)
            .map_err(|error| Problem::malformed(format!("the payload is wrong: {error}")))
    }

    /// Whether there is none, as in a POST-as-GET.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that there is none.
    pub(crate) fn must_be_empty(&self) -> Result<(), Problem> {
        match self.is_empty() {
            true => Ok(()),
            false => {
                Err(Problem::malformed("this is read with POST-as-GET: the payload must be empty"))
            }
        }
    }
}

impl FromRequest<Arc<Ca>> for ByEither {
    type Rejection = Problem;

    async fn from_request(request: Request, ca: &Arc<Ca>) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        check_content_type(&head.headers)?;
        let body = axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|_| {
            Problem::malformed("the request is too large or incomplete")
                .with_status(StatusCode::PAYLOAD_TOO_LARGE)
        })?;
        let jws = Jws::parse(&body)?;
        check_algorithm(&jws)?;
        check_url(ca, &jws, &head.uri)?;
        check_nonce(ca, jws.nonce.as_deref())?;
        authenticate(ca, jws)
    }
}

impl FromRequest<Arc<Ca>> for ByAccount {
    type Rejection = Problem;

    async fn from_request(request: Request, ca: &Arc<Ca>) -> Result<Self, Problem> {
        match ByEither::from_request(request, ca).await? {
            ByEither::Account(request) => Ok(request),
            ByEither::Key(_) => Err(Problem::malformed("this must be signed with kid, not jwk")),
        }
    }
}

impl FromRequest<Arc<Ca>> for ByKey {
    type Rejection = Problem;

    async fn from_request(request: Request, ca: &Arc<Ca>) -> Result<Self, Problem> {
        match ByEither::from_request(request, ca).await? {
            ByEither::Key(request) => Ok(request),
            ByEither::Account(_) => {
                Err(Problem::malformed("this must be signed with jwk, not kid"))
            }
        }
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type == Some("application/jose+json") {
        return Ok(());
    }
    let detail = format!("the content type must be application/jose+json, not {content_type:?}");
    Err(Problem::malformed(detail).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

fn check_algorithm(jws: &Jws) -> Result<(), Problem> {
    if ALGORITHMS.contains(&jws.algorithm.as_str()) {
        return Ok(());
    }
    let detail = format!("requests are not signed with {:?} here", jws.algorithm);
    Err(Problem::new(Kind::BadSignatureAlgorithm, detail).with_algorithms(&ALGORITHMS))
}

fn check_url(ca: &Ca, jws: &Jws, uri: &Uri) -> Result<(), Problem> {
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let expected = ca.url(path);
    if jws.url == expected {
        return Ok(());
    }
    let detail = format!("signed for {}, but sent to {expected}", jws.url);
    Err(Problem::unauthorized(detail).with_status(StatusCode::UNAUTHORIZED))
}

fn check_nonce(ca: &Ca, nonce: Option<&str>) -> Result<(), Problem> {
    let nonce =
        nonce.ok_or_else(|| Problem::new(Kind::BadNonce, "the protected header has no nonce"))?;
    if !ca.nonces.spend(nonce) {
        return Err(Problem::new(Kind::BadNonce, "the nonce is unknown, used or too old"));
    }
    match ca.faults.strikes(FaultKind::BadNonce) {
        true => Err(Problem::new(Kind::BadNonce, "the nonce was good, but a fault is switched on")),
        false => Ok(()),
    }
}

fn authenticate(ca: &Ca, jws: Jws) -> Result<ByEither, Problem> {
    match &jws.signer {
        Signer::Jwk(key) => {
            jws.verify(key)?;
            let key = key.clone();
            Ok(ByEither::Key(ByKey { key, url: jws.url, payload: Payload(jws.payload) }))
        }
        Signer::Kid(kid) => {
            let (account, key, status) = ca.account_of(kid)?;
            jws.verify(&key)?;
            if status != AccountStatus::Valid {
                return Err(Problem::unauthorized("the account is deactivated")
                    .with_status(StatusCode::UNAUTHORIZED));
            }
            let payload = Payload(jws.payload);
            Ok(ByEither::Account(ByAccount { account, key, url: jws.url, payload }))
        }
    }
}
