//! `DnsVerifying` and the slow watch after it: is the name pointed at us?

use std::net::IpAddr;

use holdfast_dns::{Expectation, HttpProof};
use holdfast_model::{Domain, Hostname, Outcome};
use holdfast_store::{Claimed, proof_answer};

use super::Step;
use crate::dispatch::Shared;

/// What DNS should say of a domain: its own target, then any of the operator's, then the addresses. A target made for this
/// domain alone is proof of ownership, so then only it counts: whoever merely points at the edge has proven nothing.
#[must_use]
pub fn expectation(domain: &Domain, targets: &[Hostname], addresses: &[IpAddr]) -> Expectation {
    let unique = targets
        .iter()
        .any(|target| *target != domain.target && domain.target.is_at_or_below(target));
    let others = targets.iter().filter(|target| !unique && **target != domain.target);
    Expectation {
        name: domain.name.clone(),
        targets: std::iter::once(&domain.target).chain(others).cloned().collect(),
        addresses: addresses.to_vec(),
        proof: None,
    }
}

pub(super) async fn look(shared: &Shared, claimed: &Claimed) -> Step {
    let config = &shared.config;
    let mut expected = expectation(&claimed.domain, &config.targets, &config.addresses);
    expected.proof = config.http_proof_port.map(|port| {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let answer = proof_answer(&shared.secret, &nonce);
        HttpProof { nonce, answer, port }
    });
    match shared.resolver.look(&expected).await.note() {
        None => Outcome::DnsPointed.into(),
        Some(note) => Outcome::DnsNotPointed { note }.into(),
    }
}
