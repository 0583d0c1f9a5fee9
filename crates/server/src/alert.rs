//! What deserves a person's attention, decided from samples and counts. Pure: whoever asks brings the facts.

use std::time::Duration;

use holdfast_model::{Domain, Phase, Policy, State, Timestamp};
use holdfast_store::{Account, Edge};
use serde::Serialize;
use utoipa::ToSchema;

/// Longest sensible stay in a working state that has no limit of its own.
const WORKING: Duration = Duration::from_secs(15 * 60);

/// A worker ends a state at its next try, not at the second.
const SLACK: Duration = Duration::from_secs(60);

/// A state needs so many domains before a rate means anything.
const FEWEST: usize = 10;

/// From this try on a domain counts as retrying.
const MANY_TRIES: u32 = 3;

/// Names shown with an alert.
const SHOWN: usize = 10;

/// How soon somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Today.
    Warning,
    /// Now.
    Critical,
}

/// Something that deserves a person's attention.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Alert {
    /// Stable: `stuck`, `high-retry-rate`, `many-failures`, `edge-stale`, `edge-error`, `ca-paused`.
    code: &'static str,
    /// How soon somebody should look.
    severity: Severity,
    /// A state, an edge, a directory.
    subject: String,
    /// What is wrong, in a sentence.
    detail: String,
    /// What to do, in a sentence.
    fix: String,
    /// Some of the names concerned.
    domains: Vec<String>,
}

/// What alerts are decided from.
pub(crate) struct Facts<'a> {
    pub(crate) now: Timestamp,
    pub(crate) policy: &'a Policy,
    pub(crate) counts: &'a [(State, u64)],
    /// Some domains of each state that is [`watched`].
    pub(crate) samples: &'a [(State, Vec<Domain>)],
    pub(crate) edges: &'a [Edge],
    pub(crate) account: Option<&'a Account>,
}

/// Is this a state that a domain should leave soon, by itself? The queue for orders drains at the CA's pace.
pub(crate) fn watched(state: State) -> bool {
    !state.is_failure() && state.phase() != Phase::Rest && state != State::AcmeOrdering
}

/// Decides.
pub(crate) fn alerts(facts: &Facts<'_>) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for (state, sample) in facts.samples {
        alerts.extend(stuck(facts, *state, sample));
        alerts.extend(retrying(*state, sample));
    }
    alerts.extend(failing(facts.counts));
    alerts.extend(facts.edges.iter().filter_map(edge));
    alerts.extend(facts.account.and_then(|account| paused(account, facts.now)));
    alerts
}

fn stuck(facts: &Facts<'_>, state: State, sample: &[Domain]) -> Option<Alert> {
    let limit = facts.policy.limits(state).map_or(WORKING, |limits| limits.within) + SLACK;
    let late: Vec<_> = sample
        .iter()
        .filter(|domain| facts.now.since(domain.entered_at) > limit)
        .map(|domain| domain.name.to_string())
        .collect();
    if late.is_empty() {
        return None;
    }
    let minutes = limit.as_secs() / 60;
    Some(Alert {
        code: "stuck",
        severity: Severity::Critical,
        subject: state.to_string(),
        detail: format!("{} domains are in {state} for over {minutes} minutes.", late.len()),
        fix: "See `holdfast domain explain NAME` for one of them, and whether workers run."
            .to_owned(),
        domains: late.into_iter().take(SHOWN).collect(),
    })
}

fn retrying(state: State, sample: &[Domain]) -> Option<Alert> {
    let tried = |domain: &&Domain| domain.attempt >= MANY_TRIES;
    let retrying = sample.iter().filter(tried).count();
    if sample.len() < FEWEST || retrying * 2 <= sample.len() {
        return None;
    }
    Some(Alert {
        code: "high-retry-rate",
        severity: Severity::Warning,
        subject: state.to_string(),
        detail: format!(
            "{retrying} of {} domains in {state} are at try {MANY_TRIES} or later.",
            sample.len()
        ),
        fix: "See `holdfast domain explain NAME` for one of them: many at once have one cause."
            .to_owned(),
        domains: sample
            .iter()
            .filter(tried)
            .take(SHOWN)
            .map(|domain| domain.name.to_string())
            .collect(),
    })
}

fn failing(counts: &[(State, u64)]) -> Option<Alert> {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let failed: u64 =
        counts.iter().filter(|(state, _)| state.is_failure()).map(|(_, count)| count).sum();
    if failed < FEWEST as u64 || failed.saturating_mul(10) <= all {
        return None;
    }
    Some(Alert {
        code: "many-failures",
        severity: Severity::Warning,
        subject: "domains".to_owned(),
        detail: format!("{failed} of {all} domains are in a failure state."),
        fix: "List them with `holdfast domain list --state STATE`; many at once have one cause."
            .to_owned(),
        domains: Vec::new(),
    })
}

fn edge(edge: &Edge) -> Option<Alert> {
    let (code, severity, detail) = match &edge.last_error {
        _ if !edge.live => (
            "edge-stale",
            Severity::Critical,
            format!("Edge `{}` last reported at {}.", edge.name, edge.last_seen_at),
        ),
        Some(note) => {
            ("edge-error", Severity::Warning, format!("Edge `{}` says: {}", edge.name, note.detail))
        }
        None => return None,
    };
    Some(Alert {
        code,
        severity,
        subject: edge.name.clone(),
        detail,
        fix: format!("Look at the agent's log of `{}`; it is tried again by itself.", edge.name),
        domains: Vec::new(),
    })
}

fn paused(account: &Account, now: Timestamp) -> Option<Alert> {
    let until = account.paused_until.filter(|until| *until > now)?;
    let reason = account.pause_reason.as_deref().unwrap_or("no reason was given");
    Some(Alert {
        code: "ca-paused",
        severity: Severity::Warning,
        subject: account.directory.clone(),
        detail: format!("The CA asked to be left alone until {until}: {reason}"),
        fix:
            "Nothing: the queue drains at the CA's pace. Ask the CA for a higher limit if it lasts."
                .to_owned(),
        domains: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use holdfast_model::{DomainId, Hostname};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn domain(n: u32, state: State, stayed: u64, attempt: u32) -> Domain {
        let now = Timestamp::from_seconds(NOW);
        Domain {
            id: DomainId::new(),
            name: Hostname::parse(&format!("n{n}.example.com")).unwrap(),
            tenant: None,
            resource: n.to_string(),
            target: Hostname::parse("edge.example.net").unwrap(),
            edge_group: "default".into(),
            labels: BTreeMap::new(),
            orchestration_id: n.to_string(),
            state,
            attempt,
            entered_at: now.minus(Duration::from_secs(stayed)),
            next_attempt_at: None,
            queued_at: None,
            failures: 0,
            failing_since: None,
            last_error: None,
            order_open: false,
            certificate: None,
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

    #[track_caller]
    fn check(state: State, sample: Vec<Domain>, counts: &[(State, u64)], expected: &[&str]) {
        let (policy, samples) = (Policy::default(), [(state, sample)]);
        let now = Timestamp::from_seconds(NOW);
        let facts =
            Facts { now, policy: &policy, counts, samples: &samples, edges: &[], account: None };
        let codes: Vec<_> = alerts(&facts).iter().map(|alert| alert.code).collect();
        assert_eq!(codes, expected);
    }

    #[test]
    fn longer_than_the_states_limit_is_stuck() {
        let dns = State::DnsVerifying;
        check(dns, vec![domain(1, dns, 9 * 60, 1)], &[], &[]);
        check(dns, vec![domain(1, dns, 12 * 60, 1)], &[], &["stuck"]);
        let downloading = State::CertificateDownloading;
        check(downloading, vec![domain(1, downloading, 4 * 60, 1)], &[], &["stuck"]);
        let deploying = State::CertificateDeploying;
        check(deploying, vec![domain(1, deploying, 10 * 60, 1)], &[], &[]);
        check(deploying, vec![domain(1, deploying, 20 * 60, 1)], &[], &["stuck"]);
    }

    #[test]
    fn many_that_try_again_and_again_are_told_once_there_are_enough() {
        let dns = State::DnsVerifying;
        let retrying = |count| (0..count).map(|n| domain(n, dns, 1, 3)).collect::<Vec<_>>();
        check(dns, retrying(9), &[], &[]);
        check(dns, retrying(10), &[], &["high-retry-rate"]);
        let half = retrying(5).into_iter().chain((5..10).map(|n| domain(n, dns, 1, 1)));
        check(dns, half.collect(), &[], &[]);
    }

    #[test]
    fn a_tenth_in_failure_is_many() {
        let none = Vec::new;
        check(State::Initial, none(), &[(State::Active, 90), (State::Failed, 10)], &[]);
        let more = [(State::Active, 89), (State::Failed, 6), (State::AcmeOrderFailed, 5)];
        check(State::Initial, none(), &more, &["many-failures"]);
        check(State::Initial, none(), &[(State::Failed, 9)], &[]);
    }

    #[test]
    fn the_queue_rest_and_failures_are_not_watched() {
        assert!(
            !watched(State::AcmeOrdering) && !watched(State::Active) && !watched(State::Failed)
        );
        assert!(
            watched(State::Initial)
                && watched(State::Renewing)
                && watched(State::CertificateDeploying)
        );
    }
}
