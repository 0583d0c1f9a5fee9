//! Authorizations: one name each, and the challenges that prove it (RFC 8555, sections 7.1.4 and 7.5).

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::challenge::{Challenge, ChallengeKind, ChallengeStatus};
use super::id::new_id;
use super::problem::Problem;
use super::request::ByAccount;
use super::shelf::Row;
use super::{Ca, name};
use crate::clock;
use crate::faults::FaultKind;

/// How long a valid authorization stays so.
const VALIDITY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An authorization.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Authorization {
    pub(crate) id: String,
    pub(crate) account: String,
    /// The name, without its wildcard.
    pub(crate) name: String,
    pub(crate) wildcard: bool,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) expires: OffsetDateTime,
    /// As it was last changed; [`Authorization::status`] says what it is now.
    stored: AuthorizationStatus,
    pub(crate) challenges: Vec<Challenge>,
}

/// An authorization's status, in RFC 8555's words. `Expired` follows from the time and is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuthorizationStatus {
    Pending,
    Valid,
    Invalid,
    Deactivated,
    Expired,
}

impl Row for Authorization {
    const KIND: &'static str = "authorization";

    fn id(&self) -> &str {
        &self.id
    }
}

impl Authorization {
    /// A pending one for a name of an order.
    pub(crate) fn new(account: &str, name: &str, expires: OffsetDateTime) -> Self {
        let wildcard = name != name::base(name);
        let kinds = match wildcard {
            true => [ChallengeKind::Dns01].as_slice(),
            false => ChallengeKind::ALL,
        };
        Self {
            id: new_id(),
            account: account.to_owned(),
            name: name::base(name).to_owned(),
            wildcard,
            expires,
            stored: AuthorizationStatus::Pending,
            challenges: kinds.iter().map(|kind| Challenge::new(*kind)).collect(),
        }
    }

    /// The name as it was ordered.
    pub(crate) fn full_name(&self) -> String {
        if self.wildcard { format!("*.{}", self.name) } else { self.name.clone() }
    }

    /// Its status now.
    pub(crate) fn status(&self) -> AuthorizationStatus {
        let lasting = [AuthorizationStatus::Pending, AuthorizationStatus::Valid];
        match lasting.contains(&self.stored) && self.expires <= clock::now() {
            true => AuthorizationStatus::Expired,
            false => self.stored,
        }
    }

    /// The challenge of a kind.
    pub(crate) fn challenge(&mut self, kind: ChallengeKind) -> Option<&mut Challenge> {
        self.challenges.iter_mut().find(|challenge| challenge.kind == kind)
    }

    /// Notes how looking at a challenge ended. What was deactivated or expired meanwhile stays so.
    pub(crate) fn conclude(&mut self, kind: ChallengeKind, outcome: Result<(), Problem>) {
        if self.status() != AuthorizationStatus::Pending {
            return;
        }
        self.stored = match outcome {
            Ok(()) => AuthorizationStatus::Valid,
            Err(_) => AuthorizationStatus::Invalid,
        };
        if outcome.is_ok() {
            self.expires = clock::now() + VALIDITY;
        }
        if let Some(challenge) = self.challenge(kind) {
            challenge.conclude(outcome);
        }
    }

    /// What went wrong, if something did.
    pub(crate) fn error(&self) -> Option<Problem> {
        let error = self.challenges.iter().find_map(|challenge| challenge.error.clone())?;
        Some(error.about(&self.name))
    }

    fn json(&self, ca: &Ca) -> Value {
        let status = self.status();
        // Once it is decided, only the challenge that decided it is of interest.
        let shown = |challenge: &&Challenge| {
            status == AuthorizationStatus::Pending
                || matches!(challenge.status, ChallengeStatus::Valid | ChallengeStatus::Invalid)
        };
        let hidden = ca.faults.strikes_name(FaultKind::NoChallenges, &self.name);
        let shown = |challenge: &&Challenge| !hidden && shown(challenge);
        let challenges: Vec<Value> =
            self.challenges.iter().filter(shown).map(|one| one.json(ca, &self.id)).collect();
        let mut object = json!({
            "status": status,
            "expires": self.expires.format(&Rfc3339).unwrap_or_default(),
            "identifier": { "type": "dns", "value": self.name },
            "challenges": challenges,
        });
        if let Some(members) = object.as_object_mut().filter(|_| self.wildcard) {
            members.insert("wildcard".to_owned(), json!(true));
        }
        object
    }
}

impl AuthorizationStatus {
    /// Whether it can no longer become valid.
    pub(crate) fn is_final_failure(self) -> bool {
        !matches!(self, AuthorizationStatus::Pending | AuthorizationStatus::Valid)
    }
}

impl Ca {
    /// The status of an authorization; of one that is not there, expired.
    pub(crate) fn authorization_status(&self, id: &str) -> AuthorizationStatus {
        let status = self.authorizations.read(id, Authorization::status);
        status.unwrap_or(AuthorizationStatus::Expired)
    }

    /// What went wrong with an authorization.
    pub(crate) fn authorization_error(&self, id: &str) -> Option<Problem> {
        self.authorizations.read(id, Authorization::error).flatten()
    }

    /// The account's valid authorization for a name, if those are used again here.
    pub(crate) fn reusable_authorization(&self, account: &str, name: &str) -> Option<String> {
        if !self.settings.reuse_authorizations {
            return None;
        }
        let id = self.index.authorization(account, name)?;
        (self.authorization_status(&id) == AuthorizationStatus::Valid).then_some(id)
    }
}

#[derive(Deserialize)]
struct Change {
    status: String,
}

/// Reads or deactivates an authorization.
pub(crate) async fn update(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
    request: ByAccount,
) -> Result<Response, Problem> {
    let account = request.account.as_str();
    if !request.payload.is_empty() {
        let change: Change = request.payload.json()?;
        if change.status != "deactivated" {
            let detail = format!("an authorization cannot become {:?}", change.status);
            return Err(Problem::malformed(detail));
        }
        let changed = ca.authorizations.update(&id, |authorization| {
            must_be_own(authorization, account)?;
            deactivate(authorization)
        });
        changed.ok_or_else(|| Problem::not_found("authorization"))??;
    }
    let shown = ca.authorizations.read(&id, |authorization| {
        must_be_own(authorization, account)?;
        Ok(response(&ca, authorization))
    });
    shown.ok_or_else(|| Problem::not_found("authorization"))?
}

fn response(ca: &Ca, authorization: &Authorization) -> Response {
    let mut response = Json(authorization.json(ca)).into_response();
    if let Some(seconds) = authorization.challenges.iter().find_map(Challenge::retry_after) {
        super::append(&mut response, RETRY_AFTER, &seconds.to_string());
    }
    response
}

fn deactivate(authorization: &mut Authorization) -> Result<(), Problem> {
    if authorization.status().is_final_failure() {
        return Err(Problem::malformed("only a pending or valid authorization can be deactivated"));
    }
    authorization.stored = AuthorizationStatus::Deactivated;
    Ok(())
}

/// Checks whose authorization it is.
pub(crate) fn must_be_own(authorization: &Authorization, account: &str) -> Result<(), Problem> {
    match authorization.account == account {
        true => Ok(()),
        false => Err(Problem::unauthorized("this is an authorization of another account")),
    }
}
