//! A domain in a failure state: what went wrong, and who can mend it.

use super::{Answer, Who};
use crate::{Domain, Facts, Note, State};

pub(super) fn failed(domain: &Domain, facts: &Facts) -> Answer {
    let fallback = Note::new("unknown", "no cause was kept");
    let note = domain.last_error.as_ref().unwrap_or(&fallback);
    let (who, fix) = advice(&note.code);
    // A challenge that failed because the name moved away is the customer's to mend, whatever the CA called it.
    if let (State::AcmeChallengeFailed, Some(dns)) = (domain.state, &facts.dns) {
        let fix = format!("Ask the customer to set {}.", facts.required);
        let summary =
            format!("The CA could not validate {}: {} {}", domain.name, note.detail, dns.detail);
        return Answer::new(Who::Customer, &dns.code, summary, fix);
    }
    let summary = format!("{} is in {}: {}", domain.name, domain.state, note.detail);
    Answer::new(who, &note.code, summary, fix)
}

/// Who can mend a cause, and how.
pub(super) fn advice(code: &str) -> (Who, &'static str) {
    match code {
        "acme-caa" => (
            Who::Customer,
            "Ask the customer to let this CA issue in the CAA record of the name, then `holdfast domain retry`.",
        ),
        "acme-rejected-identifier" => {
            (Who::Operator, "The CA's policy forbids this name; remove it, or use another CA.")
        }
        "acme-connection" | "acme-unauthorized" | "acme-tls" | "acme-incorrect-response" => (
            Who::Operator,
            "Make sure that http://NAME/.well-known/acme-challenge/ reaches a replica or the edge, before any redirect; it is tried again by itself.",
        ),
        "acme-dns" => {
            (Who::Customer, "Ask the customer to mend the name's DNS; it is tried again by itself.")
        }
        "acme-account-unusable" => (
            Who::Operator,
            "Run `holdfast ca register` to make another account; orders go on by themselves then.",
        ),
        "acme-account" | "acme-terms" | "acme-external-account" => (
            Who::Operator,
            "Look at the [acme] section: the CA does not accept this account; `holdfast doctor` says more.",
        ),
        "acme-rate-limited" | "acme-server" | "ca-unreachable" | "timed-out" => {
            (Who::Ca, "Nothing: it is tried again by itself; see the CA's status page if it lasts.")
        }
        "edge-refused" => (
            Who::Operator,
            "See `holdfast edge list` for what the edge said; it is tried again by itself.",
        ),
        "dns-nxdomain"
        | "dns-no-records"
        | "dns-cname-elsewhere"
        | "dns-address-elsewhere"
        | "dns-stale-aaaa"
        | "dns-cname-loop"
        | "dns-chain-too-long" => (
            Who::Customer,
            "Ask the customer to set the records shown in `required_dns`, then `holdfast domain retry`.",
        ),
        _ => (
            Who::Operator,
            "Mend the cause, then `holdfast domain retry NAME`; where a next attempt is named, it is tried by itself.",
        ),
    }
}
