//! Revocation (RFC 8555, section 7.6): by the account that ordered, by one that has proven all names, or by the
//! certificate's own key.

use std::sync::Arc;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::Deserialize;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::authorization::AuthorizationStatus;
use super::certificate::{Certificate, Revocation, fingerprint};
use super::problem::{Kind, Problem};
use super::request::ByEither;
use super::{Ca, id};
use crate::clock;

/// The reasons of RFC 5280 that a subscriber can give.
const REASONS: [u8; 5] = [0, 1, 3, 4, 5];

#[derive(Deserialize)]
struct Revoke {
    certificate: String,
    reason: Option<u8>,
}

/// revokeCert.
pub(crate) async fn revoke(
    State(ca): State<Arc<Ca>>,
    request: ByEither,
) -> Result<StatusCode, Problem> {
    let payload = match &request {
        ByEither::Account(request) => &request.payload,
        ByEither::Key(request) => &request.payload,
    };
    let asked: Revoke = payload.json()?;
    let der = URL_SAFE_NO_PAD.decode(&asked.certificate);
    let der = der.map_err(|_| Problem::malformed("the certificate is not unpadded base64url"))?;
    let (_, parsed) = X509Certificate::from_der(&der)
        .map_err(|_| Problem::malformed("the certificate is not DER"))?;
    let serial = id::hex(parsed.raw_serial());
    let known = ca.certificates.read(&serial, Certificate::clone);
    let known = known.filter(|known| known.sha256() == fingerprint(&der));
    let known = known.ok_or_else(|| Problem::not_found("certificate"))?;
    check_right(&ca, &request, &known, &parsed)?;
    let reason = asked.reason.unwrap_or(0);
    if !REASONS.contains(&reason) {
        let detail = format!("reason {reason} cannot be given here; {REASONS:?} can");
        return Err(Problem::new(Kind::BadRevocationReason, detail));
    }
    let revoked = ca.certificates.update(&serial, |row| mark(row, reason));
    revoked.ok_or_else(|| Problem::not_found("certificate"))??;
    tracing::info!(serial, reason, "development CA: certificate revoked");
    Ok(StatusCode::OK)
}

fn mark(certificate: &mut Certificate, reason: u8) -> Result<(), Problem> {
    if certificate.revoked.is_some() {
        return Err(Problem::new(Kind::AlreadyRevoked, "the certificate was revoked before"));
    }
    certificate.revoked = Some(Revocation { at: clock::now(), reason });
    Ok(())
}

fn check_right(
    ca: &Ca,
    request: &ByEither,
    known: &Certificate,
    parsed: &X509Certificate<'_>,
) -> Result<(), Problem> {
    let may = match request {
        ByEither::Key(request) => request.key.is(parsed.public_key()),
        ByEither::Account(request) => {
            known.account == request.account || has_proven(ca, &request.account, &known.names)
        }
    };
    match may {
        true => Ok(()),
        false => Err(Problem::unauthorized(
            "neither the certificate's account, nor one that has proven its names, nor its key",
        )),
    }
}

fn has_proven(ca: &Ca, account: &str, names: &[String]) -> bool {
    names.iter().all(|name| {
        let proven = ca.index.authorization(account, name);
        proven.is_some_and(|id| ca.authorization_status(&id) == AuthorizationStatus::Valid)
    })
}
