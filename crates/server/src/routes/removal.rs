//! Removing a domain: noted here, carried out by the engine, journaled like any other work.

use axum::Json;
use axum::extract::State;
use http::StatusCode;

use crate::auth::Admin;
use crate::path::DomainKey;
use crate::query::Params;
use crate::view::DomainView;
use crate::{AppState, Problem, serving};

/// Begins the removal of a domain; again is the same.
#[utoipa::path(
    delete, path = "/v1/domains/{domain}", operation_id = "removeDomain", tag = "domains",
    params(
        ("domain" = String, Path, description = "A name or an id"),
        ("revoke" = Option<bool>, Query, description = "Revoke its certificate too"),
    ),
    responses(
        (status = 202, description = "Being removed", body = DomainView),
    ),
)]
pub(super) async fn remove(
    Admin(caller): Admin,
    State(state): State<AppState>,
    key: DomainKey,
    mut params: Params,
) -> Result<(StatusCode, Json<DomainView>), Problem> {
    let revoke = params.flag("revoke")?;
    params.end()?;
    let domain = key.find(&state).await?;
    state.store.remove(domain.id, revoke, &state.actor(&caller)).await?;
    // By id: the name may be free already.
    let domain = DomainKey::Id(domain.id).find_ever(&state).await?;
    Ok((StatusCode::ACCEPTED, Json(serving::show(&state, &caller, domain).await?)))
}
