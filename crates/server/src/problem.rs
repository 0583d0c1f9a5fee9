//! Every error of the API as one shape: RFC 9457 with a stable code, the value and the remedy.
//!
//! This is the one place that maps other crates' errors to HTTP. It must not decide anything.

mod kind;
mod source;

use std::error::Error;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

pub use self::kind::Kind;

/// A refusal that is an answer.
#[derive(Debug)]
pub struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    kind: Kind,
    detail: String,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Problem {
    /// A problem of this kind; the detail says what was given and what to do.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            detail: detail.into(),
            members: Map::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// With a member of its own beside the standard ones.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.members.insert(name.to_owned(), value.into());
        self
    }

    /// With a header.
    #[must_use]
    pub(crate) fn header(self, name: HeaderName, value: &'static str) -> Self {
        self.header_value(name, HeaderValue::from_static(value))
    }

    /// With a header whose value is known only now.
    #[must_use]
    pub(crate) fn header_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// With what caused it, for the log alone: the caller sees a reference to the log line, never this.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.0.members.insert("instance".to_owned(), Uuid::new_v4().urn().to_string().into());
        self.0.cause = Some(Box::new(cause));
        self
    }

    /// The document, logged here once if it hides a cause.
    pub(crate) fn document(self) -> ProblemDocument {
        self.log();
        let Parts { kind, detail, members, .. } = *self.0;
        ProblemDocument {
            r#type: format!("urn:holdfast:problem:{}", kind.code()),
            title: kind.title().to_owned(),
            status: kind.status().as_u16(),
            code: kind.code().to_owned(),
            detail: sentence(&detail),
            members,
        }
    }

    /// Writes the hidden cause, if there is one, to the log.
    pub(crate) fn log(&self) {
        let Some(cause) = &self.0.cause else { return };
        let instance = self.0.members.get("instance").and_then(Value::as_str).unwrap_or_default();
        let error = chain(cause.as_ref());
        tracing::error!(code = self.0.kind.code(), instance, error, "a request failed");
    }
}

/// Errors of other crates go on after a colon; here they stand alone.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    first.into_iter().chain(letters).chain(end.chars()).collect()
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let status = self.0.kind.status();
        let headers = std::mem::take(&mut self.0.headers);
        let mut response = (status, Json(self.document())).into_response();
        let problem_json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem_json);
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A problem as it is sent (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// A URN made of the code.
    r#type: String,
    /// What kind of problem, in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// Stable, for programs.
    #[schema(schema_with = kind::codes)]
    code: String,
    /// What was given, what is wrong with it, what to do.
    detail: String,
    /// Members of some codes: `holder` (`name-in-use`, `resource-in-use`), `field`, `version`, `master` (`not-master`, `see-leader`), `cause`
    /// (`database-unavailable`, `ca-failed`), `instance`.
    #[serde(flatten)]
    #[schema(value_type = std::collections::BTreeMap<String, Value>, additional_properties)]
    members: Map<String, Value>,
}

impl ProblemDocument {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }
}
