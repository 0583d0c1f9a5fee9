//! Challenges: the ways to prove a name, and starting to look at one (RFC 8555, sections 7.5.1 and 8).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::{LINK, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::authorization::{Authorization, AuthorizationStatus, must_be_own};
use super::id::random_text;
use super::problem::Problem;
use super::request::ByAccount;
use super::{Ca, limit, validation};
use crate::clock;
use crate::faults::FaultKind;

/// A way to prove a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChallengeKind {
    #[serde(rename = "http-01")]
    Http01,
    #[serde(rename = "dns-01")]
    Dns01,
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    /// Every way there is.
    pub(crate) const ALL: &'static [ChallengeKind] =
        &[ChallengeKind::Http01, ChallengeKind::Dns01, ChallengeKind::TlsAlpn01];

    /// Its name in RFC 8555 and RFC 8737.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::Dns01 => "dns-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text)
    }
}

/// A challenge's status, in RFC 8555's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChallengeStatus {
    Pending,
    Processing,
    Valid,
    Invalid,
}

/// A challenge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub(crate) kind: ChallengeKind,
    pub(crate) token: String,
    pub(crate) status: ChallengeStatus,
    /// When it is looked at, if that is not at once.
    #[serde(with = "time::serde::rfc3339::option")]
    pub(crate) looked_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    validated: Option<OffsetDateTime>,
    pub(crate) error: Option<Problem>,
}

impl Challenge {
    pub(crate) fn new(kind: ChallengeKind) -> Self {
        Self {
            kind,
            token: random_text::<32>(),
            status: ChallengeStatus::Pending,
            looked_at: None,
            validated: None,
            error: None,
        }
    }

    pub(crate) fn conclude(&mut self, outcome: Result<(), Problem>) {
        self.looked_at = None;
        match outcome {
            Ok(()) => {
                self.status = ChallengeStatus::Valid;
                self.validated = Some(clock::now());
            }
            Err(problem) => {
                self.status = ChallengeStatus::Invalid;
                self.error = Some(problem);
            }
        }
    }

    /// How many seconds there is no point in asking, while it waits to be looked at.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let waits = self.status == ChallengeStatus::Processing;
        self.looked_at.filter(|_| waits).map(clock::seconds_until)
    }

    pub(crate) fn json(&self, ca: &Ca, authorization: &str) -> Value {
        let mut object = json!({
            "type": self.kind,
            "url": ca.challenge_url(authorization, self.kind),
            "status": self.status,
            "token": self.token,
        });
        if let Some(members) = object.as_object_mut() {
            if let Some(at) = self.validated {
                let at = at.format(&Rfc3339).unwrap_or_default();
                members.insert("validated".to_owned(), json!(at));
            }
            if let Some(error) = &self.error {
                members.insert("error".to_owned(), json!(error));
            }
        }
        object
    }
}

/// Reads a challenge, or declares it ready to be looked at.
pub(crate) async fn respond(
    State(ca): State<Arc<Ca>>,
    Path((id, kind)): Path<(String, String)>,
    request: ByAccount,
) -> Result<Response, Problem> {
    let kind = ChallengeKind::parse(&kind).ok_or_else(|| Problem::not_found("challenge"))?;
    if !request.payload.is_empty() {
        // An object; older clients put a keyAuthorization in it, which is of no use.
        request.payload.json::<serde_json::Map<String, Value>>()?;
        begin(&ca, &id, kind, &request.account)?;
    }
    let shown = ca.authorizations.read(&id, |authorization| {
        must_be_own(authorization, &request.account)?;
        let challenge = authorization.challenges.iter().find(|one| one.kind == kind);
        Ok(response(&ca, &id, challenge.ok_or_else(|| Problem::not_found("challenge"))?))
    });
    shown.ok_or_else(|| Problem::not_found("challenge"))?
}

fn response(ca: &Ca, authorization: &str, challenge: &Challenge) -> Response {
    let mut response = Json(challenge.json(ca, authorization)).into_response();
    let up = format!("<{}>;rel=\"up\"", ca.authorization_url(authorization));
    super::append(&mut response, LINK, &up);
    if let Some(seconds) = challenge.retry_after() {
        super::append(&mut response, RETRY_AFTER, &seconds.to_string());
    }
    response
}

/// Starts looking at a challenge, once: a repeated request changes nothing.
fn begin(ca: &Arc<Ca>, id: &str, kind: ChallengeKind, account: &str) -> Result<(), Problem> {
    let begun = ca.authorizations.update(id, |authorization| {
        must_be_own(authorization, account)?;
        start(ca, authorization, kind)
    });
    if begun.ok_or_else(|| Problem::not_found("challenge"))?? {
        validation::spawn(ca, id.to_owned(), kind);
    }
    Ok(())
}

fn start(ca: &Ca, authorization: &mut Authorization, kind: ChallengeKind) -> Result<bool, Problem> {
    let (status, busy) = (
        authorization.status(),
        authorization.challenges.iter().any(|one| one.status == ChallengeStatus::Processing),
    );
    let name = authorization.name.clone();
    let challenge = authorization.challenge(kind).ok_or_else(|| Problem::not_found("challenge"))?;
    match (status, challenge.status) {
        (AuthorizationStatus::Valid, _) | (_, ChallengeStatus::Processing) => Ok(false),
        (AuthorizationStatus::Pending, _) if busy => {
            Err(Problem::malformed("another challenge of this authorization is being looked at"))
        }
        (AuthorizationStatus::Pending, ChallengeStatus::Pending) => {
            limit::check_challenge(ca, &name)?;
            challenge.status = ChallengeStatus::Processing;
            let delay = ca.faults.delay(FaultKind::SlowValidation);
            challenge.looked_at = delay.map(|delay| clock::now() + delay);
            Ok(true)
        }
        _ => Err(Problem::malformed(
            "the authorization is no longer pending: a challenge cannot be tried again, make a new order",
        )),
    }
}
