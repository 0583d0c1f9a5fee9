//! Certificate and key, for those who serve them.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use holdfast_model::Domain;
use holdfast_store::{Bundle, Error, Scope};
use http::{HeaderMap, StatusCode, header};

use crate::auth::{Caller, Keyholder};
use crate::path::DomainKey;
use crate::serve::Channel;
use crate::{AppState, Kind, Problem, audit};

/// The newest certificate of a domain with its key: PEM, leaf first, key last.
#[utoipa::path(
    get, path = "/v1/domains/{domain}/bundle", operation_id = "getDomainBundle", tag = "domains",
    params(
        ("domain" = String, Path, description = "A name or an id"),
        ("If-None-Match" = Option<String>, Header, description = "The fingerprint one has"),
    ),
    responses(
        (status = 200, description = "Chain and key; ETag is the fingerprint", body = String, content_type = "application/x-pem-file"),
        (status = 304, description = "It is the one named in If-None-Match"),
    ),
)]
pub(super) async fn show(
    Keyholder(caller): Keyholder,
    State(state): State<AppState>,
    channel: Option<Extension<Channel>>,
    key: DomainKey,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    require_privacy(&state, channel.map(|Extension(channel)| channel))?;
    let domain = key.find(&state).await?;
    require_group(&state, &caller, &domain).await?;
    let found = state.store.bundle(domain.id).await;
    let found = found.map_err(|error| unreadable(error, domain.name.as_str()))?;
    let bundle = found.ok_or_else(|| {
        let detail = format!(
            "`{}` is in {} and has no certificate yet; `explain` says why.",
            domain.name, domain.state
        );
        Problem::new(Kind::NoCertificate, detail)
    })?;
    let etag = format!("\"{}\"", bundle.summary.sha256);
    if is_known(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let headers =
        [(header::ETAG, etag), (header::CONTENT_TYPE, "application/x-pem-file".to_owned())];
    Ok((headers, pem(&bundle)).into_response())
}

/// Why a certificate cannot be read. That it is damaged concerns this one alone, and asking again does not help.
pub(crate) fn unreadable(error: Error, of: &str) -> Problem {
    if !error.is_damage() {
        return error.into();
    }
    let detail = format!(
        "What the database holds of the certificate of `{of}` is damaged; go on serving the one you have. Another is ordered once an edge reports this."
    );
    Problem::new(Kind::CertificateDamaged, detail).caused_by(error)
}

/// Private keys leave over private channels alone.
pub(crate) fn require_privacy(state: &AppState, channel: Option<Channel>) -> Result<(), Problem> {
    if state.allow_plaintext || channel.is_some_and(Channel::is_private) {
        return Ok(());
    }
    let detail = "Ask over HTTPS or from this machine, or set `[security] allow_plaintext = true` where the network is trusted.";
    Err(Problem::new(Kind::PlaintextRefused, detail))
}

async fn require_group(state: &AppState, caller: &Caller, domain: &Domain) -> Result<(), Problem> {
    let is_own = caller.group.as_deref() == Some(domain.edge_group.as_str());
    if caller.scope == Scope::Admin || is_own {
        return Ok(());
    }
    let detail = format!(
        "`{}` is served by group `{}`, which is not the group of token `{}`.",
        domain.name, domain.edge_group, caller.name
    );
    audit::refused(state, caller, "edge-refused", domain.name.as_str(), &detail).await;
    Err(Problem::new(Kind::Forbidden, detail))
}

/// Does the client have it already?
pub(crate) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == "*" || tag == etag)
}

/// Chain, then key.
pub(crate) fn pem(bundle: &Bundle) -> Bytes {
    let mut pem = bundle.chain_pem.clone().into_bytes();
    if !pem.ends_with(b"\n") {
        pem.push(b'\n');
    }
    pem.extend_from_slice(bundle.key.expose());
    pem.into()
}
