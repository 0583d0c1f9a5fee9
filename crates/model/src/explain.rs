//! "Why is it stuck?" answered: for every state one cause, one fix, who must act and when the next
//! attempt is. Pure: whoever asks brings the facts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Domain, Note, State, Timestamp};

/// Who must act for it to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The owner of the name, at a registrar.
    Customer,
    /// Whoever runs this installation.
    Operator,
    /// It goes on by itself.
    Holdfast,
    /// The certificate authority.
    Ca,
    /// Nothing is to be done.
    Nobody,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at: `dns`, `ca`, `edge`.
    pub name: String,
    /// Is it as it should be?
    pub ok: bool,
    /// What was expected.
    pub expected: String,
    /// What was seen.
    pub seen: String,
}

/// A place in the queue for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePlace {
    /// This one, from one.
    At(u64),
    /// Further back than this one; how far is not counted.
    Beyond(u64),
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(place) => write!(f, "place {place}"),
            Self::Beyond(place) => write!(f, "a place beyond {place}"),
        }
    }
}

/// Where it stands in the queue for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFacts {
    /// Which place that is.
    pub place: QueuePlace,
    /// The CA is left alone until then.
    pub paused_until: Option<Timestamp>,
    /// Why, as a note's text: its code, a colon, the CA's words.
    pub pause_reason: Option<String>,
    /// When the order budget allows the next one.
    pub next_slot_at: Option<Timestamp>,
}

/// What the edges of its group say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EdgeFacts {
    /// Edges that reported lately.
    pub live: u32,
    /// Of those, how many do not serve the newest certificate yet.
    pub behind: u32,
}

/// What keeps the whole installation from going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// A stable code.
    pub cause: String,
    /// What is wrong, as a clause.
    pub detail: String,
    /// What to do, in a sentence.
    pub fix: String,
}

/// What the asker found out beside the row itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What keeps every domain from going on, if anything does.
    pub obstacle: Option<Obstacle>,
    /// What DNS says now, when it is not as it should be.
    pub dns: Option<Note>,
    /// Its place in the queue, while it waits there.
    pub queue: Option<QueueFacts>,
    /// Its edges.
    pub edges: EdgeFacts,
    /// The records the customer must set, in a sentence.
    pub required: String,
    /// All that was looked at.
    pub checks: Vec<Check>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// One sentence: how it stands.
    pub summary: String,
    /// A stable code.
    pub cause: String,
    /// One sentence: what to do.
    pub fix: String,
    /// Who must do it.
    pub who: Who,
    /// When the next attempt is, if one is planned.
    pub next_attempt_at: Option<Timestamp>,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// Lapsed claims in a row after which a domain is called poisonous.
const POISON: u32 = 20;

/// Explains.
#[must_use]
pub fn explain(domain: &Domain, facts: &Facts) -> Explanation {
    let answer = special(domain, facts).unwrap_or_else(|| ordinary(domain, facts));
    Explanation {
        summary: answer.summary,
        cause: answer.cause,
        fix: answer.fix,
        who: answer.who,
        next_attempt_at: answer.next_attempt_at.or(domain.next_attempt_at),
        checks: facts.checks.clone(),
    }
}

struct Answer {
    summary: String,
    cause: String,
    fix: String,
    who: Who,
    next_attempt_at: Option<Timestamp>,
}

impl Answer {
    fn new(who: Who, cause: &str, summary: impl Into<String>, fix: impl Into<String>) -> Self {
        let (summary, fix) = (summary.into(), fix.into());
        Self { summary, cause: cause.to_owned(), fix, who, next_attempt_at: None }
    }
}

/// What overrides the state.
fn special(domain: &Domain, facts: &Facts) -> Option<Answer> {
    let name = &domain.name;
    if domain.removed_at.is_some() {
        return Some(Answer::new(
            Who::Nobody,
            "removed",
            format!("{name} was removed."),
            "Nothing is to be done.",
        ));
    }
    if let Some(Obstacle { cause, detail, fix }) = &facts.obstacle {
        let summary = format!("{name} is in {} and waits, as all do: {detail}.", domain.state);
        return Some(Answer::new(Who::Operator, cause, summary, fix));
    }
    if domain.removing_since.is_some() {
        let summary =
            format!("{name} is being removed; {} live edges still have it.", facts.edges.behind);
        let fix = "Nothing: the name is free once the live edges dropped it.";
        return Some(Answer::new(Who::Holdfast, "removing", summary, fix));
    }
    if let Some(state) = &domain.foreign_state {
        let summary = format!(
            "{name} is in {state}, a state that only a newer release knows: this replica leaves it alone."
        );
        let fix = "Upgrade this replica; one of the newer release goes on with the domain.";
        return Some(Answer::new(Who::Operator, "unknown-state", summary, fix));
    }
    if domain.lapses >= POISON {
        let summary = format!(
            "Work on {name} was begun {} times without an end: it may crash or hang its worker.",
            domain.lapses
        );
        let fix = "Look at the replicas' logs for this name; each further try waits longer.";
        return Some(Answer::new(Who::Operator, "claims-lapse", summary, fix));
    }
    None
}

/// What is stored of the certificate cannot be served: it is being replaced, or waits for that.
fn damaged(domain: &Domain, note: &Note) -> Answer {
    let next = match domain.state {
        State::Active => "it was replaced lately for the same reason, and is again within a day",
        _ => "another one is being ordered",
    };
    let summary =
        format!("The certificate of {} cannot be served ({}); {next}.", domain.name, note.detail);
    let fix = "Look at the disk of the database: something changed what was stored. The name mends itself.";
    Answer::new(Who::Operator, Note::CERTIFICATE_DAMAGED, summary, fix)
}

fn ordinary(domain: &Domain, facts: &Facts) -> Answer {
    let damage = domain.last_error.as_ref().filter(|note| note.code == Note::CERTIFICATE_DAMAGED);
    if let (State::Active | State::AcmeOrdering, Some(note)) = (domain.state, damage)
        && facts.queue.as_ref().is_none_or(|queue| queue.paused_until.is_none())
    {
        return damaged(domain, note);
    }
    match domain.state {
        State::Active => active(domain, facts),
        State::AcmeOrdering => queued(domain, facts),
        State::CertificateDeploying => deploying(domain, facts),
        State::DnsVerifying if domain.last_error.is_none() => working(domain),
        State::DnsVerifying | State::DnsVerificationFailed => dns(domain, facts),
        state if state.is_failure() => failed(domain, facts),
        _ => working(domain),
    }
}

fn working(domain: &Domain) -> Answer {
    let summary = format!("{} is in {} and moves on by itself.", domain.name, domain.state);
    Answer::new(Who::Holdfast, "in-progress", summary, "Nothing: wait for the next attempt.")
}

fn active(domain: &Domain, facts: &Facts) -> Answer {
    let name = &domain.name;
    let until = domain.certificate.as_ref().map(|certificate| certificate.not_after);
    let until =
        until.map_or_else(String::new, |at| format!(" with a certificate valid until {at}"));
    match &facts.dns {
        Some(note) => Answer::new(
            Who::Customer,
            &note.code,
            format!("{name} is served{until}, but its DNS is not as it should be: {}", note.detail),
            format!(
                "Ask the customer to set {}. The certificate is renewed all the same.",
                facts.required
            ),
        ),
        None => Answer::new(
            Who::Nobody,
            "active",
            format!("{name} is served{until}."),
            "Nothing is to be done.",
        ),
    }
}

fn queued(domain: &Domain, facts: &Facts) -> Answer {
    let Some(queue) = &facts.queue else { return working(domain) };
    match (queue.paused_until, queue.next_slot_at) {
        (Some(_), _) => paused(domain, queue),
        (None, Some(until)) => {
            let why = "the order budget of this CA account is spent";
            let fix = "Nothing: the queue drains at the CA's pace, renewals first.";
            in_line(domain, queue, Some(until), Answer::new(Who::Ca, "order-budget", why, fix))
        }
        (None, None) if queue.pause_reason.is_some() => paused(domain, queue),
        (None, None) => working(domain),
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
            let (who, fix) = advice(code);
            Answer::new(who, code, words, fix)
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

fn deploying(domain: &Domain, facts: &Facts) -> Answer {
    let (name, group) = (&domain.name, &domain.edge_group);
    if facts.edges.live == 0 {
        return Answer::new(
            Who::Operator,
            "no-live-edge",
            format!("{name} has its certificate, but no edge of group `{group}` reported lately."),
            format!(
                "Start an edge agent in group `{group}`, or see `holdfast edge list` for why none is live."
            ),
        );
    }
    let summary = format!(
        "{} of {} live edges are still taking {name}.",
        facts.edges.behind, facts.edges.live
    );
    Answer::new(
        Who::Holdfast,
        "edges-applying",
        summary,
        "Nothing: it is Active once it is seen served.",
    )
}

fn dns(domain: &Domain, facts: &Facts) -> Answer {
    let name = &domain.name;
    let Some(note) = facts.dns.as_ref().or(domain.last_error.as_ref()) else {
        return working(domain);
    };
    let (who, remedy) = match note.code.as_ref() {
        "dns-servfail" | "dns-refused" | "dns-timeout" => {
            (Who::Customer, "Ask the customer to mend the name servers of the name, and to set")
        }
        "dns-resolver-unreachable" => (
            Who::Operator,
            "Mend the resolvers in [dns] resolvers, which do not answer; the customer should have",
        ),
        "dns-stale-aaaa" => (
            Who::Customer,
            "Ask the customer to delete the AAAA record, which the CA tries first, and to keep",
        ),
        _ => (Who::Customer, "Ask the customer to set"),
    };
    let summary = format!("{name} is not pointed at the edge: {}", note.detail);
    Answer::new(
        who,
        &note.code,
        summary,
        format!("{remedy} {}; it is noticed by itself.", facts.required),
    )
}

fn failed(domain: &Domain, facts: &Facts) -> Answer {
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
fn advice(code: &str) -> (Who, &'static str) {
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
