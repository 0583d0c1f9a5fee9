//! Certificates: what was issued, and its download (RFC 8555, section 7.4.2).

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CONTENT_TYPE;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::Ca;
use super::authority::pem;
use super::problem::Problem;
use super::request::ByAccount;
use super::shelf::Row;
use crate::faults::FaultKind;

/// An issued certificate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Certificate {
    /// Its serial number, in hexadecimal digits.
    pub(crate) serial: String,
    pub(crate) account: String,
    pub(crate) order: String,
    /// The names that were ordered.
    pub(crate) names: Vec<String>,
    /// DER, in base64url; empty once it is no longer handed out.
    der: String,
    /// PEM of what comes behind it, where that is not the intermediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuers_pem: Option<String>,
    /// Its fingerprint, once the DER is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) not_before: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) not_after: OffsetDateTime,
    pub(crate) revoked: Option<Revocation>,
    /// The order that replaces it.
    pub(crate) replaced_by: Option<String>,
}

/// When and why a certificate was revoked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Revocation {
    #[serde(with = "time::serde::rfc3339")]
    pub(crate) at: OffsetDateTime,
    pub(crate) reason: u8,
}

impl Row for Certificate {
    const KIND: &'static str = "certificate";

    fn id(&self) -> &str {
        &self.serial
    }
}

impl Certificate {
    /// What was just issued for an order.
    pub(crate) fn new(order: &super::order::Order, issued: &super::authority::Issued) -> Self {
        Self {
            serial: super::id::hex(&issued.serial),
            account: order.account.clone(),
            order: order.id.clone(),
            names: order.names.clone(),
            der: URL_SAFE_NO_PAD.encode(&issued.der),
            issuers_pem: issued.issuers_pem.clone(),
            sha256: None,
            not_before: issued.not_before,
            not_after: issued.not_after,
            revoked: None,
            replaced_by: None,
        }
    }

    /// The certificate itself; none once it is no longer handed out.
    fn der(&self) -> Option<Vec<u8>> {
        let der = URL_SAFE_NO_PAD.decode(&self.der).unwrap_or_default();
        (!der.is_empty()).then_some(der)
    }

    /// Its fingerprint, in hexadecimal digits.
    pub(crate) fn sha256(&self) -> String {
        self.sha256.clone().unwrap_or_else(|| fingerprint(&self.der().unwrap_or_default()))
    }

    /// Keeps what renewal and revocation need, and no more.
    pub(crate) fn shrink(&mut self) {
        self.sha256 = Some(self.sha256());
        self.der = String::new();
    }
}

/// The fingerprint of a certificate in DER.
pub(crate) fn fingerprint(der: &[u8]) -> String {
    super::id::hex(digest(&SHA256, der).as_ref())
}

/// Hands out a certificate with its chain.
pub(crate) async fn download(
    State(ca): State<Arc<Ca>>,
    Path(serial): Path<String>,
    request: ByAccount,
) -> Result<Response, Problem> {
    request.payload.must_be_empty()?;
    let found = ca.certificates.read(&serial, |certificate| {
        let own = certificate.account == request.account;
        (own, certificate.names.clone(), certificate.der(), certificate.issuers_pem.clone())
    });
    let (own, names, der, issuers_pem) = found.ok_or_else(|| Problem::not_found("certificate"))?;
    if !own {
        return Err(Problem::unauthorized("this is a certificate of another account"));
    }
    let mut chain = pem(&der.ok_or_else(|| Problem::not_found("certificate"))?);
    if !ca.faults.strikes_any(FaultKind::TruncatedChain, &names) {
        chain.push_str(issuers_pem.as_deref().unwrap_or(ca.authority.intermediate_pem()));
    }
    Ok(([(CONTENT_TYPE, "application/pem-certificate-chain")], chain).into_response())
}
