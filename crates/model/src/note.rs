//! Why something did not work: a stable code for programs, a sentence for people.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// A cause, as kept in `last_error` and in the history.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// Stable, lower-case, hyphenated.
    pub code: Cow<'static, str>,
    /// What was expected, what was seen, in whose words.
    pub detail: String,
}

impl Note {
    /// The code of what is stored of a certificate and cannot be served any more.
    pub const CERTIFICATE_DAMAGED: &str = "certificate-damaged";

    /// The code of a renewal that is due and waits, because its certificate has only just come.
    pub const RENEWAL_PUT_OFF: &str = "renewal-put-off";

    /// The code of what a CA says of the window in which it would like a certificate renewed.
    pub const RENEWAL_EXPLAINED: &str = "renewal-explained";

    /// The code of a name that did not answer a short look, which is no verdict yet.
    pub const DNS_SILENT: &str = "dns-silent";

    /// The code of a name whose name servers do not answer.
    pub const DNS_TIMEOUT: &str = "dns-timeout";

    /// The code of a look at which our own resolver did not answer anything.
    pub const DNS_RESOLVER_UNREACHABLE: &str = "dns-resolver-unreachable";

    /// The code of a CA that gave no answer.
    pub const CA_UNREACHABLE: &str = "ca-unreachable";

    /// The code of an answer that no ACME server gives.
    pub const CA_NOT_ACME: &str = "ca-not-acme";

    /// The code of a CA that says it failed.
    pub const CA_SERVER: &str = "acme-server";

    /// The code of a CA that wants something done at an address of its own before it goes on.
    pub const CA_TERMS: &str = "acme-terms";

    /// Longest detail kept: a CA or a DNS server may send anything.
    pub const DETAIL_LIMIT: usize = 2_000;

    /// Makes a note; an overlong detail is cut at a character's boundary.
    #[must_use]
    pub fn new(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: cleaned(detail.into(), Self::DETAIL_LIMIT) }
    }

    /// Is the cause the CA's, whatever the domain?
    #[must_use]
    pub fn is_of_the_ca(&self) -> bool {
        let codes = [
            Self::CA_UNREACHABLE,
            Self::CA_NOT_ACME,
            Self::CA_SERVER,
            Self::CA_TERMS,
            "acme-rate-limited",
        ];
        codes.contains(&self.code.as_ref())
    }

    /// Adds the address of a page that says more.
    #[must_use]
    pub fn with_link(mut self, url: &str) -> Self {
        self.detail.push_str(&format!(" <{url}>"));
        self
    }

    /// The address that [`with_link`](Self::with_link) added.
    #[must_use]
    pub fn link(&self) -> Option<&str> {
        let (_, link) = self.detail.strip_suffix('>')?.rsplit_once(" <")?;
        Some(link).filter(|link| link.starts_with("https://") || link.starts_with("http://"))
    }

    /// As [`Display`](fmt::Display) writes it, read again.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once(": ") {
            Some((code, detail)) => Self::new(code.to_owned(), detail),
            None => Self::new("unknown", text),
        }
    }

    /// Did DNS say nothing at all? The next look at such a name is one with all patience.
    #[must_use]
    pub fn is_silence_of_dns(&self) -> bool {
        [Self::DNS_SILENT, Self::DNS_TIMEOUT, Self::DNS_RESOLVER_UNREACHABLE]
            .contains(&self.code.as_ref())
    }
}

/// What another program sent, fit to be kept and shown: no longer than `limit` bytes, cut at a character's boundary, without control
/// characters.
#[must_use]
pub fn cleaned(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let cut = (0..=limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    // PostgreSQL's text cannot hold NUL, and a control character has no place in a log line.
    match text.contains(char::is_control) {
        true => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        false => text,
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}
