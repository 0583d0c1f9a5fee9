//! What was seen of a name, without any opinion on it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// All that one look brought to light.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Where the name leads for IPv4.
    pub ipv4: Walk,
    /// Where the name leads for IPv6. It can lead elsewhere than IPv4: names have been seen with both a CNAME and
    /// an address left over.
    pub ipv6: Walk,
    /// The addresses our targets have now, asked for only when the name has addresses of its own.
    pub target_addresses: Vec<IpAddr>,
    /// Were the addresses of a target asked for in vain? Then addresses that are not known to be ours may be ours all the same.
    #[serde(default)]
    pub target_silent: bool,
    /// What the name's addresses answered over HTTP, asked only when DNS did not settle it.
    pub http: Vec<HttpAnswer>,
}

/// The way from a name to its addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The names its CNAMEs lead through, in order, lower-case, without a trailing dot.
    pub aliases: Vec<String>,
    /// The addresses at the end, sorted.
    pub addresses: Vec<IpAddr>,
    /// How it ended.
    pub end: End,
}

impl Walk {
    /// Did it end for want of an answer that could be read? With more patience there may be one.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        matches!(self.end, End::Timeout | End::Unreadable | End::ResolverUnreachable)
    }
}

/// How the way from a name ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// At one of our targets; what lies beyond is not the customer's.
    Target,
    /// At addresses.
    Addresses,
    /// At a name that exists, without an address of this family.
    NoRecords,
    /// At a name that does not exist.
    NxDomain,
    /// At a name that came before.
    CnameLoop,
    /// Nowhere: there were more CNAMEs than anybody follows.
    ChainTooLong,
    /// At SERVFAIL, or at another code that says "I cannot answer that".
    Servfail,
    /// At REFUSED: the name server does not serve this name.
    Refused,
    /// At silence of the name's servers.
    Timeout,
    /// At an answer that is no DNS.
    Unreadable,
    /// Before it began: our own resolver did not answer anything.
    ResolverUnreachable,
}

/// What one address answered over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswer {
    /// Who was asked.
    pub address: IpAddr,
    /// What came back.
    pub reply: HttpReply,
}

/// What came back over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpReply {
    /// The answer that only we can give.
    Ours,
    /// Another answer, with this status.
    Other(u16),
    /// No answer.
    None,
    /// Not asked: an address inside somebody's network.
    Private,
}
