//! What the CA did: its orders, accounts and certificates.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use http::HeaderName;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::Ca;
use super::super::order::Stage;

#[derive(Deserialize)]
pub(super) struct Wanted {
    name: Option<String>,
    status: Option<String>,
}

impl Wanted {
    fn is_one_of(&self, names: &[String]) -> bool {
        self.name.as_ref().is_none_or(|wanted| names.contains(wanted))
    }
}

/// Orders, oldest first, with how often each was finalized.
pub(super) async fn orders(
    State(ca): State<Arc<Ca>>,
    Query(wanted): Query<Wanted>,
) -> Json<Vec<Value>> {
    let orders = ca.orders.collect(|order| {
        let status = json!(order.status(&ca));
        let shown = wanted.is_one_of(&order.names)
            && wanted.status.as_ref().is_none_or(|wanted| status == json!(wanted));
        let certificate = match &order.stage {
            Stage::Valid { certificate } => Some(certificate),
            _ => None,
        };
        shown.then(|| {
            json!({
                "id": order.id,
                "url": ca.order_url(&order.id),
                "names": order.names,
                "status": status,
                "profile": order.profile,
                "replaces": order.replaces,
                "account": order.account,
                "finalized": order.finalized,
                "finalize_refused": order.finalize_refused,
                "certificate": certificate,
                "error": order.error(&ca),
                "created": text(order.created),
                "expires": text(order.expires),
            })
        })
    });
    Json(orders)
}

/// Accounts, oldest first.
pub(super) async fn accounts(State(ca): State<Arc<Ca>>) -> Json<Vec<Value>> {
    let accounts = ca.accounts.collect(|account| {
        Some(json!({
            "id": account.id,
            "url": ca.account_url(&account.id),
            "status": account.status,
            "contact": account.contact,
            "thumbprint": account.key.thumbprint(),
            "external": account.external_account.is_some(),
            "created": text(account.created),
        }))
    });
    Json(accounts)
}

/// Certificates, oldest first.
pub(super) async fn certificates(
    State(ca): State<Arc<Ca>>,
    Query(wanted): Query<Wanted>,
) -> Json<Vec<Value>> {
    let certificates = ca.certificates.collect(|certificate| {
        let shown = wanted.is_one_of(&certificate.names);
        let revoked = certificate.revoked;
        shown.then(|| {
            json!({
                "serial": certificate.serial,
                "id": ca.certificate_id(certificate),
                "sha256": certificate.sha256(),
                "names": certificate.names,
                "account": certificate.account,
                "order": certificate.order,
                "not_before": text(certificate.not_before),
                "not_after": text(certificate.not_after),
                "revoked": revoked.map(|one| json!({ "at": text(one.at), "reason": one.reason })),
                "replaced_by": certificate.replaced_by,
            })
        })
    });
    Json(certificates)
}

/// The root certificate, in PEM.
pub(super) async fn root(State(ca): State<Arc<Ca>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "application/x-pem-file")], ca.authority.root_pem().to_owned())
}

fn text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_default()
}
