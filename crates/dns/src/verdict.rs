//! The outcome of a look: pointed at us, and how; or not, and why.

use std::fmt;

use holdfast_model::Note;
use serde::{Deserialize, Serialize};

/// Whether a name is pointed at us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Pointed {
        /// In which way.
        via: Via,
    },
    /// It is not.
    NotPointed(Cause),
}

impl Verdict {
    /// Whether it is pointed at us.
    #[must_use]
    pub const fn is_pointed(self) -> bool {
        matches!(self, Self::Pointed { .. })
    }
}

/// The ways of being pointed at us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Its CNAMEs reach one of our targets.
    Cname,
    /// Its addresses are ours, or those of our target (ALIAS, flattened CNAME).
    Address,
    /// Requests to it reach us, through whatever stands between.
    Http,
}

/// Why a name is not pointed at us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The name does not exist.
    NxDomain,
    /// It exists, without CNAME or address.
    NoRecords,
    /// Its CNAME leads to somebody else.
    CnameElsewhere,
    /// It has an address that is not ours.
    AddressElsewhere,
    /// Its A record is right, its AAAA record is not; a CA tries the latter first.
    StaleAaaa,
    /// Its CNAMEs lead in a circle.
    CnameLoop,
    /// It has more CNAMEs in a row than resolvers follow.
    ChainTooLong,
    /// Its name servers are broken.
    Servfail,
    /// Its name servers do not serve it.
    Refused,
    /// Its name servers are silent.
    Timeout,
    /// Its name servers answer what nobody can read.
    Unreadable,
    /// It has addresses that cannot be compared with those of our target, which are not to be had.
    TargetSilent,
    /// We cannot look: our own resolver is silent.
    ResolverUnreachable,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 13] = [
        Self::NxDomain,
        Self::NoRecords,
        Self::CnameElsewhere,
        Self::AddressElsewhere,
        Self::StaleAaaa,
        Self::CnameLoop,
        Self::ChainTooLong,
        Self::Servfail,
        Self::Refused,
        Self::Timeout,
        Self::Unreadable,
        Self::TargetSilent,
        Self::ResolverUnreachable,
    ];

    /// The stable code, as in `last_error` and `explain`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NxDomain => "dns-nxdomain",
            Self::NoRecords => "dns-no-records",
            Self::CnameElsewhere => "dns-cname-elsewhere",
            Self::AddressElsewhere => "dns-address-elsewhere",
            Self::StaleAaaa => "dns-stale-aaaa",
            Self::CnameLoop => "dns-cname-loop",
            Self::ChainTooLong => "dns-chain-too-long",
            Self::Servfail => "dns-servfail",
            Self::Refused => "dns-refused",
            Self::Timeout => Note::DNS_TIMEOUT,
            Self::Unreadable => "dns-unreadable",
            Self::TargetSilent => "dns-target-silent",
            Self::ResolverUnreachable => Note::DNS_RESOLVER_UNREACHABLE,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
