//! What must be seen for a name to count as pointed at us.

use std::fmt;
use std::net::IpAddr;

use holdfast_model::Hostname;
use serde::{Deserialize, Serialize};

/// What must be seen of a name; any one of the ways is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// The customer's name.
    pub name: Hostname,
    /// Where its CNAMEs may lead; the first is the one customers are told.
    pub targets: Vec<Hostname>,
    /// What its addresses may be.
    pub addresses: Vec<IpAddr>,
    /// What a request to it must answer, where that counts too.
    pub proof: Option<HttpProof>,
}

/// A question over HTTP that only we can answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpProof {
    /// The last part of the path `/.well-known/holdfast/{nonce}`.
    pub nonce: String,
    /// The body that proves it was us.
    pub answer: String,
    /// The port to ask; 80 outside of development.
    pub port: u16,
}

impl Expectation {
    /// Whether a name out of DNS, in lower case without a trailing dot, is one of our targets.
    pub(crate) fn is_target(&self, name: &str) -> bool {
        self.targets.iter().any(|target| target.as_str() == name)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.targets.first(), self.addresses.is_empty()) {
            (Some(target), true) => write!(f, "a CNAME to {target}"),
            (Some(target), false) => {
                write!(f, "a CNAME to {target} or {}", Addresses(&self.addresses))
            }
            (None, false) => write!(f, "{}", Addresses(&self.addresses)),
            (None, true) => write!(f, "an answer over HTTP that comes from us"),
        }
    }
}

/// How many addresses a sentence can take.
const SHOWN: usize = 4;

/// Addresses in a sentence.
pub(crate) struct Addresses<'a>(pub(crate) &'a [IpAddr]);

impl fmt::Display for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "the address " } else { "the addresses " })?;
        for (n, address) in self.0.iter().take(SHOWN).enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            write!(f, "{address}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
