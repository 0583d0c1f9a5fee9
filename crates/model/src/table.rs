//! The table: what each outcome leads to from each state. `decide` reads it, the snapshot prints it and
//! the documentation draws it, so the three cannot part.

use std::fmt::Write as _;

use crate::{OutcomeKind, State};

/// What the table says of one outcome in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Through these states, one history row each; the last one has work of its own.
    Go(&'static [State]),
    /// Try again in place within the state's limits; then there.
    Retry(State),
    /// Stay and look again; costs no attempt and writes no history.
    Wait,
    /// Leave the queue for orders, and join it again then; costs no attempt and writes no history.
    Defer,
    /// Stay and ask again then, at no cost; what must wait for longer than an order may be held open for it waits there.
    Park(State),
    /// Stay under slow watch within the state's limits; then there.
    Watch(State),
    /// Stay while the CA is away, at no cost to the state's limits; there only after the outage's own limit.
    Outage(State),
    /// The phase failed: there, until the ladder's next rung.
    Fail(State),
    /// From a failure state back to where its phase can resume.
    Resume,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// In this state,
    pub from: State,
    /// this outcome
    pub on: OutcomeKind,
    /// leads there.
    pub rule: Rule,
}

const fn row(from: State, on: OutcomeKind, rule: Rule) -> Row {
    Row { from, on, rule }
}

use OutcomeKind as On;
use Rule::{Defer, Fail, Go, Outage, Park, Resume, Retry, Wait, Watch};
use State as S;

const TO_RENEWAL: &[State] = &[S::RenewalDue, S::Renewing, S::AcmeOrdering];
const TO_ORDER: &[State] = &[S::DnsVerified, S::AcmeOrdering];

/// All lines. What stands in none of them is a fault of ours and fails the state's phase.
pub const TABLE: &[Row] = &[
    row(S::Initial, On::Accepted, Go(&[S::DnsVerifying])),
    row(S::Initial, On::Imported, Go(&[S::CertificateDownloaded, S::CertificateDeploying])),
    row(S::Initial, On::Hopeless, Fail(S::Failed)),
    row(S::DnsVerifying, On::DnsPointed, Go(TO_ORDER)),
    row(S::DnsVerifying, On::DnsNotPointed, Retry(S::DnsVerificationFailed)),
    row(S::DnsVerifying, On::DnsSilent, Wait),
    row(S::DnsVerifying, On::Trouble, Retry(S::DnsVerificationFailed)),
    row(S::DnsVerifying, On::Hopeless, Fail(S::Failed)),
    row(S::DnsVerified, On::Accepted, Go(&[S::AcmeOrdering])),
    row(
        S::DnsVerificationFailed,
        On::DnsPointed,
        Go(&[S::DnsVerifying, S::DnsVerified, S::AcmeOrdering]),
    ),
    row(S::DnsVerificationFailed, On::DnsNotPointed, Watch(S::Failed)),
    row(S::DnsVerificationFailed, On::DnsSilent, Wait),
    row(S::DnsVerificationFailed, On::Trouble, Watch(S::Failed)),
    row(S::DnsVerificationFailed, On::TimeToRetry, Resume),
    row(S::AcmeOrdering, On::OrderCreated, Go(&[S::AcmeOrderCreated, S::AcmeChallengePreparing])),
    row(S::AcmeOrdering, On::CaWaits, Wait),
    row(S::AcmeOrdering, On::Deferred, Defer),
    row(S::AcmeOrdering, On::OrderAbandoned, Wait),
    row(S::AcmeOrdering, On::Trouble, Fail(S::AcmeOrderFailed)),
    row(S::AcmeOrdering, On::Hopeless, Fail(S::Failed)),
    row(S::AcmeOrderCreated, On::Accepted, Go(&[S::AcmeChallengePreparing])),
    row(S::AcmeOrderCreated, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::AcmeOrderFailed, On::TimeToRetry, Resume),
    row(S::AcmeChallengePreparing, On::ChallengeReady, Go(&[S::AcmeChallengePrepared])),
    row(
        S::AcmeChallengePreparing,
        On::AlreadyAuthorized,
        Go(&[
            S::AcmeChallengePrepared,
            S::AcmeChallengeValidating,
            S::AcmeChallengeValidated,
            S::CertificateDownloading,
        ]),
    ),
    row(S::AcmeChallengePreparing, On::CaUnavailable, Outage(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePreparing, On::OrderGone, Fail(S::AcmeOrderFailed)),
    row(S::AcmeChallengePreparing, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::AcmeChallengePreparing, On::ChallengeInvalid, Fail(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePreparing, On::Deferred, Park(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePreparing, On::Trouble, Fail(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePreparing, On::Hopeless, Fail(S::Failed)),
    row(S::AcmeChallengePrepared, On::ChallengeAccepted, Go(&[S::AcmeChallengeValidating])),
    row(S::AcmeChallengePrepared, On::CaUnavailable, Outage(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePrepared, On::OrderGone, Fail(S::AcmeOrderFailed)),
    row(S::AcmeChallengePrepared, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::AcmeChallengePrepared, On::ChallengeInvalid, Fail(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePrepared, On::Deferred, Park(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePrepared, On::Trouble, Fail(S::AcmeChallengeFailed)),
    row(S::AcmeChallengePrepared, On::Hopeless, Fail(S::Failed)),
    row(
        S::AcmeChallengeValidating,
        On::ChallengeValid,
        Go(&[S::AcmeChallengeValidated, S::CertificateDownloading]),
    ),
    row(S::AcmeChallengeValidating, On::ChallengePending, Retry(S::AcmeChallengeFailed)),
    row(S::AcmeChallengeValidating, On::ChallengeInvalid, Fail(S::AcmeChallengeFailed)),
    row(S::AcmeChallengeValidating, On::CaUnavailable, Outage(S::AcmeChallengeFailed)),
    row(S::AcmeChallengeValidating, On::OrderGone, Fail(S::AcmeOrderFailed)),
    row(S::AcmeChallengeValidating, On::Deferred, Park(S::AcmeChallengeFailed)),
    row(S::AcmeChallengeValidating, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::AcmeChallengeValidating, On::Trouble, Retry(S::AcmeChallengeFailed)),
    row(S::AcmeChallengeValidating, On::Hopeless, Fail(S::Failed)),
    row(S::AcmeChallengeValidated, On::Accepted, Go(&[S::CertificateDownloading])),
    row(S::AcmeChallengeValidated, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::AcmeChallengeFailed, On::TimeToRetry, Resume),
    row(S::AcmeChallengeFailed, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(
        S::CertificateDownloading,
        On::CertificateIssued,
        Go(&[S::CertificateDownloaded, S::CertificateDeploying]),
    ),
    row(S::CertificateDownloading, On::OrderProcessing, Retry(S::CertificateDownloadFailed)),
    row(S::CertificateDownloading, On::CaUnavailable, Outage(S::CertificateDownloadFailed)),
    row(S::CertificateDownloading, On::OrderGone, Fail(S::AcmeOrderFailed)),
    row(S::CertificateDownloading, On::Deferred, Park(S::CertificateDownloadFailed)),
    row(S::CertificateDownloading, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::CertificateDownloading, On::Trouble, Fail(S::CertificateDownloadFailed)),
    row(S::CertificateDownloading, On::Hopeless, Fail(S::Failed)),
    row(S::CertificateDownloaded, On::Accepted, Go(&[S::CertificateDeploying])),
    row(S::CertificateDownloadFailed, On::TimeToRetry, Resume),
    row(S::CertificateDownloadFailed, On::OrderAbandoned, Go(&[S::AcmeOrdering])),
    row(S::CertificateDeploying, On::DeploymentSeen, Go(&[S::CertificateDeployed, S::Active])),
    row(S::CertificateDeploying, On::DeploymentPending, Wait),
    row(S::CertificateDeploying, On::DeploymentRefused, Fail(S::CertificateDeploymentFailed)),
    row(S::CertificateDeploying, On::CertificateDamaged, Go(TO_RENEWAL)),
    row(S::CertificateDeploying, On::RenewalNeeded, Go(TO_RENEWAL)),
    row(S::CertificateDeploying, On::Trouble, Fail(S::CertificateDeploymentFailed)),
    row(S::CertificateDeploying, On::Hopeless, Fail(S::Failed)),
    row(S::CertificateDeployed, On::Accepted, Go(&[S::Active])),
    row(S::CertificateDeploymentFailed, On::TimeToRetry, Resume),
    row(S::CertificateDeploymentFailed, On::RenewalNeeded, Go(TO_RENEWAL)),
    row(
        S::CertificateDeploymentFailed,
        On::DeploymentSeen,
        Go(&[S::CertificateDeploying, S::CertificateDeployed, S::Active]),
    ),
    row(S::Active, On::RenewalLater, Wait),
    row(S::Active, On::RenewalPlanned, Wait),
    row(S::Active, On::Trouble, Wait),
    row(S::Active, On::RenewalNeeded, Go(TO_RENEWAL)),
    row(S::Active, On::CertificateDamaged, Go(TO_RENEWAL)),
    row(S::Failed, On::TimeToRetry, Resume),
    row(S::RenewalDue, On::Accepted, Go(&[S::Renewing, S::AcmeOrdering])),
    row(S::Renewing, On::Accepted, Go(&[S::AcmeOrdering])),
];

/// The table's line for this outcome in this state.
#[must_use]
pub fn rule(from: State, on: OutcomeKind) -> Option<Rule> {
    TABLE.iter().find(|row| row.from == from && row.on == on).map(|row| row.rule)
}

/// Where a failed phase may resume, depending on what is left of it.
#[must_use]
pub(crate) const fn resumptions(from: State) -> &'static [State] {
    match from {
        S::DnsVerificationFailed => &[S::DnsVerifying],
        S::AcmeOrderFailed => &[S::AcmeOrdering],
        S::AcmeChallengeFailed => &[S::AcmeOrdering, S::AcmeChallengePreparing],
        S::CertificateDownloadFailed => &[S::CertificateDownloading, S::AcmeOrdering],
        S::CertificateDeploymentFailed => &[S::CertificateDeploying],
        S::Failed => &[S::DnsVerifying, S::RenewalDue],
        _ => &[],
    }
}

/// Every step the table allows, each once, in the table's order.
#[must_use]
pub(crate) fn steps() -> Vec<(State, State)> {
    let mut steps = Vec::new();
    let mut push = |step| {
        if !steps.contains(&step) {
            steps.push(step);
        }
    };
    for row in TABLE {
        match row.rule {
            Go(path) => {
                let froms = std::iter::once(row.from).chain(path.iter().copied());
                froms.zip(path.iter().copied()).for_each(&mut push);
            }
            Retry(to) | Watch(to) => {
                [(row.from, row.from), (row.from, to)].into_iter().for_each(&mut push);
            }
            Fail(to) | Park(to) | Outage(to) => push((row.from, to)),
            Resume => resumptions(row.from).iter().for_each(|&to| push((row.from, to))),
            Wait | Defer => {}
        }
        if resumptions(row.from).contains(&S::RenewalDue) {
            [(S::RenewalDue, S::Renewing), (S::Renewing, S::AcmeOrdering)]
                .into_iter()
                .for_each(&mut push);
        }
    }
    for &from in State::ALL {
        // Given up: any failing state may end, and nothing else ends here.
        if from.is_phase_failure() {
            push((from, S::Failed));
        }
    }
    steps
}

/// The table as a Mermaid state diagram.
#[must_use]
pub fn mermaid() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> Initial\n");
    for (from, to) in steps() {
        let _ = writeln!(text, "    {from} --> {to}");
    }
    text
}
