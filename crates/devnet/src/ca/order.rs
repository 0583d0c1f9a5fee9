//! Orders: what they are, what state they are in, how they are read (RFC 8555, sections 7.1.3 and 7.1.6).
//!
//! While an order is open its status follows from its authorizations and is not stored: an order is ready when
//! all are valid, and invalid as soon as one cannot become so.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::{LOCATION, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Ca;
use super::authorization::AuthorizationStatus;
use super::problem::{Kind, Problem};
use super::request::ByAccount;
use super::shelf::Row;
use crate::clock;

/// An order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) account: String,
    /// In lower case, sorted, each once.
    pub(crate) names: Vec<String>,
    pub(crate) profile: String,
    pub(crate) replaces: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) created: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) expires: OffsetDateTime,
    pub(crate) authorizations: Vec<String>,
    pub(crate) stage: Stage,
    /// How often it was asked to be finalized when that had an effect or would have had a second one.
    pub(crate) finalized: u32,
    /// How often finalizing was refused for a reason that leaves the order as it was.
    pub(crate) finalize_refused: u32,
}

/// How far an order has come, past what its authorizations say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Open,
    Processing {
        csr: String,
        #[serde(with = "time::serde::rfc3339")]
        ready_at: OffsetDateTime,
    },
    Valid {
        certificate: String,
    },
    Invalid {
        error: Problem,
    },
}

/// An order's status, in RFC 8555's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OrderStatus {
    Pending,
    Ready,
    Processing,
    Valid,
    Invalid,
}

impl Row for Order {
    const KIND: &'static str = "order";

    fn id(&self) -> &str {
        &self.id
    }
}

impl Order {
    /// Its status now.
    pub(crate) fn status(&self, ca: &Ca) -> OrderStatus {
        match &self.stage {
            Stage::Processing { .. } => OrderStatus::Processing,
            Stage::Valid { .. } => OrderStatus::Valid,
            Stage::Invalid { .. } => OrderStatus::Invalid,
            Stage::Open if self.expires <= clock::now() => OrderStatus::Invalid,
            Stage::Open => {
                let parts: Vec<_> =
                    self.authorizations.iter().map(|id| ca.authorization_status(id)).collect();
                let all_valid = parts.iter().all(|status| *status == AuthorizationStatus::Valid);
                let hopeless = parts.iter().any(|status| status.is_final_failure());
                match (all_valid, hopeless) {
                    (true, _) => OrderStatus::Ready,
                    (_, true) => OrderStatus::Invalid,
                    _ => OrderStatus::Pending,
                }
            }
        }
    }

    /// Whether it can still become a certificate, or has.
    pub(crate) fn is_alive(&self, ca: &Ca) -> bool {
        self.status(ca) != OrderStatus::Invalid
    }

    /// What went wrong, if something did.
    pub(crate) fn error(&self, ca: &Ca) -> Option<Problem> {
        match &self.stage {
            Stage::Invalid { error } => Some(error.clone()),
            Stage::Open => {
                let errors: Vec<_> = self
                    .authorizations
                    .iter()
                    .filter_map(|id| ca.authorization_error(id))
                    .collect();
                (!errors.is_empty())
                    .then(|| Problem::compound(Kind::Compound, self.names.len(), errors))
            }
            _ => None,
        }
    }

    /// The object that clients see.
    pub(crate) fn json(&self, ca: &Ca) -> Value {
        let identifiers: Vec<Value> =
            self.names.iter().map(|name| json!({ "type": "dns", "value": name })).collect();
        let authorizations: Vec<String> =
            self.authorizations.iter().map(|id| ca.authorization_url(id)).collect();
        let mut object = json!({
            "status": self.status(ca),
            "expires": self.expires.format(&Rfc3339).unwrap_or_default(),
            "identifiers": identifiers,
            "profile": self.profile,
            "authorizations": authorizations,
            "finalize": ca.url(&format!("/acme/order/{}/finalize", self.id)),
        });
        if let Some(members) = object.as_object_mut() {
            if let Some(replaces) = &self.replaces {
                members.insert("replaces".to_owned(), json!(replaces));
            }
            if let Stage::Valid { certificate } = &self.stage {
                members.insert("certificate".to_owned(), json!(ca.certificate_url(certificate)));
            }
            if let Some(error) = self.error(ca) {
                members.insert("error".to_owned(), json!(error));
            }
        }
        object
    }

    /// The answer that shows the order.
    pub(crate) fn response(&self, ca: &Ca) -> Response {
        let mut response = Json(self.json(ca)).into_response();
        super::append(&mut response, LOCATION, &ca.order_url(&self.id));
        if let Stage::Processing { ready_at, .. } = &self.stage {
            let seconds = clock::seconds_until(*ready_at);
            super::append(&mut response, RETRY_AFTER, &seconds.to_string());
        }
        response
    }

    /// Orders of one account for the same names under the same profile have the same key.
    pub(crate) fn key(account: &str, names: &[String], profile: &str) -> String {
        format!("{account} {profile} {}", names.join(" "))
    }
}

/// Reads an order.
pub(crate) async fn show(
    State(ca): State<Arc<Ca>>,
    Path(id): Path<String>,
    request: ByAccount,
) -> Result<Response, Problem> {
    request.payload.must_be_empty()?;
    let shown = ca.orders.read(&id, |order| {
        must_be_own(order, &request.account)?;
        Ok(order.response(&ca))
    });
    shown.ok_or_else(|| Problem::not_found("order"))?
}

/// Checks whose order it is.
pub(crate) fn must_be_own(order: &Order, account: &str) -> Result<(), Problem> {
    match order.account == account {
        true => Ok(()),
        false => Err(Problem::unauthorized("this is an order of another account")),
    }
}
