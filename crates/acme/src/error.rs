//! What can go wrong with a CA, in its own words, and what each amounts to.

use std::sync::Arc;

use holdfast_gateway::client;
use holdfast_gateway::point::Point;
use holdfast_model::Note;

use crate::certificate::{BadCertificate, Untrusted};
use crate::refusal::{
    asked, is_about_an_order, is_before_the_certificate, is_gone, is_named_by_directory,
    may_have_issued,
};
use crate::{BadUrl, Class, OrderStatus, Refusal};

/// The cause of a stop of the whole account.
const ACCOUNT_UNUSABLE: &str = "acme-account-unusable";

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
    /// The file of roots is none.
    #[error("[acme] issuer_roots: {0}; give the CA's roots in PEM")]
    IssuerRoots(String),
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
    /// The CA does not take the account's signature, and will not.
    #[error("the CA at {directory} does not accept the account {account}: {reason}")]
    AccountUnusable {
        /// The ACME directory.
        directory: String,
        /// The CA's URL of it.
        account: String,
        /// In the CA's words, or what was found.
        reason: String,
    },
    /// A new account was asked for, and the one there is can be used.
    #[error(
        "the account at {0} can be used; another key for it is made by `holdfast key rotate --account`"
    )]
    AccountUsable(String),
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
    /// What answered is no ACME server.
    #[error("the answer to {} is not from an ACME server: {problem}", asked(*.at))]
    NotAcme {
        /// The request.
        at: Point,
        /// The HTTP status.
        status: u16,
        /// What came instead.
        problem: String,
    },
    /// An answer that makes no sense.
    #[error("the CA's answer to {} makes no sense: {problem}", asked(*.at))]
    Malformed {
        /// The request.
        at: Point,
        /// What is wrong with it.
        problem: String,
    },
    /// A URL that is neither stored nor asked.
    #[error("the URL that the CA gave for {} is not used: `{url}` {why}", asked(*.at))]
    BadUrl {
        /// The request whose answer has it, or that would go there.
        at: Point,
        /// What the CA gave, made fit for a log.
        url: String,
        /// What is wrong with it.
        why: BadUrl,
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
    /// The certificate that was downloaded is not what was ordered.
    #[error("the CA issued what was not ordered: {0}")]
    WrongCertificate(BadCertificate),
    /// The chain that was downloaded leads to no root that visitors have.
    #[error(transparent)]
    Untrusted(Untrusted),
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

/// What keeps an order that may have been finalized from being of use. Each may pass, and a new order is a second certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// The CA does not know it, or its certificate, any more.
    Gone,
    /// What it sends is no certificate.
    Nonsense,
    /// The certificate is not valid yet.
    Early,
    /// The chain leads to no root that visitors have.
    Untrusted,
}

impl Stuck {
    /// As it is kept with the order.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Nonsense => "nonsense",
            Self::Early => "early",
            Self::Untrusted => "untrusted",
        }
    }
}

impl Error {
    /// What can be done about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Refused(refusal) => refusal.class(),
            Self::Shared(error) => error.class(),
            Self::Unreachable { .. } => Class::Unavailable(self.noted(Note::CA_UNREACHABLE)),
            Self::NotAcme { .. } => Class::Unavailable(self.noted(Note::CA_NOT_ACME)),
            // A gateway that answers so answers everybody so; whether it is one order alone, others tell.
            Self::Malformed { at, .. }
                if *at == Point::ACME_NEW_ORDER || is_before_the_certificate(*at) =>
            {
                Class::Unavailable(self.noted(Note::CA_NOT_ACME))
            }
            Self::Malformed { .. } => Class::Trouble(self.noted("acme-malformed")),
            // An order that leads nowhere is spent; that it was finalized can only be where its certificate is looked for.
            Self::BadUrl { at, .. } if is_about_an_order(*at) && *at != Point::ACME_CERTIFICATE => {
                Class::OrderGone(self.noted("acme-bad-url"))
            }
            Self::BadUrl { .. } => Class::Trouble(self.noted("acme-bad-url")),
            Self::NoChallenge(_) => Class::Doubtful(self.noted("acme-no-challenge")),
            Self::KeyChanged => Class::OrderGone(self.noted("acme-order-gone")),
            Self::NotIssued(OrderStatus::Invalid(note)) => Class::OrderGone(note.clone()),
            Self::NotIssued(_) => Class::Trouble(self.noted("acme-malformed")),
            Self::AccountUnusable { .. } => Class::AccountUnusable(self.noted(ACCOUNT_UNUSABLE)),
            Self::TermsNotAgreed { .. } => Class::Trouble(self.noted("acme-terms")),
            Self::ExternalAccountRequired(_) | Self::BadEabKey => {
                Class::Trouble(self.noted("acme-external-account"))
            }
            Self::UnknownProfile { .. } => Class::Trouble(self.noted("acme-profile")),
            // The order is good, and so is its certificate, soon.
            Self::WrongCertificate(BadCertificate::NotYetValid { .. }) => {
                Class::Trouble(self.noted("certificate-early"))
            }
            Self::WrongCertificate(_) => Class::OrderGone(self.noted("wrong-certificate")),
            Self::Untrusted(Untrusted::Incomplete { .. }) => {
                Class::Trouble(self.noted("incomplete-chain"))
            }
            Self::Untrusted(_) => Class::Trouble(self.noted("untrusted-chain")),
            Self::Certificate(_) => Class::Trouble(self.noted("bad-certificate")),
            Self::Store(_) => Class::Trouble(self.noted("store-unavailable")),
            Self::Key(_) => Class::Trouble(self.noted("acme-key")),
            Self::BadDirectory(_)
            | Self::InsecureDirectory(_)
            | Self::Client(_)
            | Self::IssuerRoots(_)
            | Self::AccountUsable(_)
            | Self::Unsupported { .. } => Class::Trouble(self.noted("acme-account")),
        }
    }

    /// What keeps an order that may have been finalized from being of use, if that is what happened.
    #[must_use]
    pub fn stuck(&self) -> Option<Stuck> {
        match self {
            Self::Refused(refusal) if refusal.is_about_what_was_issued() => Some(Stuck::Gone),
            Self::Refused(refusal) if refusal.rejects_the_order() => Some(Stuck::Nonsense),
            Self::BadUrl { at, .. } if may_have_issued(*at) => Some(Stuck::Gone),
            Self::Malformed { at, .. } | Self::NotAcme { at, status: ..500, .. }
                if may_have_issued(*at) =>
            {
                Some(Stuck::Nonsense)
            }
            Self::WrongCertificate(BadCertificate::NotYetValid { .. }) => Some(Stuck::Early),
            Self::Untrusted(_) => Some(Stuck::Untrusted),
            Self::Shared(error) => error.stuck(),
            _ => None,
        }
    }

    /// Is it that the certificate has expired already, by our clock?
    #[must_use]
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::WrongCertificate(BadCertificate::Expired { .. }))
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

    /// Could the request have gone to a place that the CA has given up since its directory was read?
    pub(crate) fn may_have_moved(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                let of_account = ["accountDoesNotExist", "unauthorized"];
                is_named_by_directory(refusal.at)
                    && is_gone(refusal.status)
                    && !of_account.contains(&refusal.problem.kind.as_str())
            }
            Self::NotAcme { at, status, .. } => is_named_by_directory(*at) && is_gone(*status),
            Self::Unreachable { at, source } => is_named_by_directory(*at) && source.never_sent(),
            _ => false,
        }
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
