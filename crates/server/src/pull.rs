//! Edges that pull by themselves, without an agent: Caddy asks for a certificate at a handshake (`get_certificate http`).
//!
//! They are served, never waited for. The URL in their configuration is all they can send, so the token stands in it as a Basic
//! password; and because it is sent in the clear, this door is one of its own, on this machine unless told otherwise.

use axum::Extension;
use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_model::Hostname;
use holdfast_store::{Scope, Token};
use http::{HeaderMap, StatusCode, Uri, header};

use crate::query::Params;
use crate::routes::bundle::{pem, require_privacy, unreadable};
use crate::serve::Channel;
use crate::{AppState, Kind, Problem, field, request, token};

/// What the pull listener answers.
pub fn pull_router(state: AppState) -> Router {
    Router::new()
        .route("/v1/pull/caddy", get(caddy))
        .fallback(unknown_path)
        .layer(from_fn(request::no_store))
        .layer(from_fn(request::run))
        .with_state(state)
}

async fn unknown_path(uri: Uri) -> Problem {
    let path = field::shown(uri.path());
    let detail = format!("There is nothing at `{path}`; Caddy asks /v1/pull/caddy.");
    Problem::new(Kind::NotFound, detail)
}

/// The certificate for a server name with its key: 200 with PEM, 204 when it is none of the token's group.
async fn caddy(
    State(state): State<AppState>,
    channel: Option<Extension<Channel>>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    require_privacy(&state, channel.map(|Extension(channel)| channel))?;
    let token = edge_token(&state, &headers).await?;
    // What the visitor's client can do is told too; one certificate serves them all.
    let name = params.text("server_name")?.and_then(|text| Hostname::parse_host(&text).ok());
    let (Some(name), Some(group)) = (name, token.group) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let found = state.store.bundle_in(&group, &name).await;
    let Some(bundle) = found.map_err(|error| unreadable(error, name.as_str()))? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let content_type = [(header::CONTENT_TYPE, "application/x-pem-file")];
    Ok((content_type, pem(&bundle)).into_response())
}

async fn edge_token(state: &AppState, headers: &HeaderMap) -> Result<Token, Problem> {
    let refused = |detail: &str| {
        Problem::new(Kind::Unauthorized, detail)
            .header(header::WWW_AUTHENTICATE, "Basic realm=\"holdfast\"")
    };
    let text = password(headers).ok_or_else(|| {
        refused("Put an edge's token into the URL: http://EDGE:TOKEN@HOST:PORT/v1/pull/caddy.")
    })?;
    let token = state.store.token(&token::hash(&text)).await?.ok_or_else(|| {
        refused("The token is unknown or revoked; make one with `holdfast token create`.")
    })?;
    if token.scope == Scope::Edge {
        return Ok(token);
    }
    let (name, scope) = (&token.name, token.scope.as_str());
    let detail = format!("The token `{name}` has scope {scope}; this needs edge.");
    Err(Problem::new(Kind::Forbidden, detail))
}

fn password(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some(password.to_owned()).filter(|password| !password.is_empty())
}
