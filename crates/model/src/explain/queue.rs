//! A domain that waits for an order.

use super::failure::remedy;
use super::{Answer, QueueFacts, Who, wait, working};
use crate::{Domain, Facts, Note, Timestamp};

pub(super) fn queued(domain: &Domain, facts: &Facts) -> Answer {
    if let Some(held) = &facts.wait {
        return wait::deferred(domain, held);
    }
    let Some(queue) = &facts.queue else { return wait::waiting(domain) };
    match (queue.paused_until, queue.next_slot_at) {
        _ if is_by_hand(queue) => paused(domain, queue),
        (Some(_), _) => paused(domain, queue),
        (None, _) if facts.ca.is_some() => waits_for_the_ca(domain, queue, facts),
        (None, Some(until)) => {
            let why = "the order budget of this CA account is spent";
            let fix = "Nothing: the queue drains at this pace, renewals first. If the CA allows more, raise [acme] max_new_orders_per_3h.";
            in_line(domain, queue, Some(until), Answer::new(Who::Ca, "order-budget", why, fix))
        }
        (None, None) if queue.pause_reason.is_some() => paused(domain, queue),
        (None, None) => working(domain),
    }
}

/// Does a person have to end it, whatever the CA does meanwhile?
fn is_by_hand(queue: &QueueFacts) -> bool {
    let reason = queue.pause_reason.as_deref().unwrap_or_default();
    reason.starts_with("ca-paused: ") || reason.starts_with("acme-account-unusable: ")
}

fn waits_for_the_ca(domain: &Domain, queue: &QueueFacts, facts: &Facts) -> Answer {
    let Some(ca) = &facts.ca else { return working(domain) };
    let (who, remedy) = remedy(&ca.note);
    let why = format!("the CA has failed since {} ({})", ca.since, ca.note.detail);
    let fix = goes_on(who, remedy);
    in_line(domain, queue, ca.next_attempt_at, Answer::new(who, &ca.note.code, why, fix))
}

/// What is to be done while the queue stands still.
fn goes_on(who: Who, remedy: String) -> String {
    match who {
        Who::Ca => format!("Nothing: the queue goes on by itself. {remedy}"),
        _ => remedy,
    }
}

/// A pause is the CA's wish, or ours after it refused the account: then whoever can mend that must act.
fn paused(domain: &Domain, queue: &QueueFacts) -> Answer {
    let reason = queue.pause_reason.as_deref().unwrap_or_default();
    let (code, words) = reason.split_once(": ").unwrap_or(("", reason));
    let answer = match code {
        "" | "acme-rate-limited" => {
            let why = format!("the CA asked to be left alone ({words})");
            Answer::new(
                Who::Ca,
                "ca-asked-to-wait",
                why,
                "Nothing: the queue drains at the CA's pace, renewals first.",
            )
        }
        code => {
            let (who, remedy) = remedy(&Note::parse(reason));
            Answer::new(who, code, words, goes_on(who, remedy))
        }
    };
    in_line(domain, queue, queue.paused_until, answer)
}

fn in_line(
    domain: &Domain,
    queue: &QueueFacts,
    until: Option<Timestamp>,
    mut answer: Answer,
) -> Answer {
    let when = until.map_or_else(String::new, |at| format!(" until {at}"));
    answer.summary = format!(
        "{} waits at {} for an order{when}: {}. No attempt is lost.",
        domain.name, queue.place, answer.summary
    );
    answer.next_attempt_at = until;
    answer
}
