//! What DNS says of a domain now, beside what it said when a worker last looked.

use super::{Answer, Who, at, working};
use crate::{Domain, Facts, Note, State};

/// The codes of looks that failed on our side, which say nothing about the customer.
const OUR_RESOLVER: &str = Note::DNS_RESOLVER_UNREACHABLE;
const OUR_TARGET: &str = "dns-target-silent";

/// Did the look fail on our side?
fn is_ours(note: &Note) -> bool {
    matches!(note.code.as_ref(), OUR_RESOLVER | OUR_TARGET)
}

/// What is known of a name's DNS now.
pub(super) enum Now<'a> {
    /// It is as it should be.
    Right,
    /// It is not, and why.
    Wrong(&'a Note),
    /// We could not look: our own resolvers, or the names of our own targets, do not answer.
    Blind(&'a Note),
    /// Nobody looked, or the look took too long.
    Unknown,
}

impl<'a> Now<'a> {
    pub(super) fn of(facts: &'a Facts) -> Self {
        match &facts.dns {
            Some(note) if is_ours(note) => Self::Blind(note),
            Some(note) => Self::Wrong(note),
            None if facts.dns_is_right => Self::Right,
            None => Self::Unknown,
        }
    }
}

/// Is DNS the cause, by whoever's look?
pub(super) fn is_cause(note: &Note) -> bool {
    note.code.starts_with("dns-") || note.code == "acme-dns"
}

/// While DNS is what the domain waits for.
pub(super) fn dns(domain: &Domain, facts: &Facts) -> Answer {
    match (Now::of(facts), &domain.last_error) {
        (Now::Right, None) if domain.state == State::DnsVerifying => working(domain),
        (Now::Right, _) => mended(domain),
        (Now::Wrong(note) | Now::Blind(note), _) => wrong(domain, facts, note),
        (Now::Unknown, Some(note)) if note.code == Note::DNS_SILENT => glanced_at(domain, note),
        (Now::Unknown, Some(note)) if is_cause(note) => wrong(domain, facts, note),
        (Now::Unknown, _) => working(domain),
    }
}

/// A short look got no answer, which is no verdict.
fn glanced_at(domain: &Domain, note: &Note) -> Answer {
    let summary = format!("{} is being looked up: {}", domain.name, note.detail);
    let fix = "Nothing: the next look takes longer, and comes by itself.";
    Answer::new(Who::Holdfast, &note.code, summary, fix)
}

/// It is right now, which no worker has seen yet.
pub(super) fn mended(domain: &Domain) -> Answer {
    let name = &domain.name;
    let before = domain.last_error.as_ref();
    let before = before.map_or_else(String::new, |note| format!(" Before, it failed: {note}"));
    let summary = format!("DNS is as it should be for {name} now.{before}");
    let (who, fix) = match (domain.state, &domain.last_error) {
        (State::Failed, _) => (
            Who::Operator,
            format!(
                "Run `holdfast domain retry {name}`: it was given up and is not tried by itself."
            ),
        ),
        (_, Some(note)) if note.code == "acme-dns" => (
            Who::Holdfast,
            format!(
                "Nothing: it is tried again by itself{}; `holdfast domain retry {name}` tries now. If the CA says the same again, look at the DNSSEC and at each name server of the name.",
                at(domain)
            ),
        ),
        _ => (
            Who::Holdfast,
            format!(
                "Nothing: it is noticed at the next look{}; `holdfast domain retry {name}` looks now.",
                at(domain)
            ),
        ),
    };
    Answer::new(who, "dns-mended", summary, fix)
}

/// What is to be done about a finding of a look, up to the records that the customer should have.
pub(super) fn remedy(note: &Note) -> (Who, &'static str) {
    match note.code.as_ref() {
        "dns-servfail" | "dns-refused" | "dns-timeout" | "dns-unreadable" => {
            (Who::Customer, "Ask the customer to mend the name servers of the name, and to set")
        }
        OUR_RESOLVER => (
            Who::Operator,
            "Mend the resolvers in [dns] resolvers, which do not answer; the customer should have",
        ),
        OUR_TARGET => (
            Who::Operator,
            "Mend the DNS of the names in [dns] targets, which do not resolve; the customer should have",
        ),
        "dns-stale-aaaa" => (
            Who::Customer,
            "Ask the customer to delete the AAAA record, which the CA tries first, and to keep",
        ),
        _ => (Who::Customer, "Ask the customer to set"),
    }
}

fn wrong(domain: &Domain, facts: &Facts, note: &Note) -> Answer {
    let name = &domain.name;
    let (who, remedy) = remedy(note);
    let summary = match is_ours(note) {
        true => format!("Whether {name} is pointed at the edge could not be seen: {}", note.detail),
        false => format!("{name} is not pointed at the edge: {}", note.detail),
    };
    let fix = match domain.state {
        State::Failed => format!(
            "{remedy} {}; then run `holdfast domain retry {name}`: it was given up and is not tried by itself.",
            facts.required
        ),
        _ => format!("{remedy} {}; it is noticed by itself.", facts.required),
    };
    Answer::new(who, &note.code, summary, fix)
}
