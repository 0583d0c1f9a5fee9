//! What can go wrong with a CA, in its own words, and what each amounts to.

use std::sync::Arc;
use std::time::Duration;

use holdfast_gateway::client;
use holdfast_gateway::point::Point;
use holdfast_model::Note;

use crate::certificate::BadCertificate;
use crate::problem::Problem;
use crate::{Class, OrderStatus};

/// Why the CA did not do it, or was not asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory that is no URL.
    #[error("`{0}` is no ACME directory; give an https:// URL in [acme] directory")]
    BadDirectory(String),
    /// Keys and proofs would travel in the open.
    #[error(
        "`{0}` is not https; give an https:// URL in [acme] directory (http:// is taken for a loopback address alone)"
    )]
    InsecureDirectory(String),
    /// The extra roots, or what else makes up the HTTP client.
    #[error("the HTTP client for the CA cannot be made: check [acme] root_certificate")]
    Client(#[source] client::Error),
    /// The MAC key of the external account is not base64.
    #[error("[acme] eab_hmac_key is not base64url; copy it as the CA shows it")]
    BadEabKey,
    /// Terms that nobody agreed to.
    #[error(
        "the CA at {directory} has terms of service, {terms}; read them and set `agree_terms = true` in [acme]"
    )]
    TermsNotAgreed {
        /// The ACME directory.
        directory: String,
        /// Where the terms are.
        terms: String,
    },
    /// The CA makes accounts only for its customers.
    #[error("the CA at {0} wants an external account; set eab_key_id and eab_hmac_key in [acme]")]
    ExternalAccountRequired(String),
    /// A profile that the CA does not list.
    #[error("the CA has no profile `{profile}`; set [acme] profile to one of: {offered}")]
    UnknownProfile {
        /// What was configured.
        profile: String,
        /// What there is.
        offered: String,
    },
    /// The CA said no.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// No answer.
    #[error("the CA gave no answer to {}", asked(*.at))]
    Unreachable {
        /// The request.
        at: Point,
        /// What the network said.
        source: Box<client::Error>,
    },
    /// An answer that makes no sense.
    #[error("the CA's answer to {} makes no sense: {problem}", asked(*.at))]
    Malformed {
        /// The request.
        at: Point,
        /// What is wrong with it.
        problem: String,
    },
    /// None of the proofs we can give.
    #[error("the CA takes neither http-01 nor tls-alpn-01 for this name, only: {0}")]
    NoChallenge(String),
    /// The answer was made with a key that is not the account's any more.
    #[error(
        "the account's key was changed since this challenge was prepared; a new order is needed"
    )]
    KeyChanged,
    /// A download was asked of an order that has none.
    #[error("the order has no certificate to download: {0:?}")]
    NotIssued(OrderStatus),
    /// The CA does not offer it.
    #[error("the CA at {directory} does not offer {what}")]
    Unsupported {
        /// The ACME directory.
        directory: String,
        /// What was asked for.
        what: &'static str,
    },
    /// A certificate that is none.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// A key could not be made, or not be used.
    #[error("{0}")]
    Key(&'static str),
    /// The store failed.
    #[error("the account could not be read or kept")]
    Store(#[from] holdfast_store::Error),
    /// What another caller, who asked for the account at the same time, was told.
    #[error(transparent)]
    Shared(Arc<Error>),
}

/// A refusal, with everything that came with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the CA refused {}: {problem} [{status}]", asked(*.at))]
pub struct Refusal {
    /// The request.
    pub at: Point,
    /// The HTTP status.
    pub status: u16,
    /// Its words.
    pub problem: Problem,
    /// When it wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// What can be done about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Refused(refusal) => refusal.class(),
            Self::Shared(error) => error.class(),
            Self::Unreachable { .. } => Class::Trouble(self.noted("ca-unreachable")),
            Self::Malformed { .. } => Class::Trouble(self.noted("acme-malformed")),
            Self::NoChallenge(_) => Class::Hopeless(self.noted("acme-no-challenge")),
            Self::KeyChanged => Class::OrderGone(self.noted("acme-order-gone")),
            Self::NotIssued(OrderStatus::Invalid(note)) => Class::OrderGone(note.clone()),
            Self::NotIssued(_) => Class::Trouble(self.noted("acme-malformed")),
            Self::TermsNotAgreed { .. } => Class::Trouble(self.noted("acme-terms")),
            Self::ExternalAccountRequired(_) | Self::BadEabKey => {
                Class::Trouble(self.noted("acme-external-account"))
            }
            Self::UnknownProfile { .. } => Class::Trouble(self.noted("acme-profile")),
            Self::Certificate(_) => Class::Trouble(self.noted("bad-certificate")),
            Self::Store(_) => Class::Trouble(self.noted("store-unavailable")),
            Self::Key(_) => Class::Trouble(self.noted("acme-key")),
            Self::BadDirectory(_)
            | Self::InsecureDirectory(_)
            | Self::Client(_)
            | Self::Unsupported { .. } => Class::Trouble(self.noted("acme-account")),
        }
    }

    /// What the CA refused, if that is what happened.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Shared(error) => error.refusal(),
            _ => None,
        }
    }

    /// Is it a refusal of this type?
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.refusal().is_some_and(|refusal| refusal.problem.kind == kind)
    }

    /// Could it be that the CA has another view of the account than we: none at all, or another key?
    pub(crate) fn doubts_the_account(&self) -> bool {
        ["accountDoesNotExist", "unauthorized", "malformed"].into_iter().any(|kind| self.is(kind))
    }

    /// Could an order have been refused for the certificate it was to replace?
    pub(crate) fn objects_to_replacing(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                let kinds = ["alreadyReplaced", "conflict", "malformed", "unauthorized"];
                matches!(refusal.status, 404 | 409)
                    || kinds.contains(&refusal.problem.kind.as_str())
            }
            // The order stands, but without its link to the certificate.
            Self::Malformed { .. } => true,
            _ => false,
        }
    }

    /// A note with the whole chain of causes: the last one is what an operator needs.
    fn noted(&self, code: &'static str) -> Note {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let said = error.to_string();
            if !text.contains(&said) {
                text.push_str(": ");
                text.push_str(&said);
            }
            cause = error.source();
        }
        Note::new(code, text)
    }
}

impl Refusal {
    /// Was only the nonce wrong, so that nothing was done?
    pub(crate) fn is_bad_nonce(&self) -> bool {
        self.problem.kind == "badNonce"
    }

    /// Could a challenge have been refused because the CA is past it?
    pub(crate) fn may_mean_already_told(&self) -> bool {
        (400..500).contains(&self.status) && !matches!(self.status, 404 | 410 | 429)
    }

    /// Is another account the one that may ask for this?
    pub(crate) fn is_for_another_account(&self) -> bool {
        self.problem.kind == "unauthorized" || matches!(self.status, 401 | 403)
    }

    fn class(&self) -> Class {
        let kind = self.problem.deciding_kind();
        let (after, note) = (self.retry_after, self.note(kind));
        match (self.status, kind) {
            (429 | 503, _) | (_, "rateLimited") => Class::Wait { after, note },
            (_, "rejectedIdentifier" | "unsupportedIdentifier" | "caa" | "badCSR") => {
                Class::Hopeless(note)
            }
            (_, "badPublicKey") if self.at == Point::ACME_FINALIZE => Class::Hopeless(note),
            (_, "accountDoesNotExist") => Class::AccountGone(note),
            _ if self.at == Point::ACME_NEW_ORDER && after.is_some() => Class::Wait { after, note },
            (404 | 410, _) | (_, "orderNotReady") if self.is_about_an_order() => {
                Class::OrderGone(note)
            }
            (_, "unauthorized") if self.is_about_an_order() => Class::OrderGone(note),
            _ => Class::Trouble(note),
        }
    }

    /// The cause; what is meant depends on what was asked.
    fn note(&self, kind: &str) -> Note {
        let code = match (self.status, kind) {
            (429, _) => "acme-rate-limited".into(),
            (404 | 410, _) if self.is_about_an_order() => "acme-order-gone".into(),
            (500.., _) => "acme-server".into(),
            (_, "badPublicKey") if self.at == Point::ACME_FINALIZE => "acme-bad-csr".into(),
            (_, "unauthorized") if self.is_about_an_order() => "acme-order-gone".into(),
            // Outside of an order it is the account itself that may not: deactivated, or blocked.
            (_, "unauthorized") => "acme-account".into(),
            (_, kind) => crate::problem::code(kind),
        };
        Note::new(code, self.to_string())
    }

    fn is_about_an_order(&self) -> bool {
        let about = [
            Point::ACME_ORDER,
            Point::ACME_AUTHORIZATION,
            Point::ACME_CHALLENGE,
            Point::ACME_FINALIZE,
            Point::ACME_CERTIFICATE,
        ];
        about.contains(&self.at)
    }
}

/// A request, as people would say it.
fn asked(at: Point) -> &'static str {
    match at {
        Point::ACME_DIRECTORY => "reading its directory",
        Point::ACME_NONCE => "a nonce",
        Point::ACME_NEW_ACCOUNT => "the account",
        Point::ACME_ACCOUNT => "the account's contact",
        Point::ACME_KEY_CHANGE => "the account's new key",
        Point::ACME_NEW_ORDER => "the order",
        Point::ACME_ORDER => "reading the order",
        Point::ACME_AUTHORIZATION => "reading the authorization",
        Point::ACME_CHALLENGE => "the challenge",
        Point::ACME_FINALIZE => "finalizing the order",
        Point::ACME_CERTIFICATE => "the download",
        Point::ACME_REVOKE => "the revocation",
        Point::ACME_RENEWAL_INFO => "the renewal window",
        _ => "the request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(at: Point, status: u16, kind: &str, retry_after: Option<u64>) -> Class {
        let problem = Problem {
            kind: kind.to_owned(),
            detail: "as the CA says".to_owned(),
            subproblems: Vec::new(),
        };
        let retry_after = retry_after.map(Duration::from_secs);
        Error::Refused(Box::new(Refusal { at, status, problem, retry_after })).class()
    }

    fn name(class: &Class) -> &'static str {
        match class {
            Class::Wait { .. } => "wait",
            Class::Trouble(_) => "trouble",
            Class::Hopeless(_) => "hopeless",
            Class::OrderGone(_) => "order-gone",
            Class::AccountGone(_) => "account-gone",
        }
    }

    #[test]
    fn refusals_lead_where_the_design_says() {
        use Point as P;
        let cases = [
            (P::ACME_NEW_ORDER, 429, "rateLimited", Some(9), "wait", "acme-rate-limited"),
            (P::ACME_ORDER, 429, "", None, "wait", "acme-rate-limited"),
            (P::ACME_NEW_ORDER, 503, "serverInternal", Some(9), "wait", "acme-server"),
            (P::ACME_FINALIZE, 503, "", None, "wait", "acme-server"),
            (P::ACME_NEW_ORDER, 500, "serverInternal", Some(9), "wait", "acme-server"),
            (P::ACME_NEW_ORDER, 500, "serverInternal", None, "trouble", "acme-server"),
            (P::ACME_FINALIZE, 500, "", Some(9), "trouble", "acme-server"),
            (
                P::ACME_NEW_ORDER,
                400,
                "rejectedIdentifier",
                Some(9),
                "hopeless",
                "acme-rejected-identifier",
            ),
            (
                P::ACME_NEW_ORDER,
                400,
                "unsupportedIdentifier",
                None,
                "hopeless",
                "acme-rejected-identifier",
            ),
            (P::ACME_FINALIZE, 403, "caa", None, "hopeless", "acme-caa"),
            (P::ACME_FINALIZE, 400, "badCSR", None, "hopeless", "acme-bad-csr"),
            (P::ACME_FINALIZE, 400, "badPublicKey", None, "hopeless", "acme-bad-csr"),
            (P::ACME_NEW_ACCOUNT, 400, "badPublicKey", None, "trouble", "acme-account"),
            (P::ACME_FINALIZE, 403, "orderNotReady", None, "order-gone", "acme-order-gone"),
            (P::ACME_ORDER, 404, "malformed", None, "order-gone", "acme-order-gone"),
            (P::ACME_AUTHORIZATION, 403, "unauthorized", None, "order-gone", "acme-order-gone"),
            (P::ACME_NEW_ORDER, 403, "unauthorized", None, "trouble", "acme-account"),
            (P::ACME_NEW_ORDER, 404, "malformed", None, "trouble", "acme-malformed"),
            (P::ACME_NEW_ORDER, 400, "accountDoesNotExist", None, "account-gone", "acme-account"),
            (P::ACME_NEW_ORDER, 403, "userActionRequired", None, "trouble", "acme-terms"),
            (
                P::ACME_NEW_ACCOUNT,
                403,
                "externalAccountRequired",
                None,
                "trouble",
                "acme-external-account",
            ),
            (P::ACME_NEW_ORDER, 400, "invalidProfile", None, "trouble", "acme-profile"),
            (P::ACME_NEW_ORDER, 400, "malformed", None, "trouble", "acme-malformed"),
            (P::ACME_NEW_ORDER, 418, "https://ca.example/tea", None, "trouble", "acme-refused"),
        ];
        for (at, status, kind, after, expected, code) in cases {
            let class = class(at, status, kind, after);
            assert_eq!(
                (name(&class), class.note().code.as_ref()),
                (expected, code),
                "{at} {status} {kind}"
            );
            assert!(class.note().detail.contains("as the CA says"));
            if let Class::Wait { after: said, .. } = class {
                assert_eq!(said, after.map(Duration::from_secs));
            }
        }
    }
}
