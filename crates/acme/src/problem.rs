//! Problem documents (RFC 7807, RFC 8555 §6.7): the CA's refusals, in its own words.
//!
//! The reader is lenient: a CA under load sends anything, and half a cause is better than none.

use std::borrow::Cow;
use std::fmt;

use holdfast_model::Note;
use serde_json::Value;

const PREFIX: &str = "urn:ietf:params:acme:error:";

/// Types that web servers and gateways of every kind give: they stand for the status, and for no ACME server.
const GENERIC: [&str; 5] = [
    "about:blank",
    "https://tools.ietf.org/html/rfc",
    "https://www.rfc-editor.org/rfc/",
    "https://datatracker.ietf.org/doc/html/rfc",
    "https://httpstatuses.",
];

/// What the CA says is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The type, without the prefix that ACME's own types share.
    pub kind: String,
    /// A sentence for people.
    pub detail: String,
    /// What is wrong with each name, where it says so.
    pub subproblems: Vec<Subproblem>,
    /// The page where a person is to do something (RFC 8555 §7.3.3), where it can be opened.
    pub instance: Option<String>,
}

/// What is wrong with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subproblem {
    /// The type, without the prefix that ACME's own types share.
    pub kind: String,
    /// A sentence for people.
    pub detail: String,
    /// The name.
    pub identifier: Option<String>,
}

impl Problem {
    /// Reads a problem document; none when it is no JSON object that says anything.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let problem = Self::from_value(&value);
        let says_nothing = Self { instance: None, ..problem.clone() } == Self::default();
        (!says_nothing).then_some(problem)
    }

    /// Could any server have sent it, whatever it was asked? An ACME server says of what type a problem is.
    #[must_use]
    pub fn is_generic(&self) -> bool {
        let says_nothing = self.kind.is_empty() && self.subproblems.is_empty();
        says_nothing || GENERIC.iter().any(|generic| self.kind.starts_with(generic))
    }

    fn from_value(value: &Value) -> Self {
        let subproblems = value.get("subproblems").and_then(Value::as_array);
        Self {
            kind: kind(value),
            detail: detail(value),
            subproblems: subproblems.into_iter().flatten().map(Subproblem::from_value).collect(),
            instance: value.get("instance").and_then(Value::as_str).and_then(page),
        }
    }

    /// The type that decides: of several problems under a general heading, the first that is special.
    #[must_use]
    pub fn deciding_kind(&self) -> &str {
        let general = matches!(self.kind.as_str(), "" | "compound" | "malformed");
        let special = self.subproblems.iter().map(|sub| sub.kind.as_str());
        match special.into_iter().find(|kind| !matches!(*kind, "" | "compound" | "malformed")) {
            Some(special) if general => special,
            _ => &self.kind,
        }
    }

    /// The cause, for the history and for `explain`.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(code(self.deciding_kind()), self.to_string())
    }
}

/// The code for a problem's type.
pub(crate) fn code(kind: &str) -> Cow<'static, str> {
    Cow::Borrowed(match kind {
        "accountDoesNotExist"
        | "badPublicKey"
        | "badSignatureAlgorithm"
        | "invalidContact"
        | "unsupportedContact" => "acme-account",
        "badCSR" => "acme-bad-csr",
        "caa" => "acme-caa",
        "connection" => "acme-connection",
        "dns" => "acme-dns",
        "externalAccountRequired" => "acme-external-account",
        "incorrectResponse" => "acme-incorrect-response",
        "invalidProfile" => "acme-profile",
        "malformed" | "badNonce" => "acme-malformed",
        "orderNotReady" => "acme-order-gone",
        "rateLimited" => "acme-rate-limited",
        "rejectedIdentifier" | "unsupportedIdentifier" => "acme-rejected-identifier",
        "serverInternal" => "acme-server",
        "tls" => "acme-tls",
        "unauthorized" => "acme-unauthorized",
        "userActionRequired" => "acme-terms",
        _ => "acme-refused",
    })
}

impl From<&instant_acme::Problem> for Problem {
    fn from(problem: &instant_acme::Problem) -> Self {
        let subproblems = problem.subproblems.iter().map(|sub| Subproblem {
            kind: stripped(sub.r#type.as_deref().unwrap_or_default()),
            detail: sub.detail.clone().unwrap_or_default(),
            identifier: sub.identifier.as_ref().map(|name| name.authorized(false).to_string()),
        });
        Self {
            kind: stripped(problem.r#type.as_deref().unwrap_or_default()),
            detail: problem.detail.clone().unwrap_or_default(),
            subproblems: subproblems.collect(),
            instance: None,
        }
    }
}

impl Subproblem {
    fn from_value(value: &Value) -> Self {
        let identifier = value.get("identifier").and_then(|name| name.get("value"));
        Self {
            kind: kind(value),
            detail: detail(value),
            identifier: identifier.and_then(Value::as_str).map(ToOwned::to_owned),
        }
    }
}

/// Longer addresses are for nobody to open.
const LONGEST_PAGE: usize = 500;

/// An address that a person can open without care: of a page on the web, and nothing else.
fn page(text: &str) -> Option<String> {
    let url: http::Uri = text.parse().ok()?;
    let is_web = url.scheme_str() == Some("https") && url.host().is_some();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
    (is_web && is_plain && text.len() <= LONGEST_PAGE).then(|| text.to_owned())
}

fn kind(value: &Value) -> String {
    stripped(value.get("type").and_then(Value::as_str).unwrap_or_default())
}

fn detail(value: &Value) -> String {
    let texts = ["detail", "title"].into_iter().filter_map(|key| value.get(key)?.as_str());
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

fn stripped(kind: &str) -> String {
    kind.strip_prefix(PREFIX).unwrap_or(kind).to_owned()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_words(f, &self.detail, &self.kind)?;
        for (at, sub) in self.subproblems.iter().enumerate() {
            f.write_str(if at == 0 { ": " } else { "; " })?;
            fmt::Display::fmt(sub, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Subproblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.identifier {
            write!(f, "{name}: ")?;
        }
        write_words(f, &self.detail, &self.kind)
    }
}

fn write_words(f: &mut fmt::Formatter<'_>, detail: &str, kind: &str) -> fmt::Result {
    match (detail, kind) {
        ("", "") => f.write_str("no reason was given"),
        ("", kind) => f.write_str(kind),
        (detail, "") => f.write_str(detail),
        (detail, kind) => write!(f, "{detail} ({kind})"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_the_ca_are_kept() {
        let body = br#"{"type":"urn:ietf:params:acme:error:malformed","detail":"Some names were refused",
            "subproblems":[{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"No \"bank\" here",
            "identifier":{"type":"dns","value":"bank.example"}},{"detail":"odd","identifier":7}]}"#;
        let problem = Problem::parse(body).unwrap();
        assert_eq!(problem.deciding_kind(), "rejectedIdentifier");
        let note = problem.note();
        assert_eq!(note.code, "acme-rejected-identifier");
        assert_eq!(
            note.detail,
            "Some names were refused (malformed): bank.example: No \"bank\" here (rejectedIdentifier); odd"
        );
    }

    #[test]
    fn a_type_of_someone_elses_is_kept_whole() {
        let problem = Problem::parse(br#"{"type":"https://ca.example/no","title":"No"}"#).unwrap();
        assert_eq!(problem.note().code, "acme-refused");
        assert_eq!(problem.to_string(), "No (https://ca.example/no)");
    }

    #[test]
    fn the_words_of_the_ca_are_kept_without_what_controls() {
        let bad = "no\0\r\n2026 INFO all is well\u{1b}[2K";
        let clean = "no   2026 INFO all is well [2K";
        let sub = serde_json::json!({ "type": bad, "detail": bad, "identifier": { "value": bad } });
        let body = serde_json::json!({ "type": bad, "detail": bad, "subproblems": [sub] });
        let note = Problem::parse(body.to_string().as_bytes()).unwrap().note();
        assert_eq!(note.code, "acme-refused");
        assert_eq!(note.detail, format!("{clean} ({clean}): {clean}: {clean} ({clean})"));
    }

    #[test]
    fn what_says_nothing_is_no_problem_document() {
        for body in ["", "{}", "[]", "null", "<html>", "{\"type\":3}"] {
            assert_eq!(Problem::parse(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn only_pages_of_the_web_are_for_people_to_open() {
        let instance = |url: &str| {
            let body = serde_json::json!({ "type": "userActionRequired", "instance": url });
            Problem::parse(body.to_string().as_bytes()).unwrap().instance
        };
        let page = "https://ca.example/terms/2?agree=1";
        assert_eq!(instance(page).as_deref(), Some(page));
        let long = format!("https://ca.example/{}", "x".repeat(600));
        for url in
            ["http://ca.example/", "javascript:alert(1)", "/terms", "https://a/<b>", "", &long]
        {
            assert_eq!(instance(url), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn anything_may_be_sent(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(problem) = Problem::parse(&body) {
                prop_assert!(!problem.note().code.is_empty());
            }
        }

        #[test]
        fn any_json_may_be_sent(kind in any::<String>(), detail in any::<String>(), subs in proptest::collection::vec(any::<(String, Option<String>)>(), 0..4)) {
            let subs: Vec<Value> = subs.into_iter().map(|(detail, name)|
                serde_json::json!({ "type": kind, "detail": detail, "identifier": { "value": name } })).collect();
            let body = serde_json::json!({ "type": kind, "detail": detail, "subproblems": subs });
            if let Some(problem) = Problem::parse(body.to_string().as_bytes()) {
                prop_assert!(!problem.note().detail.contains(char::is_control));
            }
        }
    }
}
