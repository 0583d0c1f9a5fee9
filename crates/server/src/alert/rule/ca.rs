//! The rules about the CA: what keeps it from giving orders, and to whom.

use std::time::Duration;

use holdfast_model::{Note, Timestamp, WaitScope, url_in};
use holdfast_store::{Account, CaWait, Halt, Terms};

use super::super::{Alert, SHOWN, Severity};
use crate::{facts::is_asked, view::ca_host};

/// A CA may be away for this long.
const CA_FAILING: Duration = Duration::from_secs(60);

/// The CA gives no orders, or nobody here can reach it: told once it has lasted.
pub(in crate::alert) fn ca_fails(account: &Account, now: Timestamp) -> Option<Alert> {
    let since = account.failing_since.filter(|since| now.since(*since) >= CA_FAILING)?;
    let note = Note::parse(account.failure.as_deref().unwrap_or_default());
    let (code, fix) = match note.is_of_the_ca() {
        true => (
            "ca-unreachable",
            "See the CA's status page, and that the replica named may reach the CA; domains wait without losing a try, and go on by themselves.",
        ),
        false => (
            "ca-refusing",
            "Mend what the replica named says, mostly in [acme]; `holdfast doctor` says more. Domains go on by themselves.",
        ),
    };
    Some(Alert {
        code,
        severity: Severity::Critical,
        subject: account.directory.clone(),
        detail: format!("The CA has failed since {since}: {}", note.detail),
        fix: fix.to_owned(),
        domains: Vec::new(),
    })
}

/// Terms that took the place of others that had been agreed to.
pub(in crate::alert) fn other_terms(terms: &Terms, now: Timestamp) -> Option<Alert> {
    let before = terms.newly_replaced(now)?;
    Some(Alert {
        code: "ca-terms-changed",
        severity: Severity::Warning,
        subject: terms.directory.clone(),
        detail: format!(
            "The CA has had other terms of service since {}: {} instead of {before}, which were agreed to.",
            terms.seen_at, terms.url
        ),
        fix: "Read them. `agree_terms = true` in [acme] agrees to them too; this alert ends after 30 days."
            .to_owned(),
        domains: Vec::new(),
    })
}

pub(in crate::alert) fn paused(account: &Account, now: Timestamp) -> Option<Alert> {
    if let Some(why) = &account.unusable {
        return Some(unusable(account, why));
    }
    if let Some(halt) = &account.halt {
        return Some(halted(account, halt));
    }
    let until = account.paused_until.filter(|until| *until > now)?;
    let reason = account.pause_reason.as_deref().unwrap_or("no reason was given");
    // What only a person can mend stops every order until then.
    let severity = if is_asked(reason) { Severity::Warning } else { Severity::Critical };
    Some(Alert {
        code: "ca-paused",
        severity,
        subject: account.directory.clone(),
        detail: told(until, reason),
        fix: match is_asked(reason) {
            true => "Nothing: orders go on by themselves. Ask the CA for a higher limit, or look at its status page, if it lasts.",
            false => "Do what the CA's words say, then `holdfast ca resume NAME`; `holdfast domain explain` of a name that waits for an order tells who must act and how.",
        }
        .to_owned(),
        domains: Vec::new(),
    })
}

/// Only a person can end it, at the CA.
pub(in crate::alert) fn paused_names(account: &Account, waits: &[CaWait]) -> Option<Alert> {
    let paused = of_scope(waits, WaitScope::PausedName);
    let first = paused.first()?;
    let at =
        url_in(&first.reason).map_or_else(|| "at the CA".to_owned(), |url| format!("at {url}"));
    Some(Alert {
        code: "ca-name-paused",
        severity: Severity::Warning,
        subject: account.directory.clone(),
        detail: format!(
            "The CA has paused names after too many failed validations, {} among them; they get no certificate until somebody unpauses them.",
            first.key
        ),
        fix: format!(
            "Mend or remove these names, unpause them {at}, then `holdfast domain retry NAME`."
        ),
        domains: keys(&paused),
    })
}

pub(in crate::alert) fn limited_domains(account: &Account, waits: &[CaWait]) -> Option<Alert> {
    let limited = of_scope(waits, WaitScope::RegisteredDomain);
    let first = limited.first()?;
    Some(Alert {
        code: "ca-domain-limited",
        severity: Severity::Warning,
        subject: account.directory.clone(),
        detail: format!(
            "The CA makes no certificates for names below {} for now; other names go on.",
            first.key
        ),
        fix:
            "Nothing: they are ordered as the CA allows. Ask the CA for a higher limit if it lasts."
                .to_owned(),
        domains: keys(&limited),
    })
}

fn of_scope(waits: &[CaWait], scope: WaitScope) -> Vec<&CaWait> {
    waits.iter().filter(|wait| wait.scope == scope).collect()
}

fn keys(waits: &[&CaWait]) -> Vec<String> {
    waits.iter().take(SHOWN as usize).map(|wait| wait.key.clone()).collect()
}

fn told(until: Timestamp, reason: &str) -> String {
    match reason.split_once(": ").filter(|_| !is_asked(reason)) {
        Some((code, words)) => {
            format!("Nothing is ordered until {until}, because of {code}: {words}")
        }
        None => format!("The CA asked to be left alone until {until}: {reason}"),
    }
}

/// Somebody wanted it, and perhaps forgot it.
fn halted(account: &Account, Halt { since, until, by }: &Halt) -> Alert {
    let until = until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {at}"));
    let name = ca_host(&account.directory);
    Alert {
        code: "ca-paused",
        severity: Severity::Warning,
        subject: account.directory.clone(),
        detail: format!("{by} paused {name} by hand at {since}: nothing is ordered {until}."),
        fix: format!("Run `holdfast ca resume {name}`; orders go on at once then."),
        domains: Vec::new(),
    }
}

/// Nothing is ordered for anybody, and waiting mends nothing.
fn unusable(account: &Account, why: &str) -> Alert {
    Alert {
        code: "ca-account-unusable",
        severity: Severity::Critical,
        subject: account.directory.clone(),
        detail: format!("No certificate is ordered or renewed: {why}."),
        fix: "Run `holdfast ca register` to make another account; orders go on by themselves then."
            .to_owned(),
        domains: Vec::new(),
    }
}
