//! What a person asked for: what it amounts to in the domain's state, and when it is done with.

use crate::{Domain, Outcome, State, Transition, Wanted};

/// What a person's request amounts to in the domain's present state; none when there is nothing to do.
#[must_use]
pub fn asked(domain: &Domain, wanted: Wanted) -> Option<Outcome> {
    use State::{
        AcmeChallengeFailed, Active, CertificateDeploying, CertificateDeploymentFailed,
        CertificateDownloadFailed,
    };
    match (wanted, domain.state) {
        // What its order brings is of no use, or not to be had: a person wants another, which may be a second certificate.
        (Wanted::Renew, AcmeChallengeFailed | CertificateDownloadFailed) => {
            Some(Outcome::OrderAbandoned)
        }
        (Wanted::Renew, Active | CertificateDeploying | CertificateDeploymentFailed) => {
            Some(Outcome::RenewalNeeded)
        }
        (_, state) if state.is_failure() => Some(Outcome::TimeToRetry),
        _ => None,
    }
}

/// Is a person's request done with once this is committed? Any try answers a request for one. A request for a new certificate is
/// kept while an order is under way, whose certificate answers it, also if it comes while that is being stored.
#[must_use]
pub fn answers(domain: &Domain, outcome: &Outcome, transition: &Transition) -> bool {
    let renews = matches!(
        outcome,
        Outcome::CertificateIssued
            | Outcome::RenewalNeeded
            | Outcome::CertificateDamaged { .. }
            | Outcome::TimeToRetry
            | Outcome::OrderAbandoned
    );
    match domain.wanted {
        None => matches!(outcome, Outcome::CertificateIssued),
        Some(Wanted::Retry) => true,
        Some(Wanted::Renew) => renews || transition.state == State::Failed,
    }
}
