//! Problem documents: the only way in which the CA says no (RFC 7807 with RFC 8555's types).

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, LINK, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

macro_rules! kinds {
    ($($variant:ident = $name:literal, $status:ident;)*) => {
        /// The type of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($variant,)* }

        impl Kind {
            fn urn(self) -> &'static str {
                match self { $(Kind::$variant => concat!("urn:ietf:params:acme:error:", $name),)* }
            }

            fn status(self) -> StatusCode {
                match self { $(Kind::$variant => StatusCode::$status,)* }
            }
        }
    };
}

kinds! {
    AccountDoesNotExist = "accountDoesNotExist", BAD_REQUEST;
    AlreadyReplaced = "alreadyReplaced", CONFLICT;
    AlreadyRevoked = "alreadyRevoked", BAD_REQUEST;
    BadCsr = "badCSR", BAD_REQUEST;
    BadNonce = "badNonce", BAD_REQUEST;
    BadPublicKey = "badPublicKey", BAD_REQUEST;
    BadRevocationReason = "badRevocationReason", BAD_REQUEST;
    BadSignatureAlgorithm = "badSignatureAlgorithm", BAD_REQUEST;
    Caa = "caa", FORBIDDEN;
    Compound = "compound", BAD_REQUEST;
    Connection = "connection", BAD_REQUEST;
    Dns = "dns", BAD_REQUEST;
    ExternalAccountRequired = "externalAccountRequired", FORBIDDEN;
    InvalidContact = "invalidContact", BAD_REQUEST;
    InvalidProfile = "invalidProfile", BAD_REQUEST;
    Malformed = "malformed", BAD_REQUEST;
    OrderNotReady = "orderNotReady", FORBIDDEN;
    RateLimited = "rateLimited", TOO_MANY_REQUESTS;
    RejectedIdentifier = "rejectedIdentifier", BAD_REQUEST;
    ServerInternal = "serverInternal", INTERNAL_SERVER_ERROR;
    Tls = "tls", BAD_REQUEST;
    Unauthorized = "unauthorized", FORBIDDEN;
    UnsupportedContact = "unsupportedContact", BAD_REQUEST;
    UnsupportedIdentifier = "unsupportedIdentifier", BAD_REQUEST;
    UserActionRequired = "userActionRequired", FORBIDDEN;
}

/// A problem, as it is sent and as it is kept in an order or a challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<Document>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    #[serde(rename = "type")]
    kind: String,
    detail: String,
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identifier: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    algorithms: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subproblems: Vec<Problem>,
    #[serde(skip)]
    headers: Vec<(HeaderName, String)>,
}

impl Problem {
    /// A problem with the status that its type usually has.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: kind.urn().to_owned(),
            detail: detail.into(),
            status: kind.status().as_u16(),
            identifier: None,
            algorithms: None,
            instance: None,
            subproblems: Vec::new(),
            headers: Vec::new(),
        }))
    }

    /// The request makes no sense.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, detail)
    }

    /// The request makes sense, but not from this account.
    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(Kind::Unauthorized, detail)
    }

    /// There is no such thing.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::malformed(format!("there is no such {what}")).with_status(StatusCode::NOT_FOUND)
    }

    /// The problems of an order's names as one. The name is told in subproblems alone (RFC 8555, section 6.7.1), so
    /// an order of one name has none.
    pub(crate) fn compound(kind: Kind, names: usize, mut problems: Vec<Problem>) -> Self {
        if names == 1
            && let Some(mut only) = problems.pop()
        {
            only.0.identifier = None;
            return only;
        }
        let detail = format!("{} of {names} identifiers have problems", problems.len());
        let mut whole = Self::new(kind, detail);
        whole.0.subproblems = problems;
        whole
    }

    /// The name the problem is about.
    pub(crate) fn about(self, name: &str) -> Self {
        self.about_identifier("dns", name)
    }

    /// The identifier the problem is about.
    pub(crate) fn about_identifier(mut self, kind: &str, value: &str) -> Self {
        self.0.identifier = Some(json!({ "type": kind, "value": value }));
        self
    }

    /// The signature algorithms that would have done.
    pub(crate) fn with_algorithms(mut self, algorithms: &[&str]) -> Self {
        self.0.algorithms = Some(algorithms.iter().map(ToString::to_string).collect());
        self
    }

    /// The page where a person is to do something about it.
    pub(crate) fn with_instance(mut self, url: String) -> Self {
        self.0.instance = Some(url);
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status.as_u16();
        self
    }

    pub(crate) fn with_retry_after(self, seconds: u64) -> Self {
        self.with_header(RETRY_AFTER, seconds.to_string())
    }

    pub(crate) fn with_link(self, url: &str, relation: &str) -> Self {
        self.with_header(LINK, format!("<{url}>;rel=\"{relation}\""))
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: String) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// What it says, for logs.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        for (name, value) in self.0.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.append(name, value);
            }
        }
        response
    }
}
