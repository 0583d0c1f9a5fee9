//! What is asked of a store, and what it answers.
//!
//! Every request that changes something carries `not_after`, by the store's clock: past it the store does nothing.
//! So a request that was given up on, and still lies in some buffer, cannot act later.

use std::time::Duration;

use crate::identity::{Holder, Incarnation, Name, Priority, Term};
use crate::row::{Row, StoreTime, Version};

/// Asks for a lease, in a term above one that is known to be over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The lease.
    pub name: Name,
    /// Who asks, for people to read.
    pub holder: Holder,
    /// Who asks.
    pub incarnation: Incarnation,
    /// The priority to be remembered with it.
    pub priority: Priority,
    /// For how long.
    pub ttl: Duration,
    /// The term granted must be higher: the asker has seen this one end. An own row above it is the answer to an
    /// earlier request whose reply was lost, and is granted again as it is.
    pub above: Term,
    /// The row may be taken in exactly this state, whatever the clock says: it was unchanged for a whole lease.
    pub unchanged: Option<Version>,
    /// The asker keeps a beacon, which is noted with the row; and the row may be taken if its owner's beacon is gone.
    pub beacon: bool,
    /// Past this time the store does nothing.
    pub not_after: StoreTime,
}

/// The answer to [`Acquire`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// It is the asker's, as this row says.
    Granted(Row),
    /// It is not; this is the row that was in the way, where it could be read.
    Refused(Option<Row>),
    /// The request came too late to act.
    TooLate,
}

/// Asks for more time on all leases of a process at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renew {
    /// Whose they are.
    pub incarnation: Incarnation,
    /// Which, and in which terms.
    pub leases: Vec<Renewal>,
    /// When it was sent, in microseconds of the asker's own clock. The beat of each row becomes this, or one more than it was
    /// where that is more: so others can tell how long ago the owner lived without asking the store's clock.
    pub beat: i64,
    /// Past this time the store does nothing.
    pub not_after: StoreTime,
}

/// One lease of a [`Renew`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    /// The lease.
    pub name: Name,
    /// The term it is held in.
    pub term: Term,
    /// For how long from now.
    pub ttl: Duration,
}

/// What became of one lease of a [`Renew`], in the order asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Renewed {
    /// It is kept; someone may have asked the owner to step down.
    Kept {
        /// Whether someone did.
        step_down: bool,
        /// In whose favour.
        successor: Option<Holder>,
    },
    /// It is no longer the asker's; this is the row, where one could be read.
    Gone(Option<Row>),
    /// The request came too late to act.
    TooLate,
}

/// Gives a lease back. The row and its term stay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// The lease.
    pub name: Name,
    /// Whose it is.
    pub incarnation: Incarnation,
    /// The term it is held in.
    pub term: Term,
    /// For whom it is reserved, and for how long.
    pub successor: Option<(Holder, Duration)>,
    /// Past this time the store does nothing.
    pub not_after: StoreTime,
}

/// Asks the owner of a lease to step down; it decides when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The lease.
    pub name: Name,
    /// The term that is to end; another is left alone.
    pub term: Term,
    /// In whose favour.
    pub successor: Option<Holder>,
    /// Only an owner of lower priority is asked; none: any.
    pub over: Option<Priority>,
    /// Past this time the store does nothing.
    pub not_after: StoreTime,
}

/// Takes a lease away from whoever holds it. Its term rises, so that guarded writes under way are refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Force {
    /// The lease.
    pub name: Name,
    /// Who does it, and why; kept in the history.
    pub note: String,
}

/// An answer, and when the store gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct At<T> {
    /// The store's time.
    pub at: StoreTime,
    /// The answer.
    pub answer: T,
}

impl<T> At<T> {
    /// The same time with another answer.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> At<U> {
        At { at: self.at, answer: with(self.answer) }
    }
}
