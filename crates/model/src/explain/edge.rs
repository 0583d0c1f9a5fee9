//! A domain whose certificate is at the edges, or on the way to them.

use super::{Answer, Who};
use crate::{Domain, Facts};

pub(super) fn active(domain: &Domain, facts: &Facts) -> Answer {
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
