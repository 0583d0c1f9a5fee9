//! Going back to an earlier certificate.

use axum::Json;
use axum::extract::State;
use holdfast_store::Error;
use http::StatusCode;

use crate::auth::Admin;
use crate::path::DomainKey;
use crate::query::Params;
use crate::view::DomainView;
use crate::{AppState, Kind, Problem, serving};

/// Deploys an earlier certificate of the domain that is still valid, and keeps it for half of what is left of it before renewing.
#[utoipa::path(
    post, path = "/v1/domains/{domain}/rollback", operation_id = "rollBackDomain", tag = "domains",
    params(
        ("domain" = String, Path, description = "A name or an id"),
        ("to" = Option<String>, Query, description = "The fingerprint to go back to; the one before the present where none is given"),
    ),
    responses(
        (status = 202, description = "On its way to the edges", body = DomainView),
    ),
)]
pub(super) async fn ask(
    Admin(caller): Admin,
    State(state): State<AppState>,
    key: DomainKey,
    mut params: Params,
) -> Result<(StatusCode, Json<DomainView>), Problem> {
    let to = params.text("to")?.map(|text| text.to_ascii_lowercase());
    params.end()?;
    let domain = key.find_lasting(&state).await?;
    let actor = state.actor(&caller);
    let domain = state.store.roll_back(domain.id, to.as_deref(), &actor).await;
    let domain = domain.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(serving::show(&state, &caller, domain).await?)))
}

fn refused(error: Error) -> Problem {
    if !error.is_damage() {
        return error.into();
    }
    let detail = "What the database holds of the earlier certificate is damaged; name another with `to`, or renew.";
    Problem::new(Kind::CertificateDamaged, detail).caused_by(error)
}
