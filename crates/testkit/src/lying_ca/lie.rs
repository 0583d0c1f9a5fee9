//! One lie: which answers it is about, and what it makes of them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::Endpoint;

/// Changes a whole answer.
type Edit = dyn Fn(&mut Response<Bytes>) + Send + Sync;

/// A lie. What is said of it adds up: `.status(404).body("")` does both.
pub struct Lie {
    endpoint: Endpoint,
    first: usize,
    times: usize,
    change: Change,
}

/// What becomes of an answer.
#[derive(Clone, Default)]
pub(super) struct Change {
    edits: Vec<std::sync::Arc<Edit>>,
    made_up: bool,
    dropped: bool,
    hanging: bool,
}

/// A lie, and how many answers it could have been about.
pub(super) struct Told {
    lie: Lie,
    seen: usize,
}

impl From<Lie> for Told {
    fn from(lie: Lie) -> Self {
        Self { lie, seen: 0 }
    }
}

impl Lie {
    /// About every answer of this endpoint.
    pub fn about(endpoint: Endpoint) -> Self {
        Self { endpoint, first: 1, times: usize::MAX, change: Change::default() }
    }

    /// Only about the `n`th answer from now on; the first is 1.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self { first: n, times: 1, ..self }
    }

    /// Only about so many answers.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// With this status.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.edit(move |answer| {
            *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        })
    }

    /// With this header, in place of any of its name.
    ///
    /// # Panics
    /// When it is no header.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test is wrong")]
    pub fn header(self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header's name");
        let value = HeaderValue::from_str(value).expect("a header's value");
        self.edit(move |answer| {
            answer.headers_mut().insert(name.clone(), value.clone());
        })
    }

    /// Without a header.
    #[must_use]
    pub fn without(self, name: &'static str) -> Self {
        self.edit(move |answer| {
            answer.headers_mut().remove(name);
        })
    }

    /// With this body.
    #[must_use]
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        self.edit(move |answer| *answer.body_mut() = body.clone())
    }

    /// With a body that is made from the true one.
    #[must_use]
    pub fn text(self, change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.edit(move |answer| {
            let text = change(&String::from_utf8_lossy(answer.body()));
            *answer.body_mut() = text.into();
        })
    }

    /// With one member of the JSON object set to this; `null` removes it.
    #[must_use]
    pub fn member(self, name: &'static str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.edit_json(move |object| match &value {
            Value::Null => drop(object.as_object_mut().map(|members| members.remove(name))),
            value => drop(object.as_object_mut().map(|m| m.insert(name.to_owned(), value.clone()))),
        })
    }

    /// With JSON that is made from the true one.
    #[must_use]
    pub fn edit_json(self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.edit(move |answer| {
            let Ok(mut value) = serde_json::from_slice(answer.body()) else { return };
            change(&mut value);
            *answer.body_mut() = value.to_string().into();
        })
    }

    /// A problem document of this ACME type, with this status. The CA is not asked.
    #[must_use]
    pub fn problem(self, status: u16, kind: &str, detail: &str) -> Self {
        let kind = format!("urn:ietf:params:acme:error:{kind}");
        let body = serde_json::json!({ "type": kind, "detail": detail }).to_string();
        self.made_up()
            .status(status)
            .header(CONTENT_TYPE.as_str(), "application/problem+json")
            .body(body)
    }

    /// Without asking the CA: the answer is empty, with status 200, until the rest of the lie changes it. It has no nonce.
    #[must_use]
    pub fn made_up(mut self) -> Self {
        self.change.made_up = true;
        self
    }

    /// The CA is asked, and the connection is closed without an answer.
    #[must_use]
    pub fn dropped(mut self) -> Self {
        self.change.dropped = true;
        self
    }

    /// The CA is not asked, and there is no answer until the client gives up.
    #[must_use]
    pub fn hanging(mut self) -> Self {
        self.change.hanging = true;
        self
    }

    /// Changed in any way.
    #[must_use]
    pub fn edit(mut self, edit: impl Fn(&mut Response<Bytes>) + Send + Sync + 'static) -> Self {
        self.change.edits.push(std::sync::Arc::new(edit));
        self
    }
}

impl Change {
    pub(super) fn is_made_up(&self) -> bool {
        self.made_up
    }

    pub(super) fn drops(&self) -> bool {
        self.dropped
    }

    pub(super) fn hangs(&self) -> bool {
        self.hanging
    }

    pub(super) fn apply(&self, answer: &mut Response<Bytes>) {
        for edit in &self.edits {
            edit(answer);
        }
    }
}

/// The lies about this answer, and counts it.
pub(super) fn chosen(lies: &mut [Told], endpoint: Endpoint) -> Vec<Change> {
    let mut changes = Vec::new();
    for told in lies.iter_mut().filter(|told| told.lie.endpoint == endpoint) {
        told.seen += 1;
        let place = told.seen.checked_sub(told.lie.first);
        if place.is_some_and(|place| place < told.lie.times) {
            changes.push(told.lie.change.clone());
        }
    }
    changes
}
