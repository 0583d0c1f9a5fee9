//! A domain whose certificate is at the edges, or on the way to them.

use super::dns::{self, Now};
use super::{Answer, Who, at};
use crate::{Domain, EdgeFacts, EdgeTrouble, Facts, Note};

pub(super) fn active(domain: &Domain, facts: &Facts) -> Answer {
    let is_known = !facts.stored_only && !facts.edges_unknown;
    if is_known && facts.edges.serving == 0 {
        return unserved(domain, &facts.edges);
    }
    if let Some(answer) = expired(domain, facts) {
        return answer;
    }
    match (Now::of(facts), &facts.edges.broken) {
        (Now::Wrong(note) | Now::Blind(note), _) => pointed_away(domain, facts, note),
        (Now::Right | Now::Unknown, Some(trouble)) if is_known => {
            let EdgeFacts { live, serving, .. } = facts.edges;
            let summary = format!(
                "{}, by {serving} of {live} live edges, not by `{}`: {}",
                standing(domain, facts),
                trouble.edge,
                trouble.note.detail
            );
            Answer::new(Who::Operator, trouble.cause(), summary, trouble.fix())
        }
        (Now::Right | Now::Unknown, _) => Answer::new(
            Who::Nobody,
            "active",
            format!("{}.", standing(domain, facts)),
            "Nothing is to be done.",
        ),
    }
}

/// Its certificate has ended, and the next is not there.
fn expired(domain: &Domain, facts: &Facts) -> Option<Answer> {
    let end = domain.certificate.as_ref()?.not_after;
    facts.now.filter(|now| *now >= end)?;
    let name = &domain.name;
    let summary = format!("The certificate of {name} expired at {end}: visitors are refused.");
    let fix = format!(
        "Run `holdfast domain renew {name}`, which orders another at once; it is also looked at by itself{}.",
        at(domain)
    );
    Some(Answer::new(Who::Operator, "certificate-expired", summary, fix))
}

/// What is known of an Active domain's certificate, without a full stop.
fn standing(domain: &Domain, facts: &Facts) -> String {
    let name = &domain.name;
    let until = domain.certificate.as_ref().map(|certificate| certificate.not_after);
    let until = until.map_or_else(String::new, |at| format!(" valid until {at}"));
    if facts.stored_only {
        return format!(
            "{name} is Active: a certificate{until} is stored to be fetched; Holdfast does not know what serves it ([edge] mode = \"none\")"
        );
    }
    if facts.edges_unknown {
        return format!(
            "{name} is Active with a certificate{until}; what the edges serve could not be read in time"
        );
    }
    format!("{name} is served with a certificate{until}")
}

fn pointed_away(domain: &Domain, facts: &Facts, note: &Note) -> Answer {
    let (who, remedy) = dns::remedy(note);
    let standing = standing(domain, facts);
    let summary = match who {
        Who::Customer => {
            format!("{standing}, but its DNS is not as it should be: {}", note.detail)
        }
        _ => format!("{standing}, but its DNS could not be looked at: {}", note.detail),
    };
    let fix = format!(
        "{remedy} {}. The certificate is renewed all the same, as long as the CA reaches us by the name.",
        facts.required
    );
    Answer::new(who, &note.code, summary, fix)
}

/// A deployment while no edge is waited for: `[edge] mode` was changed to `none` meanwhile.
pub(super) fn stored(domain: &Domain) -> Answer {
    let summary = format!(
        "{} has its certificate, and no edge is waited for ([edge] mode = \"none\").",
        domain.name
    );
    let fix = format!("Nothing: it is Active with the next attempt{}.", at(domain));
    Answer::new(Who::Holdfast, "in-progress", summary, fix)
}

pub(super) fn deploying(domain: &Domain, facts: &Facts) -> Answer {
    match facts.edges.serving {
        0 => unserved(domain, &facts.edges),
        _ => applying(domain, &facts.edges),
    }
}

impl EdgeTrouble {
    const fn cause(&self) -> &'static str {
        if self.is_whole { "edge-error" } else { "edge-refused" }
    }

    fn fix(&self) -> String {
        format!(
            "Mend edge `{0}`: `holdfast edge show {0}` says what is wrong there; it is tried again by itself.",
            self.edge
        )
    }
}

/// It has its certificate, and no edge serves it.
fn unserved(domain: &Domain, edges: &EdgeFacts) -> Answer {
    let (name, group) = (&domain.name, &domain.edge_group);
    match &edges.broken {
        _ if edges.live == 0 => Answer::new(
            Who::Operator,
            "no-live-edge",
            format!("{name} has its certificate, but no edge of group `{group}` reported lately."),
            format!(
                "Start an edge agent in group `{group}`, or see `holdfast edge list` for why none is live."
            ),
        ),
        Some(trouble) if edges.behind == 0 => Answer::new(
            Who::Operator,
            trouble.cause(),
            format!(
                "{name} has its certificate, but no live edge serves it; `{}` says: {}",
                trouble.edge, trouble.note.detail
            ),
            trouble.fix(),
        ),
        _ => applying(domain, edges),
    }
}

/// Live edges are taking it; those that are out of order are not waited for.
fn applying(domain: &Domain, edges: &EdgeFacts) -> Answer {
    let mut summary =
        format!("{} of {} live edges are still taking {}.", edges.behind, edges.live, domain.name);
    if let Some(EdgeTrouble { edge, note, .. }) = &edges.broken {
        summary = format!("{summary} `{edge}` is not waited for: {}", note.detail);
    }
    Answer::new(
        Who::Holdfast,
        "edges-applying",
        summary,
        "Nothing: it is Active once it is seen served.",
    )
}
