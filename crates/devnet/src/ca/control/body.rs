//! Bodies of control requests, and the answer to those that make no sense.

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::faults::FaultError;
use crate::zone::ZoneError;

const LIMIT: usize = 64 * 1024;

/// A JSON body, whatever its content type: `curl -d` sends another one.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let bytes = axum::body::to_bytes(request.into_body(), LIMIT).await;
        let bytes = bytes.map_err(|_| Refusal::new("the body is too large or incomplete"))?;
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Body).map_err(|error| Refusal(format!("the body is not as expected: {error}")))
    }
}

/// Why a control request was refused.
#[derive(Debug)]
pub(super) struct Refusal(String);

impl Refusal {
    pub(super) fn new(detail: &str) -> Self {
        Self(detail.to_owned())
    }
}

impl From<FaultError> for Refusal {
    fn from(error: FaultError) -> Self {
        Self(error.to_string())
    }
}

impl From<ZoneError> for Refusal {
    fn from(error: ZoneError) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = json!({ "title": "Bad Request", "status": 400, "detail": self.0 });
        let mut response = (StatusCode::BAD_REQUEST, Json(problem)).into_response();
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}
