//! A domain in a failure state: what went wrong, and who can mend it.

use super::dns::{self, Now};
use super::{Answer, Who, at};
use crate::{Domain, Facts, Note, State};

pub(super) fn failed(domain: &Domain, facts: &Facts) -> Answer {
    let fallback = Note::new("unknown", "no cause was kept");
    let note = domain.last_error.as_ref().unwrap_or(&fallback);
    match Now::of(facts) {
        Now::Right if dns::is_cause(note) => return dns::mended(domain),
        // A challenge that failed because the name moved away is the customer's to mend, whatever the CA called it.
        Now::Wrong(now) if is_challenge(domain, note) || is_validation(note) => {
            return led_elsewhere(domain, facts, note, now);
        }
        _ if note.code.starts_with("dns-") => return dns::dns(domain, facts),
        _ => {}
    }
    let (who, remedy) = remedy(note);
    let summary = format!("{} is in {}: {}", domain.name, domain.state, note.detail);
    Answer::new(mover(domain, who), &note.code, summary, format!("{remedy} {}", again(domain)))
}

/// The CA could not validate the name, and DNS says why.
fn led_elsewhere(domain: &Domain, facts: &Facts, note: &Note, now: &Note) -> Answer {
    let (who, remedy) = dns::remedy(now);
    let fix = format!("{remedy} {}. {}", facts.required, again(domain));
    let summary =
        format!("The CA could not validate {}: {} {}", domain.name, note.detail, now.detail);
    Answer::new(who, &now.code, summary, fix)
}

/// Did the challenge itself fail? An order is also parked here while the CA makes it wait.
fn is_challenge(domain: &Domain, note: &Note) -> bool {
    let is_parked = note.is_of_the_ca() || note.code == "acme-paused";
    domain.state == State::AcmeChallengeFailed && !is_parked
}

/// Did the CA fail to validate the name, by its own account?
fn is_validation(note: &Note) -> bool {
    matches!(
        note.code.as_ref(),
        "acme-connection"
            | "acme-unauthorized"
            | "acme-tls"
            | "acme-incorrect-response"
            | "acme-dns"
    )
}

/// What was given up goes on only when somebody here asks for it.
fn mover(domain: &Domain, who: Who) -> Who {
    match (domain.state, who) {
        (State::Failed, Who::Ca | Who::Holdfast | Who::Nobody) => Who::Operator,
        (_, who) => who,
    }
}

/// When it is tried again.
fn again(domain: &Domain) -> String {
    let name = &domain.name;
    match domain.state {
        State::Failed => format!(
            "Then run `holdfast domain retry {name}`: it was given up and is not tried by itself."
        ),
        _ => format!(
            "It is tried again by itself{}; `holdfast domain retry {name}` tries now.",
            at(domain)
        ),
    }
}

/// Who can mend a cause, and how; where the CA named a page for that, with its address.
pub(super) fn remedy(note: &Note) -> (Who, String) {
    match note.link() {
        Some(link) if note.code == Note::CA_TERMS => {
            let fix = format!(
                "Open {link} and do what the CA asks there, such as agreeing to its new terms; orders go on by themselves within ten minutes, or at once after `holdfast ca resume`."
            );
            (Who::Operator, fix)
        }
        _ => {
            let (who, fix) = advice(&note.code);
            (who, fix.to_owned())
        }
    }
}

/// Who can mend a cause, and how; the caller knows the state and adds when it is tried again.
pub(super) fn advice(code: &str) -> (Who, &'static str) {
    match code {
        "acme-caa" => {
            (Who::Customer, "Ask the customer to let this CA issue in the CAA record of the name.")
        }
        "acme-rejected-identifier" => {
            (Who::Operator, "The CA's policy forbids this name; remove it, or use another CA.")
        }
        "acme-connection" | "acme-unauthorized" | "acme-tls" | "acme-incorrect-response" => (
            Who::Operator,
            "Make sure that http://NAME/.well-known/acme-challenge/ reaches a replica or the edge, before any redirect.",
        ),
        "acme-dns" => (Who::Customer, "Ask the customer to mend the name's DNS."),
        "ca-paused" => (
            Who::Operator,
            "Run `holdfast ca resume` with the name of the CA to order again; `holdfast ca list` shows it.",
        ),
        "acme-account-unusable" => (
            Who::Operator,
            "Run `holdfast ca register` to make another account; orders go on by themselves then.",
        ),
        "acme-account" | "acme-terms" | "acme-external-account" => (
            Who::Operator,
            "Look at the [acme] section: the CA does not accept this account; `holdfast doctor` says more.",
        ),
        "acme-paused" => (
            Who::Operator,
            "Unpause the name at the address in the CA's words, then `holdfast domain retry NAME`.",
        ),
        "acme-rate-limited" | Note::CA_SERVER | Note::CA_UNREACHABLE | "timed-out" => {
            (Who::Ca, "See the CA's status page if it lasts.")
        }
        Note::CA_NOT_ACME => (
            Who::Ca,
            "If it lasts, see the CA's status page, and that no proxy answers in the CA's place.",
        ),
        "incomplete-chain" => (
            Who::Ca,
            "The certificate is downloaded with the same order, and what is served now stays; ask the CA if it lasts. `holdfast domain renew NAME` makes another order.",
        ),
        "untrusted-chain" => (
            Who::Operator,
            "If the CA is a private one, name its roots in [acme] issuer_roots; `holdfast doctor --config FILE` says which are trusted. What is served now stays; `holdfast domain renew NAME` makes another order.",
        ),
        "certificate-early" => (
            Who::Ca,
            "Compare the CA's clock with the database's. The certificate is downloaded again with the same order, for a day; `holdfast domain renew NAME` makes another order at once.",
        ),
        "wrong-certificate" | "acme-bad-url" | "acme-order-gone" => {
            (Who::Ca, "Another order is made where this one is of no use any more.")
        }
        "edge-refused" => (
            Who::Operator,
            "See `holdfast edge list`, then `holdfast edge show` for what the edge said.",
        ),
        code => odd(code),
    }
}

/// Causes that seldom come, and what nobody has foreseen.
fn odd(code: &str) -> (Who, &'static str) {
    match code {
        "acme-bad-csr" | "acme-malformed" | "acme-refused" | "bad-certificate" => (
            Who::Ca,
            "The CA's answer cannot be used, and its words say why; see its status page if it lasts.",
        ),
        "acme-profile" => (Who::Operator, "Look at [acme] profile: the CA has no such profile."),
        "acme-no-challenge" => {
            (Who::Operator, "Use a CA that offers http-01 or tls-alpn-01 for this name.")
        }
        "acme-key" | "key-generation" => {
            (Who::Operator, "Look at the replicas' logs for why no key could be made or used.")
        }
        "order-lost" => (Who::Holdfast, "Another order is made."),
        "store-unavailable" => {
            (Who::Operator, "Run `holdfast doctor`: the database failed during a step.")
        }
        "unexpected-outcome" => (
            Who::Operator,
            "Report this as a mistake of this release, with the output of `holdfast domain history`.",
        ),
        _ => (Who::Operator, "Mend the cause."),
    }
}
