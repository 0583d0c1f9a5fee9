//! Trying again at a person's word.

use axum::Json;
use axum::extract::State;
use holdfast_model::Wanted;
use http::StatusCode;

use crate::auth::{Admin, Caller};
use crate::path::DomainKey;
use crate::view::DomainView;
use crate::{AppState, Problem, serving};

/// Asks for another try now.
#[utoipa::path(
    post, path = "/v1/domains/{domain}/retry", operation_id = "retryDomain", tag = "domains",
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
    want(&state, &caller, &key, Wanted::Retry).await
}

/// Notes what a person wants of a domain.
pub(super) async fn want(
    state: &AppState,
    caller: &Caller,
    key: &DomainKey,
    wanted: Wanted,
) -> Result<(StatusCode, Json<DomainView>), Problem> {
    let domain = key.find_lasting(state).await?;
    state.store.want(domain.id, wanted, &state.actor(caller)).await?;
    let domain = DomainKey::Id(domain.id).find_ever(state).await?;
    Ok((StatusCode::ACCEPTED, Json(serving::show(state, caller, domain).await?)))
}
