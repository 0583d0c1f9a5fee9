//! ACME's HTTP-01 question, answered from the database by whichever replica is asked.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use crate::path::Segment;
use crate::{AppState, Problem};

/// Longest token taken: CAs send 43 characters.
const LONGEST: usize = 256;

/// Answers a CA's HTTP-01 challenge.
#[utoipa::path(
    get, path = "/.well-known/acme-challenge/{token}", operation_id = "answerChallenge", tag = "well-known",
    params(("token" = String, Path, description = "The CA's token")),
    security(()),
    responses(
        (status = 200, description = "The key authorization", body = String, content_type = "text/plain"),
        (status = 404, description = "No open order has this token", body = String, content_type = "text/plain"),
    ),
)]
pub(super) async fn answer(
    State(state): State<AppState>,
    Segment(token): Segment,
) -> Result<Response, Problem> {
    let known = match is_token(&token) {
        true => state.store.challenge_answer(&token).await?,
        false => None,
    };
    Ok(match known {
        Some(answer) => answer.key_authorization.into_response(),
        None => (StatusCode::NOT_FOUND, "no open order has this token\n").into_response(),
    })
}

/// Could a CA have made it? Strangers ask for anything; the database need not hear of it.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits)
}
