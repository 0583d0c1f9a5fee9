//! ACME's HTTP-01 question, answered from the database by whichever replica is asked.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use crate::path::Segment;
use crate::problem::ProblemDocument;
use crate::{AppState, Problem};

/// Answers a CA's HTTP-01 challenge.
#[utoipa::path(
    get, path = "/.well-known/acme-challenge/{token}", operation_id = "answerChallenge", tag = "well-known",
    params(("token" = String, Path, description = "The CA's token")),
    security(()),
    responses(
        (status = 200, description = "The key authorization", body = String, content_type = "text/plain"),
        (status = 404, description = "No open order has this token", content((String = "text/plain"), (ProblemDocument = "application/problem+json"))),
    ),
)]
pub(super) async fn answer(
    State(state): State<AppState>,
    Segment(token): Segment,
) -> Result<Response, Problem> {
    Ok(match state.challenges.answer(&token).await? {
        Some(answer) => answer.key_authorization.into_response(),
        None => (StatusCode::NOT_FOUND, "no open order has this token\n").into_response(),
    })
}
