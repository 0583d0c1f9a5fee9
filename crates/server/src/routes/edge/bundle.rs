//! A certificate with its key, by fingerprint, for the edges of its group.

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use crate::edge::{AtEdge, segment};
use crate::query::{self, Params};
use crate::routes::bundle::{is_known, require_privacy, unreadable};
use crate::serve::Channel;
use crate::view::BundleView;
use crate::{AppState, Kind, Problem, field};

/// The fingerprint in the path.
pub(in crate::routes) struct Fingerprint(String);

impl FromRequestParts<AppState> for Fingerprint {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        Ok(Self(segment(parts, state, "sha256").await?.to_ascii_lowercase()))
    }
}

/// A certificate with its key: chain and key as PEM, leaf first.
#[utoipa::path(
    get, path = "/v1/edges/{edge}/bundles/{sha256}", operation_id = "getEdgeBundle", tag = "edge feed",
    params(
        ("edge" = String, Path, description = "The edge's name"),
        ("sha256" = String, Path, description = "SHA-256 of the leaf, lower-case hex"),
        ("domain_id" = Option<String>, Query, description = "Of this domain, where several share the certificate", format = Uuid),
        ("If-None-Match" = Option<String>, Header, description = "The fingerprint one has"),
    ),
    responses(
        (status = 200, description = "Chain and key; ETag is the fingerprint", body = BundleView),
        (status = 304, description = "It is the one named in If-None-Match"),
    ),
)]
pub(in crate::routes) async fn show(
    edge: AtEdge,
    State(state): State<AppState>,
    channel: Option<Extension<Channel>>,
    Fingerprint(sha256): Fingerprint,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    require_privacy(&state, channel.map(|Extension(channel)| channel))?;
    let domain = params.text("domain_id")?.map(|text| {
        let given = field::shown(&text);
        let refused = || query::invalid("domain_id", format!("`{given}` is no id of a domain."));
        text.parse().map_err(|_| refused())
    });
    let domain = domain.transpose()?;
    params.end()?;
    let own = edge.known(&state).await?.group;
    let found = state.store.bundle_by_sha256(&sha256, Some(&own), domain).await;
    let found = found.map_err(|error| unreadable(error, &sha256))?;
    let Some((bundle, group)) = found else {
        let detail =
            format!("There is no certificate `{}` of a live domain.", field::shown(&sha256));
        return Err(Problem::new(Kind::NotFound, detail));
    };
    if group != own {
        return Err(edge.wrong_group(&state, &format!("Certificate `{sha256}`"), &group).await);
    }
    let etag = [(header::ETAG, format!("\"{sha256}\""))];
    if etag.iter().any(|(_, tag)| is_known(&headers, tag)) {
        return Ok((StatusCode::NOT_MODIFIED, etag).into_response());
    }
    Ok((etag, Json(BundleView::from(bundle))).into_response())
}
