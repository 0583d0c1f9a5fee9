//! A CA's refusal, and what it amounts to: that depends on the problem's type and on what was asked.

use std::time::Duration;

use holdfast_gateway::point::Point;
use holdfast_model::{Note, WaitScope};

use crate::problem::{Problem, code};
use crate::{Class, scope};

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

    /// Is it that an order, or a certificate that was issued, is not to be had?
    pub(crate) fn is_about_what_was_issued(&self) -> bool {
        match self.at {
            Point::ACME_ORDER | Point::ACME_CERTIFICATE => {
                matches!(self.status, 404 | 410) || self.problem.deciding_kind() == "unauthorized"
            }
            _ => false,
        }
    }

    /// Does the CA make nothing of an order that it made itself, and give no reason that could pass?
    pub(crate) fn rejects_the_order(&self) -> bool {
        let kind = self.problem.deciding_kind();
        self.is_about_an_order()
            && (400..500).contains(&self.status)
            && (kind == "malformed" || code(kind) == "acme-refused")
    }

    pub(crate) fn class(&self) -> Class {
        let kind = self.problem.deciding_kind();
        let note = self.note(kind);
        match (self.status, kind) {
            (429 | 503, _) | (_, "rateLimited") => self.wait(kind, note),
            (_, "userActionRequired") => Class::ActionRequired(note),
            // The order was validated before: the record is new, or could not be read.
            (_, "caa") if self.at == Point::ACME_FINALIZE => Class::Trouble(note),
            (_, "rejectedIdentifier" | "unsupportedIdentifier" | "caa") => Class::Hopeless(note),
            // The CSR is ours and right; a CA that says so once may be wrong.
            (_, "badCSR") => Class::Doubtful(note),
            (_, "badPublicKey") if self.at == Point::ACME_FINALIZE => Class::Doubtful(note),
            // Before anything else a later try could mend: it says when.
            _ if self.is_about_ordering() && self.retry_after.is_some() => self.wait(kind, note),
            (_, "accountDoesNotExist") => Class::AccountGone(note),
            // The order was read as valid a moment ago: a replica of the CA lags, and a new order would be a second certificate.
            (404 | 410, _) | (_, "unauthorized") if self.at == Point::ACME_CERTIFICATE => {
                Class::Trouble(note)
            }
            (404 | 410, _) | (_, "orderNotReady") if self.is_about_an_order() => {
                Class::OrderGone(note)
            }
            (_, "unauthorized") if self.is_about_an_order() => Class::OrderGone(note),
            (500.., _) => Class::Unavailable(note),
            (status, _) if is_gone(status) && is_named_by_directory(self.at) => {
                Class::Unavailable(note)
            }
            _ if self.rejects_the_order() && is_before_the_certificate(self.at) => {
                Class::OrderGone(note)
            }
            _ => Class::Trouble(note),
        }
    }

    fn wait(&self, kind: &str, note: Note) -> Class {
        let words = &self.problem.detail;
        let after = self.retry_after.or_else(|| scope::wait_in(words));
        let scope = scope::scope(self.at, self.status, kind, words);
        let note = match scope {
            // Another cause than a limit: only a person can end it.
            WaitScope::PausedName => Note { code: "acme-paused".into(), ..note },
            _ => note,
        };
        Class::Wait { scope, after, note }
    }

    /// The cause; what is meant depends on what was asked.
    fn note(&self, kind: &str) -> Note {
        let code = match (self.status, kind) {
            (429, _) => "acme-rate-limited".into(),
            (404 | 410, _) if self.is_about_an_order() => "acme-order-gone".into(),
            (500.., _) => Note::CA_SERVER.into(),
            (status, _) if is_gone(status) && is_named_by_directory(self.at) => {
                Note::CA_NOT_ACME.into()
            }
            (_, "badPublicKey") if self.at == Point::ACME_FINALIZE => "acme-bad-csr".into(),
            (_, "unauthorized") if self.is_about_an_order() => "acme-order-gone".into(),
            // Outside of an order it is the account itself that may not: deactivated, or blocked.
            (_, "unauthorized") => "acme-account".into(),
            (_, kind) => code(kind),
        };
        let note = Note::new(code, self.to_string());
        match self.problem.instance.as_deref().filter(|_| kind == "userActionRequired") {
            Some(instance) => note.with_link(instance),
            None => note,
        }
    }

    /// Was an order asked for, or the nonce that it takes?
    fn is_about_ordering(&self) -> bool {
        matches!(self.at, Point::ACME_NEW_ORDER | Point::ACME_NONCE)
    }

    fn is_about_an_order(&self) -> bool {
        is_about_an_order(self.at)
    }
}

/// Is the request about one order that was made before?
pub(crate) fn is_about_an_order(at: Point) -> bool {
    let about = [
        Point::ACME_ORDER,
        Point::ACME_AUTHORIZATION,
        Point::ACME_CHALLENGE,
        Point::ACME_FINALIZE,
        Point::ACME_CERTIFICATE,
    ];
    about.contains(&at)
}

/// Is the request one that an order needs before anything is issued for it?
pub(crate) fn is_before_the_certificate(at: Point) -> bool {
    [Point::ACME_ORDER, Point::ACME_AUTHORIZATION, Point::ACME_CHALLENGE].contains(&at)
}

/// Is the request one of an order that may have been finalized?
pub(crate) fn may_have_issued(at: Point) -> bool {
    [Point::ACME_ORDER, Point::ACME_FINALIZE, Point::ACME_CERTIFICATE].contains(&at)
}

/// Does this status say that nothing is at this address, or no more?
pub(crate) const fn is_gone(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308 | 404 | 405 | 410)
}

/// Does the directory say where this request goes?
pub(crate) fn is_named_by_directory(at: Point) -> bool {
    let named = [
        Point::ACME_NONCE,
        Point::ACME_NEW_ACCOUNT,
        Point::ACME_NEW_ORDER,
        Point::ACME_KEY_CHANGE,
        Point::ACME_REVOKE,
    ];
    named.contains(&at)
}

/// A request, as people would say it.
pub(crate) fn asked(at: Point) -> &'static str {
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
    use crate::Error;

    fn class(at: Point, status: u16, kind: &str, retry_after: Option<u64>) -> Class {
        let problem = Problem {
            kind: kind.to_owned(),
            detail: "as the CA says".to_owned(),
            ..Problem::default()
        };
        let retry_after = retry_after.map(Duration::from_secs);
        Error::Refused(Box::new(Refusal { at, status, problem, retry_after })).class()
    }

    fn name(class: &Class) -> &'static str {
        match class {
            Class::Wait { .. } => "wait",
            Class::Unavailable(_) => "unavailable",
            Class::ActionRequired(_) => "action-required",
            Class::Doubtful(_) => "doubtful",
            Class::Trouble(_) => "trouble",
            Class::Hopeless(_) => "hopeless",
            Class::OrderGone(_) => "order-gone",
            Class::AccountGone(_) => "account-gone",
            Class::AccountUnusable(_) => "account-unusable",
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
            (P::ACME_NEW_ORDER, 500, "serverInternal", None, "unavailable", "acme-server"),
            (P::ACME_FINALIZE, 500, "", Some(9), "unavailable", "acme-server"),
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
            (P::ACME_FINALIZE, 403, "caa", None, "trouble", "acme-caa"),
            (P::ACME_NEW_ORDER, 403, "caa", None, "hopeless", "acme-caa"),
            (P::ACME_FINALIZE, 400, "badCSR", None, "doubtful", "acme-bad-csr"),
            (P::ACME_FINALIZE, 400, "badPublicKey", None, "doubtful", "acme-bad-csr"),
            (P::ACME_NEW_ACCOUNT, 400, "badPublicKey", None, "trouble", "acme-account"),
            (P::ACME_FINALIZE, 403, "orderNotReady", None, "order-gone", "acme-order-gone"),
            (P::ACME_ORDER, 404, "malformed", None, "order-gone", "acme-order-gone"),
            (P::ACME_AUTHORIZATION, 403, "unauthorized", None, "order-gone", "acme-order-gone"),
            (P::ACME_NEW_ORDER, 403, "unauthorized", None, "trouble", "acme-account"),
            (P::ACME_NEW_ORDER, 404, "malformed", None, "unavailable", "ca-not-acme"),
            (P::ACME_NONCE, 405, "malformed", None, "unavailable", "ca-not-acme"),
            (P::ACME_REVOKE, 404, "malformed", None, "unavailable", "ca-not-acme"),
            (P::ACME_NEW_ORDER, 400, "accountDoesNotExist", None, "account-gone", "acme-account"),
            (P::ACME_NEW_ORDER, 400, "accountDoesNotExist", Some(9), "wait", "acme-account"),
            (P::ACME_NEW_ORDER, 503, "serverInternal", None, "wait", "acme-server"),
            (P::ACME_NONCE, 500, "serverInternal", Some(9), "wait", "acme-server"),
            (P::ACME_NEW_ORDER, 403, "userActionRequired", None, "action-required", "acme-terms"),
            (P::ACME_FINALIZE, 403, "userActionRequired", None, "action-required", "acme-terms"),
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
            (P::ACME_ORDER, 400, "malformed", None, "order-gone", "acme-malformed"),
            (P::ACME_AUTHORIZATION, 418, "", None, "order-gone", "acme-refused"),
            (P::ACME_ORDER, 400, "badNonce", None, "trouble", "acme-malformed"),
            (P::ACME_FINALIZE, 400, "malformed", None, "trouble", "acme-malformed"),
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

    /// Beside the words it matters what was asked, and with which status it was refused.
    #[test]
    fn whoever_waits_is_in_the_class() {
        use {Point as P, WaitScope as S};
        let cases = [
            (P::ACME_NEW_ORDER, 429, "rateLimited", S::Unknown),
            (P::ACME_NEW_ORDER, 429, "", S::Server),
            (P::ACME_NEW_ORDER, 503, "rateLimited", S::Server),
            (P::ACME_CHALLENGE, 429, "rateLimited", S::Unknown),
            (P::ACME_FINALIZE, 503, "", S::Server),
            (P::ACME_NONCE, 429, "rateLimited", S::Server),
            (P::ACME_NEW_ORDER, 400, "malformed", S::Unknown),
            (P::ACME_NEW_ORDER, 500, "serverInternal", S::Server),
        ];
        for (at, status, kind, expected) in cases {
            let class = class(at, status, kind, Some(9));
            assert!(matches!(class, Class::Wait { scope, .. } if scope == expected), "{class:?}");
        }
    }
}
