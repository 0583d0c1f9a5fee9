//! `DnsVerifying` and the slow watch after it: is the name pointed at us?

use std::{net::IpAddr, pin::pin};

use holdfast_dns::{Expectation, Finding, Glance, HttpProof};
use holdfast_model::{Domain, Hostname, Note, Outcome};
use holdfast_store::{Claimed, Lane, proof_answer};

use super::Step;
use crate::dispatch::{Shared, Spot};

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

/// A short look keeps nobody waiting: it gives its place in the lane away, and where the name is silent, another look with all
/// patience follows, in the lane of silent names. So does the whole look at a silent name that a person asks for.
pub(super) async fn look(shared: &Shared, claimed: &Claimed, spot: &dyn Spot) -> Step {
    let config = &shared.config;
    let mut expected = expectation(&claimed.domain, &config.targets, &config.addresses);
    expected.proof = config.http_proof_port.map(|port| {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let answer = proof_answer(&shared.secret, &nonce);
        HttpProof { nonce, answer, port }
    });
    // A request of a person keeps a name out of the lane of silent ones; that it was silent stays true.
    let was_silent = claimed.domain.last_error.as_ref().is_some_and(Note::is_silence_of_dns);
    // In the lane of silent names the places are what bounds the whole looks.
    if Lane::of(&claimed.domain) == Lane::Silent {
        return judged(&shared.resolver.look(&expected).await).into();
    }
    if was_silent {
        let turn = shared.resolver.turn_to_look().await;
        let look = shared.resolver.look_in_turn(&expected, turn);
        return judged(&leaving(shared, spot, look).await).into();
    }
    let turn = shared.resolver.turn().await;
    match leaving(shared, spot, shared.resolver.glance(&expected, turn)).await {
        Glance::Clear(finding) => judged(&finding),
        Glance::Silent(note) => Outcome::DnsSilent { note },
    }
    .into()
}

/// Looks, and gives the place in the lane away meanwhile. Where our own resolver is silent, the place is kept: a replica takes no more
/// names from the others than it has places.
async fn leaving<T>(shared: &Shared, spot: &dyn Spot, look: impl Future<Output = T>) -> T {
    let leave = async {
        if shared.resolver.answers().await {
            spot.leave();
        }
    };
    let mut look = pin!(look);
    tokio::select! {
        biased;
        seen = &mut look => seen,
        () = leave => look.await,
    }
}

fn judged(finding: &Finding) -> Outcome {
    match finding.note() {
        None => Outcome::DnsPointed,
        Some(note) => Outcome::DnsNotPointed { note },
    }
}
