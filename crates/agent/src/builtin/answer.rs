//! Answers the edge gives itself, and the one kind of body they all have.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body as _;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;
pub(super) type Answer = Response<Body>;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A sentence, as plain text that no browser takes for anything else.
pub(super) fn text(status: StatusCode, sentence: impl Into<String>) -> Answer {
    let mut sentence: String = sentence.into();
    sentence.push('\n');
    let mut answer = with_type(status, "text/plain; charset=utf-8", sentence);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// An answer of a type, never guessed at.
pub(super) fn with_type(
    status: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Answer {
    let mut answer = Response::new(full(bytes));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The answer as HEAD wants it. hyper leaves the body out over HTTP/1.1 alone; over HTTP/2 it breaks the protocol.
pub(super) fn without_body(mut answer: Answer) -> Answer {
    if let Some(length) = answer.body().size_hint().exact().filter(|length| *length > 0) {
        answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    answer.map(|_| full(""))
}

/// The answer with one more header.
pub(super) fn and(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
