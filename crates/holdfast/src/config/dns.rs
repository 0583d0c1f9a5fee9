//! `[dns]`: what customers' names must point to, and whom we ask.

use std::net::{IpAddr, SocketAddr};

use holdfast_model::Hostname;
use serde::{Deserialize, Deserializer, de};

use super::problem::Findings;

/// A DNS server; port 53 where none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResolverAddress(pub(crate) SocketAddr);

impl<'de> Deserialize<'de> for ResolverAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bare = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
        let address = bare.or_else(|_| text.parse::<SocketAddr>());
        address.map(Self).map_err(|_| de::Error::custom("it is no IP address"))
    }
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dns {
    /// What a customer's CNAME may lead to; the first is told to new customers.
    pub(crate) targets: Vec<Hostname>,
    /// What an apex may point to.
    #[serde(default)]
    pub(crate) addresses: Vec<IpAddr>,
    /// Does each domain get a target of its own?
    #[serde(default)]
    pub(crate) unique_target: bool,
    /// Whom to ask; absent: the system's.
    #[serde(default)]
    pub(crate) resolvers: Option<Vec<ResolverAddress>>,
    /// Where a name is asked over HTTP whether it reaches us; 0: never.
    #[serde(default = "default_proof_port")]
    pub(crate) http_proof_port: u16,
}

const fn default_proof_port() -> u16 {
    80
}

impl Dns {
    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        findings.require(
            !self.targets.is_empty(),
            "dns.targets",
            "is empty, so customers could not be told what to point their names at",
            "name the edge's host name, such as dns.targets = [\"edge.example.net\"]",
        );
        for (index, address) in self.addresses.iter().enumerate() {
            findings.require(
                !address.is_unspecified() && !address.is_multicast(),
                &format!("dns.addresses.{index}"),
                "is no address of a machine",
                "name the edge's own address",
            );
        }
        let Some(resolvers) = &self.resolvers else { return };
        findings.require(
            !resolvers.is_empty(),
            "dns.resolvers",
            "is empty, so nobody could be asked",
            "name a DNS server, or remove the key to ask the system's",
        );
        for (index, resolver) in resolvers.iter().enumerate() {
            findings.require(
                resolver.0.port() != 0 && !resolver.0.ip().is_unspecified(),
                &format!("dns.resolvers.{index}"),
                "cannot be asked",
                "name the server's own address, with a port from 1 to 65535 or none for 53",
            );
        }
    }
}
