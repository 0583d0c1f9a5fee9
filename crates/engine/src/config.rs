//! What an engine needs to know beside its peers.

use std::{net::IpAddr, time::Duration};

use holdfast_model::{Hostname, Policy};
use holdfast_store::{Actor, Claimant};

/// When a certificate counts as deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// When an edge of its group was seen serving it.
    Edges,
    /// When it is stored: others fetch it.
    Stored,
}

/// The settings of one engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Who claims.
    pub claimant: Claimant,
    /// How long a claim holds without renewal.
    pub claim: Duration,
    /// How many domains are worked on at once, beside those at the CA.
    pub concurrency: u32,
    /// Retry, timeout, renewal.
    pub policy: Policy,
    /// The names customers may point to.
    pub targets: Vec<Hostname>,
    /// The addresses an apex may point to.
    pub addresses: Vec<IpAddr>,
    /// The port on which a name is asked for our proof, when DNS alone does not show that it reaches us.
    pub http_proof_port: Option<u16>,
    /// When a certificate counts as deployed.
    pub deployment: Deployment,
}

impl EngineConfig {
    /// As it stands in the history.
    pub(crate) fn actor(&self) -> Actor {
        Actor { instance: self.claimant.instance.clone(), name: "worker".to_owned() }
    }
}
