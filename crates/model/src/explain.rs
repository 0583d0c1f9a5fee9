//! "Why is it stuck?" answered: for every state one cause, one fix, who must act and when the next
//! attempt is. Pure: whoever asks brings the facts.

mod dns;
mod edge;
mod facts;
mod failure;
mod queue;
mod renewal;
mod wait;

use serde::{Deserialize, Serialize};

pub use self::facts::{
    CaFacts, Check, EdgeFacts, EdgeTrouble, Facts, Obstacle, QueueFacts, QueuePlace, WaitFacts,
};
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
        summary: with_expiry(domain, facts, answer.summary),
        cause: answer.cause,
        fix: answer.fix,
        who: answer.who,
        next_attempt_at: answer.next_attempt_at.or(domain.next_attempt_at),
        checks: facts.checks.clone(),
    }
}

/// Whatever keeps the next certificate away, that the one before has ended is said with it.
fn with_expiry(domain: &Domain, facts: &Facts, summary: String) -> String {
    let end = domain.certificate.as_ref().map(|certificate| certificate.not_after);
    let is_told = domain.state == State::Active || domain.removing_since.is_some();
    match end.filter(|end| !is_told && facts.now.is_some_and(|now| now >= *end)) {
        Some(end) => format!("{summary} Its certificate expired at {end}: visitors are refused."),
        None => summary,
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
    if domain.removing_since.is_some() && (facts.stored_only || facts.edges_unknown) {
        let fix = "Nothing: the name is free when that is done.";
        return Some(Answer::new(
            Who::Holdfast,
            "removing",
            format!("{name} is being removed."),
            fix,
        ));
    }
    if domain.removing_since.is_some() {
        let mut summary =
            format!("{name} is being removed; {} live edges still have it.", facts.edges.behind);
        if let Some(trouble) = facts.edges.broken.as_ref().filter(|trouble| !trouble.is_whole) {
            let (edge, words) = (&trouble.edge, &trouble.note.detail);
            summary = format!("{name} is being removed; `{edge}` has not dropped it: {words}");
        }
        let fix = match domain.revoke_on_removal {
            true => {
                "Nothing: the name is free once the live edges dropped it, or after an hour, and the CA revoked its certificate, or after a day."
            }
            false => "Nothing: the name is free once the live edges dropped it, or after an hour.",
        };
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
        && facts.ca.is_none()
    {
        return damaged(domain, note);
    }
    if domain.state.is_failure() && domain.wanted.is_some() {
        return working(domain);
    }
    match domain.state {
        State::Active => renewal::looked_after(domain, edge::active(domain, facts)),
        State::AcmeOrdering => queue::queued(domain, facts),
        State::CertificateDeploying | State::CertificateDeploymentFailed if facts.stored_only => {
            edge::stored(domain)
        }
        State::CertificateDeploying if facts.edges_unknown => working(domain),
        State::CertificateDeploying => edge::deploying(domain, facts),
        State::DnsVerifying | State::DnsVerificationFailed => dns::dns(domain, facts),
        state if state.is_failure() => failure::failed(domain, facts),
        State::AcmeOrderCreated
        | State::AcmeChallengePreparing
        | State::AcmeChallengePrepared
        | State::AcmeChallengeValidating
        | State::AcmeChallengeValidated
        | State::CertificateDownloading => wait::at_the_ca(domain, facts),
        _ => working(domain),
    }
}

/// When the next attempt is, to follow "by itself".
fn at(domain: &Domain) -> String {
    domain.next_attempt_at.map_or_else(String::new, |at| format!(" at {at}"))
}

fn working(domain: &Domain) -> Answer {
    let summary = format!("{} is in {} and moves on by itself.", domain.name, domain.state);
    Answer::new(Who::Holdfast, "in-progress", summary, "Nothing: wait for the next attempt.")
}
