//! What the asker found out beside the domain's row.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Note, Timestamp, WaitScope};

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

/// The CA fails, whatever it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaFacts {
    /// Since when.
    pub since: Timestamp,
    /// How, in the words of the replica that met it.
    pub note: Note,
    /// When it is asked for an order again.
    pub next_attempt_at: Option<Timestamp>,
}

/// What the CA wants left alone, and this name with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFacts {
    /// What kind of thing.
    pub scope: WaitScope,
    /// Which name or registered domain.
    pub key: String,
    /// Until then nothing is asked.
    pub until: Timestamp,
    /// In the CA's words.
    pub words: String,
}

/// What the edges of its group say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeFacts {
    /// Edges that reported lately.
    pub live: u32,
    /// Of those, how many do not serve the newest certificate yet.
    pub behind: u32,
    /// Of those, how many serve it.
    pub serving: u32,
    /// The first live edge that does not serve it and says why.
    pub broken: Option<EdgeTrouble>,
}

/// Why an edge does not serve a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeTrouble {
    /// The edge's name.
    pub edge: String,
    /// Its words.
    pub note: Note,
    /// Is the edge out of order as a whole? Else it refuses this one name.
    pub is_whole: bool,
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
    /// The store's clock, where it is known.
    pub now: Option<Timestamp>,
    /// What keeps every domain from going on, if anything does.
    pub obstacle: Option<Obstacle>,
    /// What DNS says now, when it is not as it should be.
    pub dns: Option<Note>,
    /// DNS was looked at just now, and is as it should be.
    pub dns_is_right: bool,
    /// Its place in the queue, while it waits there.
    pub queue: Option<QueueFacts>,
    /// How the CA fails, if it does.
    pub ca: Option<CaFacts>,
    /// What keeps it out of the queue.
    pub wait: Option<WaitFacts>,
    /// Its edges.
    pub edges: EdgeFacts,
    /// What the edges say could not be read, so `edges` says nothing.
    pub edges_unknown: bool,
    /// Certificates are stored for others to fetch (`[edge] mode = "none"`): no edge says what is served.
    pub stored_only: bool,
    /// The records the customer must set, in a sentence.
    pub required: String,
    /// All that was looked at.
    pub checks: Vec<Check>,
}
