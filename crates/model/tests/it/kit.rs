//! A domain to decide about, and every outcome there is.

use std::collections::BTreeMap;

use holdfast_model::{
    CertificateSummary, Domain, DomainId, Hostname, Note, Outcome, OutcomeKind, State, Timestamp,
};

pub(crate) fn domain(state: State) -> Domain {
    let now = Timestamp::from_seconds(1_800_000_000);
    Domain {
        id: DomainId(uuid::Uuid::from_u128(7)),
        name: Hostname::parse("shop.example.com").unwrap(),
        tenant: None,
        resource: "shop".into(),
        target: Hostname::parse("edge.example.net").unwrap(),
        edge_group: "default".into(),
        labels: BTreeMap::new(),
        orchestration_id: "once".into(),
        state,
        foreign_state: None,
        attempt: 0,
        entered_at: now,
        next_attempt_at: Some(now),
        queued_at: None,
        failures: 0,
        failing_since: None,
        last_error: None,
        order_open: false,
        certificate: None,
        certificate_since: None,
        wanted: None,
        removing_since: None,
        revoke_on_removal: false,
        removed_at: None,
        lapses: 0,
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

pub(crate) fn certificate(not_before: Timestamp, days: u64) -> CertificateSummary {
    CertificateSummary {
        serial: "01".into(),
        sha256: "ab".into(),
        not_before,
        not_after: not_before.plus(std::time::Duration::from_secs(days * 86_400)),
        issuer: "Test".into(),
        directory: "https://ca.example/dir".into(),
    }
}

pub(crate) fn outcome(kind: OutcomeKind, at: Option<Timestamp>) -> Outcome {
    let note = Note::new("test", "as the test says");
    match kind {
        OutcomeKind::Accepted => Outcome::Accepted,
        OutcomeKind::Imported => Outcome::Imported,
        OutcomeKind::DnsPointed => Outcome::DnsPointed,
        OutcomeKind::DnsNotPointed => Outcome::DnsNotPointed { note },
        OutcomeKind::DnsSilent => Outcome::DnsSilent { note },
        OutcomeKind::OrderCreated => Outcome::OrderCreated,
        OutcomeKind::CaWaits => Outcome::CaWaits,
        OutcomeKind::Deferred => {
            Outcome::Deferred { note, until: at.unwrap_or(Timestamp::from_seconds(0)) }
        }
        OutcomeKind::CaUnavailable => Outcome::CaUnavailable { note, retry_after: at },
        OutcomeKind::OrderAbandoned => Outcome::OrderAbandoned,
        OutcomeKind::ChallengeReady => Outcome::ChallengeReady,
        OutcomeKind::AlreadyAuthorized => Outcome::AlreadyAuthorized,
        OutcomeKind::ChallengeAccepted => Outcome::ChallengeAccepted,
        OutcomeKind::ChallengePending => Outcome::ChallengePending { retry_after: at },
        OutcomeKind::ChallengeValid => Outcome::ChallengeValid,
        OutcomeKind::ChallengeInvalid => Outcome::ChallengeInvalid { note },
        OutcomeKind::OrderProcessing => Outcome::OrderProcessing { retry_after: at },
        OutcomeKind::CertificateIssued => Outcome::CertificateIssued,
        OutcomeKind::OrderGone => Outcome::OrderGone { note },
        OutcomeKind::DeploymentSeen => Outcome::DeploymentSeen,
        OutcomeKind::DeploymentPending => Outcome::DeploymentPending { note },
        OutcomeKind::DeploymentRefused => Outcome::DeploymentRefused { note },
        OutcomeKind::RenewalLater => {
            Outcome::RenewalLater { look_at: at.unwrap_or(Timestamp::from_seconds(0)) }
        }
        OutcomeKind::RenewalPlanned => {
            Outcome::RenewalPlanned { look_at: at.unwrap_or(Timestamp::from_seconds(0)), note }
        }
        OutcomeKind::RenewalNeeded => Outcome::RenewalNeeded,
        OutcomeKind::CertificateDamaged => Outcome::CertificateDamaged { note },
        OutcomeKind::TimeToRetry => Outcome::TimeToRetry,
        OutcomeKind::Trouble => Outcome::Trouble { note },
        OutcomeKind::Hopeless => Outcome::Hopeless { note },
    }
}

/// Moves the domain as a commit would.
pub(crate) fn apply(domain: &mut Domain, transition: &holdfast_model::Transition) {
    domain.state = transition.state;
    domain.attempt = transition.attempt;
    domain.entered_at = transition.entered_at;
    domain.next_attempt_at = transition.next_attempt_at;
    domain.queued_at = transition.queued_at;
    domain.failures = transition.failures;
    domain.failing_since = transition.failing_since;
    domain.last_error.clone_from(&transition.last_error);
    domain.order_open &= !transition.order_ends;
    domain.wanted = None;
}
