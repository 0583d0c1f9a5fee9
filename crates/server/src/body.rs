//! JSON bodies: bounded in size and depth, unknown fields refused by name, every refusal a problem.

use std::fmt;
use std::marker::PhantomData;

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::Segment;

use crate::{Kind, Problem};

/// What may come as a body.
pub(crate) trait Input: DeserializeOwned + Send {
    /// Longest body taken.
    const LIMIT: usize = 256 * 1024;
}

/// A body that was taken.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: Input> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        require_json(request.headers())?;
        parse(&collect(request, T::LIMIT).await?).map(Self)
    }
}

/// A request that may come without one.
impl<S: Send + Sync, T: Input> OptionalFromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        if request.body().is_end_stream() {
            return Ok(None);
        }
        <Self as FromRequest<S>>::from_request(request, state).await.map(Some)
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    let given = given.map_or_else(|| "none was given".to_owned(), |given| format!("not `{given}`"));
    let detail = format!("Send the body with `Content-Type: application/json`; {given}.");
    Err(Problem::new(Kind::UnsupportedMediaType, detail))
}

/// A part of a body that must be an object: for lists, serde would take the fields in their order.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

async fn collect(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail =
            format!("The body may have {limit} bytes at most; send less, in several requests.");
        Problem::new(Kind::PayloadTooLarge, detail)
    };
    let body = Limited::new(request.into_body(), limit);
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Problem::new(Kind::InvalidBody, format!("The body broke off: {error}."))),
    }
}

/// Parses a whole document.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(not_an_object());
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = read(&mut json)?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// Parses a part of a document that was parsed before.
pub(crate) fn parse_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Problem> {
    if value.is_array() { Err(not_an_object()) } else { read(value) }
}

/// A list would be taken for the fields in their order, which is nobody's business.
fn not_an_object() -> Problem {
    Problem::new(Kind::InvalidBody, "A list was given where an object with fields is expected.")
}

fn read<'de, T, D>(json: D) -> Result<T, Problem>
where
    T: DeserializeOwned,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    let mut unknown = None;
    let mut note = |path: serde_ignored::Path<'_>| {
        unknown.get_or_insert_with(|| path.to_string());
    };
    let ignoring = serde_ignored::Deserializer::new(json, &mut note);
    let read = serde_path_to_error::deserialize(ignoring);
    match (read, unknown) {
        (Err(error), _) if error.inner().classify() != Category::Data => {
            Err(malformed(error.inner()))
        }
        // A misspelt field is the better news than the one it leaves missing.
        (_, Some(field)) => Err(unknown_field(&field)),
        (Err(error), None) => Err(invalid(&error)),
        (Ok(value), None) => Ok(value),
    }
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Kind::MalformedJson, format!("The body is not well-formed JSON: {error}."))
}

fn unknown_field(field: &str) -> Problem {
    let field = shown(field);
    let detail =
        format!("`{field}` is not a field of this request; /v1/openapi.json lists those it has.");
    Problem::new(Kind::UnknownField, detail).with("field", field)
}

fn invalid(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = shown(&error.path().to_string());
    if path == "." {
        let reason = shown(&error.inner().to_string());
        let detail = format!("The body does not fit this request: {reason}.");
        return Problem::new(Kind::InvalidBody, detail);
    }
    // The parser quotes what it found, and what stands near a certificate may be its private key.
    let reason = match error.path().iter().any(is_certificate) {
        true => "an object with the texts `chain` and `key` is expected".to_owned(),
        false => shown(&error.inner().to_string()),
    };
    let detail = format!("The body does not fit this request at `{path}`: {reason}.");
    Problem::new(Kind::InvalidBody, detail).with("field", path)
}

fn is_certificate(segment: &Segment) -> bool {
    matches!(segment, Segment::Map { key } if key == "certificate")
}

/// What a client sent, cut short: it goes into a message.
fn shown(text: &str) -> String {
    const LONGEST: usize = 300;
    text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[expect(dead_code, reason = "only parsed")]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "only parsed")]
        number: u8,
    }

    #[track_caller]
    fn check(json: &str, kind: Kind, field: Option<&str>) {
        let problem = parse::<Outer>(json.as_bytes()).unwrap_err();
        assert_eq!(problem.kind(), kind, "{json}");
        let document = serde_json::to_value(problem.document()).unwrap();
        assert_eq!(document.get("field").and_then(|field| field.as_str()), field, "{document}");
    }

    #[test]
    fn a_refusal_names_the_place() {
        check(
            r#"{"inner": [{"number": 1}, {"number": 300}]}"#,
            Kind::InvalidBody,
            Some("inner[1].number"),
        );
        check(
            r#"{"inner": [{"number": 1, "x": {"y": 2}}]}"#,
            Kind::UnknownField,
            Some("inner.0.x"),
        );
        check(r#"{"iner": []}"#, Kind::UnknownField, Some("iner"));
        check(r#"{"inner": [}"#, Kind::MalformedJson, None);
        check(r#"{"inner": []} {}"#, Kind::MalformedJson, None);
    }
}
