//! A new certificate at a person's word: for one domain, or for all that came from another CA.

use axum::Json;
use axum::extract::State;
use holdfast_model::Wanted;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::retry;
use crate::auth::Admin;
use crate::body::{Body, Input};
use crate::path::DomainKey;
use crate::view::DomainView;
use crate::{AppState, Kind, Problem, field};

/// Asks for a new certificate now.
#[utoipa::path(
    post, path = "/v1/domains/{domain}/renew", operation_id = "renewDomain", tag = "domains",
    params(("domain" = String, Path, description = "A name or an id")),
    responses(
        (status = 202, description = "Noted", body = DomainView),
    ),
)]
pub(super) async fn ask(
    Admin(caller): Admin,
    State(state): State<AppState>,
    key: DomainKey,
) -> Result<(StatusCode, Json<DomainView>), Problem> {
    retry::want(&state, &caller, &key, Wanted::Renew).await
}

/// Which certificates are to be replaced.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `issued_by`")]
pub(super) struct MoveRequest {
    /// The ACME directory they came from, as `certificate.directory` says it; `imported` for imported ones.
    issued_by: String,
}

impl Input for MoveRequest {}

/// A move under way.
#[derive(Serialize, ToSchema)]
pub(super) struct Move {
    /// Where the certificates came from.
    issued_by: String,
    /// Where the new ones come from.
    directory: String,
}

/// Asks for new certificates in place of all that came from one directory; the workers pace it.
#[utoipa::path(
    post, path = "/v1/domains:renew", operation_id = "moveDomains", tag = "domains",
    request_body = MoveRequest,
    responses(
        (status = 202, description = "Noted", body = Move),
    ),
)]
pub(super) async fn move_all(
    Admin(caller): Admin,
    State(state): State<AppState>,
    Body(request): Body<MoveRequest>,
) -> Result<(StatusCode, Json<Move>), Problem> {
    let issued_by = field::text("issued_by", request.issued_by, 1_024)?;
    if issued_by == state.directory {
        let detail = format!(
            "New certificates come from `{issued_by}` already; name the directory they came from before."
        );
        return Err(Problem::new(Kind::SameDirectory, detail).with("field", "issued_by"));
    }
    state.store.move_from(None, Some(&issued_by)).await?;
    let detail = format!("certificates of {issued_by} are moved to {}", state.directory);
    state.store.notice(&state.actor(&caller), "move-begun", &issued_by, &detail).await?;
    let directory = state.directory.clone();
    Ok((StatusCode::ACCEPTED, Json(Move { issued_by, directory })))
}
