//! Events: one log that is history, event stream and count deltas at once, read in an order in which nothing
//! can appear behind the reader.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use holdfast_model::{DomainId, Hostname, Note, State, Timestamp};

use crate::{Error, EventLag, Page, Paged, Result};

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The replica.
    pub instance: String,
    /// `worker`, or the token's name.
    pub name: String,
}

/// A place in the log: everything up to it was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// PostgreSQL's transaction, zero on SQLite; above that, how often the database was restored: what comes after a restore lies behind
    /// every cursor of the life before.
    pub xid: i64,
    /// The row.
    pub id: i64,
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.xid, self.id)
    }
}

impl FromStr for EventCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text
            .split_once('-')
            .and_then(|(xid, id)| Some(Self { xid: xid.parse().ok()?, id: id.parse().ok()? }));
        // Only what we wrote: not `+1`, not `01`, nothing negative.
        parsed
            .filter(|cursor| cursor.xid >= 0 && cursor.id >= 0 && cursor.to_string() == text)
            .ok_or_else(|| Error::BadCursor(text.to_owned()))
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventBody {
    /// A domain moved. No `from`: it was added. No `to`: it was removed.
    Transition {
        /// The domain.
        domain: DomainId,
        /// Its name.
        name: Hostname,
        /// Left.
        from: Option<State>,
        /// Entered.
        to: Option<State>,
        /// How long `from` lasted.
        duration_ms: u64,
        /// Which try.
        attempt: u32,
        /// Why.
        error: Option<Note>,
    },
    /// Anything else: leadership, edges, keys. `kind` is stable, `detail` is for people.
    Notice {
        /// For example `edge-registered`.
        kind: String,
        /// About what.
        subject: String,
        /// In words.
        detail: String,
    },
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place.
    pub cursor: EventCursor,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub actor: Actor,
    /// What.
    pub body: EventBody,
}

/// Events.
#[async_trait]
pub trait Events: Send + Sync {
    /// A domain's transitions, oldest first, also after its removal.
    async fn history(&self, domain: DomainId, page: &Page) -> Result<Paged<Event>>;

    /// What came after `after`, in an order that never changes and never gets an insertion behind a reader.
    async fn events_after(&self, after: EventCursor, limit: u32) -> Result<Vec<Event>>;

    /// The place after which everything is new.
    async fn latest_event(&self) -> Result<EventCursor>;

    /// What is committed and cannot be read yet, because an older transaction of the server is still open.
    async fn event_lag(&self) -> Result<EventLag>;

    /// Appends a notice.
    async fn notice(&self, actor: &Actor, kind: &str, subject: &str, detail: &str) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_survives_its_text(xid in 0..i64::MAX, id in 0..i64::MAX) {
            let cursor = EventCursor { xid, id };
            prop_assert_eq!(cursor.to_string().parse::<EventCursor>().unwrap(), cursor);
        }

        #[test]
        fn any_text_is_a_cursor_we_wrote_or_refused(text in "[-+0-9a ]{0,24}|.*") {
            match text.parse::<EventCursor>() {
                Ok(cursor) => prop_assert_eq!(cursor.to_string(), text),
                Err(error) => prop_assert!(matches!(error, Error::BadCursor(_))),
            }
        }
    }
}
