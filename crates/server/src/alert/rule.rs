//! The rules, one for each thing that can be wrong.

mod ca;

use std::time::Duration;

use holdfast_model::{ClockStep, Domain, State};
use holdfast_store::{COUNTED, Edge, Ending, LateIssues, OpenTransaction, PROXY_DOWN, Webhook};

pub(super) use self::ca::{ca_fails, limited_domains, other_terms, paused, paused_names};
use super::{Alert, Facts, SHOWN, Severity};
use crate::database::{LARGE_LOG_FIX, Trouble, large_log as large_log_of};

/// A state needs so many domains before a rate means anything.
const FEWEST: usize = 10;

/// From this try on a domain counts as retrying.
const MANY_TRIES: u32 = 3;

/// A change of leader takes about a lease; longer is trouble.
const LEADERLESS: Duration = Duration::from_secs(60);

/// Transactions of others may be open for this long.
const UNREAD: Duration = Duration::from_secs(60);

/// An edge may be busy for this long.
const BEHIND: Duration = Duration::from_secs(5 * 60);

/// A receiver may be down for this long.
const UNDELIVERED: Duration = Duration::from_secs(15 * 60);

pub(super) fn database(trouble: &Trouble) -> Alert {
    Alert {
        code: "database-unavailable",
        severity: Severity::Critical,
        subject: trouble.code().to_owned(),
        detail: format!("Nothing is issued, renewed or stored: {}.", trouble.detail),
        fix: trouble.fix().to_owned(),
        domains: Vec::new(),
    }
}

pub(super) fn large_log(bytes: u64) -> Option<Alert> {
    Some(Alert {
        code: "database-log",
        severity: Severity::Warning,
        subject: "database".to_owned(),
        detail: format!("{}.", large_log_of(bytes)?),
        fix: LARGE_LOG_FIX.to_owned(),
        domains: Vec::new(),
    })
}

pub(super) fn leaderless(facts: &Facts<'_>) -> Option<Alert> {
    facts.leaderless.filter(|lasted| *lasted > LEADERLESS)?;
    Some(Alert {
        code: "no-leader",
        severity: Severity::Critical,
        subject: "leadership".to_owned(),
        // Not how long, which changes at every look.
        detail: format!("No replica has led for over {} s.", LEADERLESS.as_secs()),
        fix: "See `holdfast lease list` and `holdfast replica list`; `holdfast doctor` finds what keeps them from it.".to_owned(),
        domains: Vec::new(),
    })
}

/// The event log stands still for its readers while an older transaction is open anywhere on the server.
pub(super) fn log_behind(facts: &Facts<'_>) -> Option<Alert> {
    let since = facts.lag.unread_since.filter(|since| facts.now.since(*since) > UNREAD)?;
    let holders: Vec<_> = facts.lag.held_by.iter().map(ToString::to_string).collect();
    let cause = match holders.is_empty() {
        true => "Which transaction of the server holds it back could not be seen.".to_owned(),
        false => format!("It is held back by {}.", holders.join("; by ")),
    };
    let remedy = facts.lag.held_by.first().map(OpenTransaction::remedy);
    Some(Alert {
        code: "event-log-behind",
        severity: Severity::Critical,
        subject: "event log".to_owned(),
        detail: format!(
            "Webhooks, the event stream and the counts have stood still since {since}. {cause}"
        ),
        fix: remedy.unwrap_or_else(|| {
            "Look at pg_stat_activity and pg_prepared_xacts for the oldest transaction.".to_owned()
        }),
        domains: Vec::new(),
    })
}

pub(super) fn hindered(why: &str) -> Alert {
    Alert {
        code: "database-hindered",
        severity: Severity::Critical,
        subject: "database".to_owned(),
        detail: format!("Other users of the database keep this replica from working: {why}."),
        fix: "End what is named, or make the room that is missing; work goes on by itself."
            .to_owned(),
        domains: Vec::new(),
    }
}

pub(super) fn clock_stepped(step: &ClockStep) -> Alert {
    let direction = if step.ahead { "ahead" } else { "back" };
    Alert {
        code: "clock-stepped",
        severity: Severity::Warning,
        subject: "database".to_owned(),
        detail: format!(
            "The database's clock stepped {direction} by {} s: it should have said {} and said {}.",
            step.by.as_secs(),
            step.from,
            step.to
        ),
        fix: "Keep the clock of the database's machine on time with a service that slews it (chrony, NTP). What waited for a wrong \
              moment is brought back by itself, and this alert ends ten minutes after the last step."
            .to_owned(),
        domains: Vec::new(),
    }
}

pub(super) fn clock_differs((ahead, by): (bool, Duration)) -> Alert {
    let direction = if ahead { "ahead of" } else { "behind" };
    Alert {
        code: "clock-differs",
        severity: Severity::Warning,
        subject: "database".to_owned(),
        detail: format!(
            "The database's clock is about {} h {direction} this replica's.",
            by.as_secs() / 3600
        ),
        fix: "Set the wrong one right, and keep both on time (chrony, NTP). Nothing is deleted because of its age meanwhile."
            .to_owned(),
        domains: Vec::new(),
    }
}

pub(super) fn stuck(state: State, late: &[Domain]) -> Option<Alert> {
    if late.is_empty() {
        return None;
    }
    Some(Alert {
        code: "stuck",
        severity: Severity::Critical,
        subject: state.to_string(),
        detail: format!("{} domains are in {state} for longer than it takes.", late.len()),
        fix: "See `holdfast domain explain NAME` for one of them, and whether workers run."
            .to_owned(),
        domains: names(late.iter()),
    })
}

fn names<'a>(domains: impl Iterator<Item = &'a Domain>) -> Vec<String> {
    domains.take(SHOWN as usize).map(|domain| domain.name.to_string()).collect()
}

pub(super) fn retrying(state: State, sample: &[Domain]) -> Option<Alert> {
    let tried = |domain: &&Domain| domain.attempt >= MANY_TRIES;
    let retrying = sample.iter().filter(tried).count();
    // Validation is polled, so tries are the rule there.
    let polled = state == State::AcmeChallengeValidating;
    if polled || sample.len() < FEWEST || retrying * 2 <= sample.len() {
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
        domains: names(sample.iter().filter(tried)),
    })
}

pub(super) fn failing(counts: &[(State, u64)]) -> Option<Alert> {
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

pub(super) fn ending(facts: &Facts<'_>) -> Option<Alert> {
    let Ending { count, some } = facts.ending;
    let first = some.first()?;
    let over = first.not_after <= facts.now;
    let (severity, word) =
        if over { (Severity::Critical, "ended") } else { (Severity::Warning, "ends") };
    let told = match *count {
        1 => "1 certificate is near its end and was".to_owned(),
        count if count < u64::from(COUNTED) => {
            format!("{count} certificates are near their end and were")
        }
        count => format!("{count} or more certificates are near their end and were"),
    };
    Some(Alert {
        code: "certificate-expiring",
        severity,
        subject: "certificates".to_owned(),
        detail: format!(
            "{told} not renewed; that of {} {word} at {}.",
            first.name, first.not_after
        ),
        fix: "See `holdfast domain explain NAME` for one of them: it says what keeps the next certificate away."
            .to_owned(),
        domains: some.iter().map(|one| one.name.to_string()).collect(),
    })
}

/// One of the clocks is wrong, or the CA gives out what it made long ago. Each such certificate is due for renewal sooner than it
/// should be, and is used for a tenth of its life all the same.
pub(super) fn late(facts: &Facts<'_>) -> Option<Alert> {
    let LateIssues { count, some } = facts.late;
    let latest = some.first()?;
    let more = if *count < u64::from(COUNTED) { "" } else { " or more" };
    let ours = facts.clock_off_by.is_some() || facts.clock_step.is_some();
    let fix = match ours {
        true => {
            "The database's clock is wrong, or was lately: set it right, then `holdfast domain renew NAME`."
        }
        false => {
            "Compare the CA's clock with the database's; if both are right, the CA backdates its certificates, or signs them with an \
             intermediate that ends before they do: ask it, or use another CA."
        }
    };
    Some(Alert {
        code: "certificate-late",
        severity: Severity::Warning,
        subject: "certificates".to_owned(),
        detail: format!(
            "{count}{more} certificates had more than a third of their life behind them when they came; that of {}, valid from {} \
             to {}, came at {}.",
            latest.name, latest.not_before, latest.not_after, latest.stored_at
        ),
        fix: fix.to_owned(),
        domains: some.iter().map(|one| one.name.to_string()).collect(),
    })
}

/// Several things can be wrong with one edge; one that is silent says nothing of the others.
pub(super) fn edge(facts: &Facts<'_>, edge: &Edge) -> Vec<Alert> {
    let name = &edge.name;
    let alert = |code, severity, detail: String, fix: String| Alert {
        code,
        severity,
        subject: name.clone(),
        detail,
        fix,
        domains: Vec::new(),
    };
    let log = format!("Look at the agent's log of `{name}`; it is tried again by itself.");
    if !edge.live && facts.trouble.is_some() {
        // It may well report; that cannot be stored.
        return Vec::new();
    }
    if !edge.live {
        let detail = format!("Edge `{name}` last reported at {}.", edge.last_seen_at);
        let fix = format!(
            "Look whether its agent runs and reaches a replica; if it is gone for good, `holdfast edge remove {name}`."
        );
        return vec![alert("edge-stale", Severity::Critical, detail, fix)];
    }
    let mut alerts = Vec::new();
    let since = facts.behind.iter().find(|(of, _)| of == name).map(|(_, since)| *since);
    if since.is_some_and(|since| facts.now.since(since) > BEHIND) {
        let detail = format!(
            "Edge `{name}` is live and has not applied what is {} minutes old.",
            BEHIND.as_secs() / 60
        );
        alerts.push(alert("edge-behind", Severity::Warning, detail, log.clone()));
    }
    if let Some(note) = &edge.last_error {
        // Its visitors get nothing.
        let is_down = note.code == PROXY_DOWN;
        let severity = if is_down { Severity::Critical } else { Severity::Warning };
        let detail = format!("Edge `{name}` says: {}", note.detail);
        alerts.push(alert("edge-error", severity, detail, log));
    }
    // One that only looks refuses everything, as it was told to.
    if edge.refusals > 0 && edge.agent.mode.as_deref() != Some("observe") {
        let detail = format!("{} names are not served as desired at edge `{name}`.", edge.refusals);
        let fix = format!(
            "`holdfast edge show {name}` says why of each; they are tried again by themselves."
        );
        alerts.push(alert("edge-refusing", Severity::Warning, detail, fix));
    }
    if edge.shadows > 0 {
        let detail = format!(
            "{} files at edge `{name}` that are none of ours serve names of ours.",
            edge.shadows
        );
        let fix =
            format!("`holdfast edge show {name}` lists them; remove them there, or adopt them.");
        alerts.push(alert("edge-shadowed", Severity::Warning, detail, fix));
    }
    alerts
}

pub(super) fn webhook(facts: &Facts<'_>, webhook: &Webhook) -> Option<Alert> {
    let since = webhook.open_since.filter(|since| facts.now.since(*since) > UNDELIVERED)?;
    let id = webhook.id.0.to_string();
    Some(Alert {
        code: "webhook-failing",
        severity: Severity::Warning,
        detail: format!("{} has not taken what was to be told it since {since}.", webhook.url),
        fix: format!(
            "`holdfast webhook show {id}` says what it answered; it is tried for three days."
        ),
        subject: id,
        domains: Vec::new(),
    })
}
