//! A domain whose DNS is not as it should be.

use super::{Answer, Who, working};
use crate::{Domain, Facts};

pub(super) fn dns(domain: &Domain, facts: &Facts) -> Answer {
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
