//! The kinds of fault there are and what each needs said of it.

use std::fmt;
use std::str::FromStr;

use super::FaultError;

/// What a fault's value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    Rate,
    Milliseconds,
    Seconds,
    Limit,
    Answer,
    Status,
    Names,
}

impl Argument {
    /// How to write such a value.
    pub(crate) const fn syntax(self) -> &'static str {
        match self {
            Argument::Rate => "a rate from 0 to 1 (0.25), or a percentage (25%)",
            Argument::Milliseconds => "whole milliseconds (1500)",
            Argument::Seconds => "whole seconds from 1 (30)",
            Argument::Limit => "ORDERS/SECONDS, both from 1 (300/10800)",
            Argument::Answer => {
                "an HTTP status from 400 to 599, or STATUS/SECONDS with a Retry-After (503/30)"
            }
            Argument::Status => "an HTTP status from 200 to 599 (404)",
            Argument::Names => "names separated by commas: shop.test, *.shop.test, or * for all",
        }
    }
}

macro_rules! kinds {
    ($($variant:ident = $name:literal, $argument:ident, $doc:literal;)*) => {
        /// A way in which the CA or the zone can misbehave.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $(#[doc = $doc] $variant,)*
        }

        impl FaultKind {
            /// Every kind there is.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$variant),*];

            /// The name used in commands and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(FaultKind::$variant => $name,)* }
            }

            /// What it does, in a sentence.
            pub const fn description(self) -> &'static str {
                match self { $(FaultKind::$variant => $doc,)* }
            }

            /// How its value is written.
            pub const fn takes(self) -> &'static str {
                self.argument().syntax()
            }

            pub(crate) const fn argument(self) -> Argument {
                match self { $(FaultKind::$variant => Argument::$argument,)* }
            }
        }
    };
}

kinds! {
    BadNonce = "bad-nonce", Rate, "Signed requests are refused with badNonce.";
    ServerError = "server-error", Rate, "ACME requests are answered 500 and not processed.";
    DroppedReply = "dropped-reply", Rate, "Signed requests are processed, then the connection closes with no answer.";
    Unavailable = "unavailable", Seconds, "Every ACME request is answered 503 with this Retry-After.";
    WebPage = "web-page", Status, "Every ACME request is answered with this status and a web page, and not processed.";
    SlowRequest = "slow-request", Milliseconds, "Every ACME request takes this much longer.";
    OrderLimit = "order-limit", Limit, "New orders of an account past the limit are answered 429 with Retry-After.";
    FailedAuthorizations = "failed-authorizations", Names, "New orders for these names are answered 429: too many failed authorizations for the name.";
    ExactSetLimit = "exact-set-limit", Names, "New orders for these names are answered 429: too many certificates for this exact set of identifiers.";
    RegisteredDomainLimit = "registered-domain-limit", Names, "New orders for these names, and for all below them, are answered 429: too many certificates for the registered domain.";
    PausedName = "paused-name", Names, "New orders for these names are answered 429 without Retry-After, and with the address at which they are unpaused.";
    UnknownLimit = "unknown-limit", Names, "New orders for these names are answered 429 with words that no client knows.";
    ChallengeLimit = "challenge-limit", Names, "Challenges of these names are answered 429: over quota, try again in 2 s.";
    AddressLimit = "address-limit", Rate, "ACME requests are answered 429 in HTML, as by a proxy that limits addresses.";
    OrderRefused = "order-refused", Answer, "New orders are answered with this status and, if given, this Retry-After.";
    ActionRequired = "action-required", Rate, "New orders are refused with userActionRequired and a page to open.";
    NoChallenges = "no-challenges", Names, "Authorizations of these names are shown without any challenge.";
    BadCsr = "bad-csr", Names, "Finalizing these names is refused with badCSR, whatever the CSR.";
    SlowValidation = "slow-validation", Milliseconds, "A challenge is looked at only after this time.";
    Processing = "processing", Milliseconds, "A finalized order stays `processing` for this time.";
    RejectIdentifier = "reject-identifier", Names, "Orders for these names are refused with rejectedIdentifier.";
    Caa = "caa", Names, "Validation of these names fails as if a CAA record forbade it.";
    Unauthorized = "unauthorized", Names, "Validation of these names fails as if the challenge's answer were wrong.";
    FinalizeInvalid = "finalize-invalid", Names, "Orders for these names become invalid when they are finalized.";
    FinalizeError = "finalize-error", Names, "Finalizing these names works but is answered 500.";
    WrongCertificate = "wrong-certificate", Names, "The certificate issued for these names is one for another name.";
    ForeignCertificate = "foreign-certificate", Names, "The certificate issued for these names is signed by an authority that nobody knows.";
    SelfSigned = "self-signed", Names, "The certificate issued for these names names itself as its issuer, and comes alone.";
    ExpiredCertificate = "expired-certificate", Names, "The certificate issued for these names ended a day ago.";
    EarlyCertificate = "early-certificate", Names, "The certificate issued for these names begins in a day.";
    TruncatedChain = "truncated-chain", Names, "Certificates of these names are handed out without their intermediate.";
    DnsServfail = "dns-servfail", Names, "The zone answers SERVFAIL for these names.";
    DnsTimeout = "dns-timeout", Names, "The zone does not answer for these names.";
    DnsWrong = "dns-wrong", Names, "The zone answers for these names with records that lead elsewhere.";
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = FaultKind::ALL.iter().copied().find(|kind| kind.name() == text);
        found.ok_or_else(|| FaultError::UnknownKind { kind: text.to_owned() })
    }
}
