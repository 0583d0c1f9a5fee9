//! Proof that a request to a name reaches us, through whatever stands before.

use axum::extract::State;

use crate::path::Segment;
use crate::problem::ProblemDocument;
use crate::{AppState, Kind, Problem, proof};

/// Answers a nonce as only this installation can.
#[utoipa::path(
    get, path = "/.well-known/holdfast/{nonce}", operation_id = "proveReach", tag = "well-known",
    params(("nonce" = String, Path, description = "16 to 64 letters, digits, `-` or `_`")),
    security(()),
    responses(
        (status = 200, description = "Hex of the HMAC-SHA256 of the nonce", body = String, content_type = "text/plain"),
        (status = 404, description = "Not a nonce", body = ProblemDocument, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn answer(
    State(state): State<AppState>,
    Segment(nonce): Segment,
) -> Result<String, Problem> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !(16..=64).contains(&nonce.len()) || !nonce.bytes().all(fits) {
        let detail = "A nonce has 16 to 64 letters, digits, `-` or `_`.";
        return Err(Problem::new(Kind::NotFound, detail));
    }
    proof::answer(&state, &nonce).await
}
