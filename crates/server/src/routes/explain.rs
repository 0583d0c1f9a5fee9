//! "Why is it stuck?"

use axum::Json;
use axum::extract::State;

use crate::auth::Reader;
use crate::path::DomainKey;
use crate::view::ExplanationView;
use crate::{AppState, Problem, facts};

/// Says why a domain stands where it stands, what to do, who must do it, and when the next attempt is.
#[utoipa::path(
    get, path = "/v1/domains/{domain}/explain", operation_id = "explainDomain", tag = "domains",
    params(("domain" = String, Path, description = "A name, or an id also after its removal")),
    responses(
        (status = 200, description = "The explanation", body = ExplanationView),
    ),
)]
pub(super) async fn show(
    _reader: Reader,
    State(state): State<AppState>,
    key: DomainKey,
) -> Result<Json<ExplanationView>, Problem> {
    let domain = key.find_ever(&state).await?;
    let facts = facts::gather(&state, &domain).await;
    Ok(Json(holdfast_model::explain(&domain, &facts).into()))
}
