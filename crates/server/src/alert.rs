//! What deserves a person's attention, decided from facts. Pure: whoever asks brings the facts ([`gather`]).

pub(crate) mod gather;
mod rule;

use std::time::Duration;

use holdfast_model::{ClockStep, Domain, Phase, Policy, State, Timestamp};
use holdfast_store::{Account, CaWait, Edge, Ending, EventLag, LateIssues, Terms, Webhook};
use serde::Serialize;
use utoipa::ToSchema;

use crate::database::Trouble;

/// Longest sensible stay in a working state that has no limit of its own.
const WORKING: Duration = Duration::from_secs(15 * 60);

/// A worker ends a state at its next try, not at the second.
const SLACK: Duration = Duration::from_secs(60);

/// Names shown with an alert.
const SHOWN: u32 = 10;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Alert {
    /// Stable: `database-unavailable`, `database-hindered`, `database-log`, `stuck`, `high-retry-rate`, `many-failures`, `certificate-expiring`, `certificate-late`, `no-leader`, `edge-stale`, `edge-behind`, `edge-error`,
    /// `edge-refusing`, `edge-shadowed`, `webhook-failing`, `ca-paused`, `ca-account-unusable`, `ca-name-paused`, `ca-domain-limited`, `ca-unreachable`, `ca-refusing`, `ca-terms-changed`,
    /// `event-log-behind`, `clock-stepped`, `clock-differs`.
    pub(crate) code: &'static str,
    /// How soon somebody should look.
    pub(crate) severity: Severity,
    /// A state, an edge, a webhook, a directory, the event log.
    pub(crate) subject: String,
    /// What is wrong, in a sentence.
    pub(crate) detail: String,
    /// What to do, in a sentence.
    pub(crate) fix: String,
    /// Some of the names concerned.
    pub(crate) domains: Vec<String>,
}

/// What alerts are decided from.
pub(crate) struct Facts<'a> {
    pub(crate) now: Timestamp,
    pub(crate) counts: &'a [(State, u64)],
    /// Those who stayed in a state longer than its [`limit`].
    pub(crate) staying: &'a [(State, Vec<Domain>)],
    /// Some domains of each state that is [`watched`].
    pub(crate) samples: &'a [(State, Vec<Domain>)],
    /// Those that were not renewed in time.
    pub(crate) ending: &'a Ending,
    /// Those that were old when they came.
    pub(crate) late: &'a LateIssues,
    pub(crate) edges: &'a [Edge],
    /// By edge, since when there is something that it has not applied.
    pub(crate) behind: &'a [(String, Timestamp)],
    pub(crate) webhooks: &'a [Webhook],
    pub(crate) account: Option<&'a Account>,
    /// Names that the CA has paused, and registered domains for which it makes no certificates for now; some of each.
    pub(crate) waits: &'a [CaWait],
    pub(crate) terms: Option<&'a Terms>,
    pub(crate) lag: &'a EventLag,
    /// Why requests fail or wait because of others who use the database.
    pub(crate) hindered: Option<String>,
    /// The latest step of the store's clock, as long as it is news.
    pub(crate) clock_step: Option<ClockStep>,
    /// How far the store's clock is from this machine's, ahead or not, where that is far.
    pub(crate) clock_off_by: Option<(bool, Duration)>,
    /// How long nobody has been known to lead.
    pub(crate) leaderless: Option<Duration>,
    /// How many bytes the log of the database has.
    pub(crate) log_bytes: u64,
    /// Why the database cannot be used: then nothing that edges report can be stored.
    pub(crate) trouble: Option<&'a Trouble>,
}

/// Is this a state that a domain should leave soon, by itself? The queue for orders drains at the CA's pace.
pub(crate) fn watched(state: State) -> bool {
    !state.is_failure() && state.phase() != Phase::Rest && state != State::AcmeOrdering
}

/// Does a domain in this state wait for the CA?
fn is_at_the_ca(state: State) -> bool {
    !state.is_failure() && matches!(state.phase(), Phase::Challenge | Phase::Download)
}

/// How long a domain may stay in a state that is [`watched`].
pub(crate) fn limit(policy: &Policy, state: State) -> Duration {
    policy.limits(state).map_or(WORKING, |limits| limits.within) + SLACK
}

/// The alert that must be told also when nothing can be read.
pub(crate) fn database(trouble: &Trouble) -> Alert {
    rule::database(trouble)
}

/// Decides.
pub(crate) fn alerts(facts: &Facts<'_>) -> Vec<Alert> {
    let mut alerts = Vec::new();
    alerts.extend(facts.trouble.map(database));
    alerts
        .extend(facts.hindered.as_deref().filter(|_| facts.trouble.is_none()).map(rule::hindered));
    alerts.extend(rule::large_log(facts.log_bytes));
    alerts.extend(rule::leaderless(facts));
    alerts.extend(rule::log_behind(facts));
    alerts.extend(facts.clock_step.as_ref().map(rule::clock_stepped));
    alerts.extend(facts.clock_off_by.map(rule::clock_differs));
    // Who waits for a CA that fails is not stuck: that is told as what it is.
    let ca_fails = facts.account.is_some_and(|account| account.failing_since.is_some());
    let told = facts.staying.iter().filter(|(state, _)| !(ca_fails && is_at_the_ca(*state)));
    alerts.extend(told.filter_map(|(state, late)| rule::stuck(*state, late)));
    alerts.extend(facts.samples.iter().filter_map(|(state, some)| rule::retrying(*state, some)));
    alerts.extend(rule::failing(facts.counts));
    alerts.extend(rule::ending(facts));
    alerts.extend(rule::late(facts));
    alerts.extend(facts.edges.iter().flat_map(|edge| rule::edge(facts, edge)));
    alerts.extend(facts.webhooks.iter().filter_map(|webhook| rule::webhook(facts, webhook)));
    alerts.extend(facts.account.and_then(|account| rule::paused(account, facts.now)));
    alerts.extend(facts.account.and_then(|account| rule::paused_names(account, facts.waits)));
    alerts.extend(facts.account.and_then(|account| rule::limited_domains(account, facts.waits)));
    alerts.extend(facts.account.and_then(|account| rule::ca_fails(account, facts.now)));
    alerts.extend(facts.terms.and_then(|terms| rule::other_terms(terms, facts.now)));
    alerts
}

#[cfg(test)]
mod tests;
