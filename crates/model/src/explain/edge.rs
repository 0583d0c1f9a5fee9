//! A domain whose certificate is at the edges, or on the way to them.

use super::dns::{self, Now};
use super::{Answer, Who, at};
use crate::{Domain, Facts, Note};

pub(super) fn active(domain: &Domain, facts: &Facts) -> Answer {
    match Now::of(facts) {
        Now::Wrong(note) | Now::Blind(note) => pointed_away(domain, facts, note),
        Now::Right | Now::Unknown => Answer::new(
            Who::Nobody,
            "active",
            format!("{}.", standing(domain, facts)),
            "Nothing is to be done.",
        ),
    }
}

/// What is known of an Active domain's certificate, without a full stop.
fn standing(domain: &Domain, facts: &Facts) -> String {
    let name = &domain.name;
    let until = domain.certificate.as_ref().map(|certificate| certificate.not_after);
    let until = until.map_or_else(String::new, |at| format!(" valid until {at}"));
    if facts.stored_only {
        return format!(
            "{name} is Active: a certificate{until} is stored for whoever fetches it; what serves it is not known here ([edge] mode = \"none\")"
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
