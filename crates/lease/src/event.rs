//! What an elector tells: the events of a term, in order, none missing.
//!
//! Per lease and term: `Elected`, any number of `RenewedLate`, then exactly one of `Lost` and `SteppedDown`.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::identity::{Holder, Name, Term};

/// Something that happened to a lease of this process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Event {
    /// The lease.
    pub name: Name,
    /// The term it happened in.
    pub term: Term,
    /// What happened.
    pub happening: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Happening {
    /// This process holds the lease from now on.
    Elected,
    /// A renewal came later than it should have, but in time.
    RenewedLate {
        /// How much later.
        by: Duration,
    },
    /// This process no longer holds it, against its will.
    Lost(Loss),
    /// This process lets go of it.
    SteppedDown {
        /// For whom.
        successor: Option<Holder>,
    },
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was confirmed in time.
    Deadline,
    /// The store says another process holds it.
    Superseded {
        /// Who.
        by: Holder,
        /// In which term.
        term: Term,
    },
    /// The store says it is no longer held: forced, or lost by the store.
    TakenAway,
    /// The session that was its sign of life is gone.
    BeaconLost,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("no renewal was confirmed in time"),
            Self::Superseded { by, term } => write!(f, "{by} took it in term {term}"),
            Self::TakenAway => f.write_str("the store no longer knows it as held"),
            Self::BeaconLost => f.write_str("the session of its beacon ended"),
        }
    }
}

impl Event {
    /// Whether it ends its term.
    pub fn ends_term(&self) -> bool {
        matches!(self.happening, Happening::Lost(_) | Happening::SteppedDown { .. })
    }
}
