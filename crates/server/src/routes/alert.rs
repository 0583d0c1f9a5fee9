//! Alerts, decided anew at every asking.

use axum::Json;
use axum::extract::State;

use crate::alert::{Alert, gather};
use crate::auth::Reader;
use crate::page::List;
use crate::{AppState, Problem};

/// Lists what deserves a person's attention now.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "listAlerts", tag = "alerts",
    responses(
        (status = 200, description = "All alerts", body = List<Alert>),
    ),
)]
pub(super) async fn list(
    _reader: Reader,
    State(state): State<AppState>,
) -> Result<Json<List<Alert>>, Problem> {
    Ok(Json(List::whole(gather::alerts(&state).await?)))
}
