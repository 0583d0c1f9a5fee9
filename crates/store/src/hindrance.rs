//! What a statement that is late waits for, where the database can tell.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{Outage, event_lag::OpenTransaction};

/// For how long it counts what a statement was seen to wait for: the looks at one that goes on waiting are no further apart.
const COUNTS: Duration = Duration::from_secs(10);

/// What keeps statements from their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hindrance {
    /// Locks that these transactions hold, the oldest first.
    Locks(Vec<OpenTransaction>),
    /// SQLite's lock, which this process holds.
    Process(String),
    /// Commits wait for a synchronous standby that does not confirm them. They are done on this server, and are lost if a standby without
    /// them takes over: so whether they count is not known.
    Standby,
}

impl Hindrance {
    pub(crate) const fn outage(&self) -> Outage {
        match self {
            Self::Locks(_) | Self::Process(_) => Outage::Locked,
            Self::Standby => Outage::AwaitsStandby,
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holders = match self {
            Self::Locks(holders) => holders,
            Self::Process(holder) => return write!(f, "it waited for a lock of {holder}"),
            Self::Standby => {
                return f.write_str(
                    "commits wait for a synchronous standby; whether the last ones count is not known",
                );
            }
        };
        f.write_str("it waited for a lock of ")?;
        for (at, holder) in holders.iter().enumerate() {
            write!(f, "{}{holder}", if at == 0 { "" } else { "; " })?;
        }
        match holders.first() {
            Some(oldest) => write!(f, ". {}", oldest.remedy().trim_end_matches('.')),
            None => Ok(()),
        }
    }
}

/// What was last seen.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Option<(Instant, Hindrance)>>);

impl Seen {
    pub(crate) fn note(&self, found: Option<Hindrance>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            found.map(|found| (Instant::now(), found));
    }

    pub(crate) fn lately(&self) -> Option<Hindrance> {
        self.within(COUNTS)
    }

    pub(crate) fn within(&self, span: Duration) -> Option<Hindrance> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|(at, _)| at.elapsed() < span).map(|(_, found)| found.clone())
    }
}
