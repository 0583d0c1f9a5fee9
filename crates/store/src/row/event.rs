//! An event's row.

use holdfast_model::{DomainId, State};

use super::Fields;
use crate::{Actor, Event, EventBody, EventCursor, Result};

/// The kind of a transition; every other kind is a notice.
pub(crate) const TRANSITION: &str = "transition";

pub(crate) fn event(row: &impl Fields) -> Result<Event> {
    let body = match row.text("kind")?.as_str() {
        TRANSITION => transition(row)?,
        kind => EventBody::Notice {
            kind: kind.to_owned(),
            subject: row.text("subject")?,
            detail: row.maybe_text("detail")?.unwrap_or_default(),
        },
    };
    Ok(Event {
        cursor: EventCursor { xid: row.number("xid")?, id: row.number("id")? },
        at: row.at("at")?,
        actor: Actor { instance: row.text("instance")?, name: row.text("actor")? },
        body,
    })
}

fn transition(row: &impl Fields) -> Result<EventBody> {
    let (from, to) = (row.maybe_text("from_state")?, row.maybe_text("to_state")?);
    let (Ok(known_from), Ok(known_to)) = (state(from.as_deref()), state(to.as_deref())) else {
        // A newer release's: told in words, so that neither stream nor history has a gap.
        let words = |state: Option<String>| state.unwrap_or_else(|| "nothing".to_owned());
        return Ok(EventBody::Notice {
            kind: "unknown-transition".to_owned(),
            subject: row.text("subject")?,
            detail: format!("from {} to {}", words(from), words(to)),
        });
    };
    Ok(EventBody::Transition {
        domain: DomainId(row.id("domain_id")?),
        name: row.hostname("subject")?,
        from: known_from,
        to: known_to,
        duration_ms: u64::try_from(row.number("duration_ms")?).unwrap_or(0),
        attempt: row.count("attempt")?,
        error: row.note("error_code", "detail")?,
    })
}

fn state(text: Option<&str>) -> Result<Option<State>, holdfast_model::UnknownState> {
    text.map(str::parse).transpose()
}
