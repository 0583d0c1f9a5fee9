//! A domain that waits because the CA refuses it for now. Others go on.

use super::failure::{advice, remedy};
use super::{Answer, Who, at, working};
use crate::{Domain, Facts, Note, WaitFacts, WaitScope, url_in};

/// In the middle of an order: what the CA said last, to this domain or to any.
pub(super) fn at_the_ca(domain: &Domain, facts: &Facts) -> Answer {
    let ca = facts.ca.as_ref();
    let own = domain.last_error.as_ref().filter(is_the_cas);
    let Some(note) = own.or(ca.map(|ca| &ca.note)) else { return working(domain) };
    let since = ca.map_or_else(String::new, |ca| format!(" (failing since {})", ca.since));
    let said = note.detail.trim_end_matches('.');
    let summary = format!(
        "{} is in {} and waits for the CA{since}: {said}. No attempt is lost to the CA's own trouble.",
        domain.name, domain.state
    );
    let (who, remedy) = remedy(note);
    let fix = match who {
        Who::Ca => format!("Nothing: it goes on by itself{}. {remedy}", at(domain)),
        _ => remedy,
    };
    Answer::new(who, &note.code, summary, fix)
}

/// The CA refuses this name for now. Others go on.
pub(super) fn deferred(domain: &Domain, wait: &WaitFacts) -> Answer {
    let (who, cause, what) = match wait.scope {
        WaitScope::RegisteredDomain => (
            Who::Ca,
            "ca-limits-registered-domain",
            format!("the CA takes no orders for names below {}", wait.key),
        ),
        WaitScope::ExactSet => (
            Who::Ca,
            "ca-limits-exact-set",
            "the CA makes no more certificates for this very name".to_owned(),
        ),
        WaitScope::PausedName => (
            Who::Operator,
            "ca-paused-name",
            "the CA has paused this name for our account".to_owned(),
        ),
        WaitScope::Name | WaitScope::Account | WaitScope::Server => {
            (Who::Ca, "ca-limits-name", "the CA takes no orders for this name".to_owned())
        }
        WaitScope::Unknown => (
            Who::Ca,
            "ca-refuses-for-now",
            "the CA refuses an order for this name for now".to_owned(),
        ),
    };
    let fix = match (wait.scope, url_in(&wait.words)) {
        (WaitScope::PausedName, Some(url)) => format!(
            "Mend what made its validations fail, unpause the name at {url}, then `holdfast domain retry {}`.",
            domain.name
        ),
        (WaitScope::PausedName, None) => format!(
            "Mend what made its validations fail, unpause the name at the CA, then `holdfast domain retry {}`.",
            domain.name
        ),
        _ => format!(
            "Nothing: it is asked for again by itself; `holdfast domain retry {}` asks at once.",
            domain.name
        ),
    };
    let summary = format!(
        "{} waits until {}: {what} ({}). It has left the queue and joins it again then. No attempt is lost.",
        domain.name, wait.until, wait.words
    );
    Answer { next_attempt_at: Some(wait.until), ..Answer::new(who, cause, summary, fix) }
}

/// Out of the queue, and what for is not known to who asks: as its row tells it.
pub(super) fn waiting(domain: &Domain) -> Answer {
    match (&domain.last_error, domain.queued_at, domain.next_attempt_at) {
        (Some(note), None, Some(until)) if is_the_cas(&note) => {
            let (who, fix) = advice(&note.code);
            let said = note.detail.trim_end_matches('.');
            let summary = format!(
                "{} waits until {until} to be ordered: {said}. No attempt is lost.",
                domain.name
            );
            Answer::new(who, &note.code, summary, fix)
        }
        _ => working(domain),
    }
}

/// Did the CA ask for a wait, or fail? A cause of an earlier phase says nothing of what is waited for now.
fn is_the_cas(note: &&Note) -> bool {
    note.is_of_the_ca() || note.code == "acme-paused"
}
