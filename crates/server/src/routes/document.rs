//! The OpenAPI document.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::header;

use crate::openapi;

/// It never changes while the process lives, so it is written once.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let json = openapi::document().to_pretty_json();
    // A document of strings and maps always serializes; a test holds this.
    json.unwrap_or_default().into()
});

/// The OpenAPI 3.1 document of this API.
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "getOpenApi", tag = "meta",
    security(()),
    responses((status = 200, description = "The document", body = Object)),
)]
pub(super) async fn show() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}
