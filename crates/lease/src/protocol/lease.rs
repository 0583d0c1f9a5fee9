//! One lease as this process sees it.

use std::time::Duration;

use crate::clock::Moment;
use crate::identity::{Holder, Priority, Term};
use crate::protocol::sight::Sight;
use crate::row::Version;

/// How a lease is contended for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wish {
    /// Ranks this process among candidates.
    pub priority: Priority,
    /// Take it back from a holder of lower priority.
    pub failback: Option<Failback>,
}

/// When a preferred process takes a lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failback {
    /// How long it must have reached the store without a failure.
    pub stable: Duration,
    /// How long the present holder must have had the lease, and how long to wait between two attempts.
    pub cooldown: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    pub(crate) wish: Wish,
    /// Whether it is held with a beacon, and taken from a holder whose beacon is gone.
    pub(crate) beacon: bool,
    /// Whether it is contended for; false while it is only being brought to an end.
    pub(crate) wanted: bool,
    /// The highest term of this process that is over.
    pub(crate) ended: Term,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Following(Following),
    Holding(Holding),
    Ending(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Following {
    pub(crate) next: Next,
    pub(crate) due: Moment,
    /// Not to acquire before this: someone else is to have the first go.
    pub(crate) not_before: Moment,
    /// When it began to follow.
    pub(crate) began: Moment,
    pub(crate) sight: Option<Sight>,
    /// Whether the row was seen, and nobody need go first if it is let go of.
    pub(crate) ready: bool,
    /// Since when the store has answered every request.
    pub(crate) steady_since: Moment,
    pub(crate) asked_at: Option<Moment>,
}

impl Following {
    pub(crate) fn new(now: Moment, not_before: Moment) -> Self {
        let (next, sight, ready, asked_at) = (Next::Look, None, false, None);
        Self { next, due: now, not_before, began: now, sight, ready, steady_since: now, asked_at }
    }

    pub(crate) fn look_at(&mut self, due: Moment) {
        self.next = Next::Look;
        self.due = due;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    Look,
    Acquire { unchanged: Option<Version> },
    Ask { term: Term },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holding {
    pub(crate) term: Term,
    /// Whether the row names this process's beacon.
    pub(crate) noted: Noted,
    /// When belief ends.
    pub(crate) deadline: Moment,
    /// When to send the next renewal.
    pub(crate) renew_at: Moment,
    /// When the next renewal should have been sent, had nothing failed.
    pub(crate) expected: Moment,
    /// Let go of as soon as the work has ended.
    pub(crate) draining: Option<Draining>,
}

/// Whether a row names the beacon of its owner. Where it may, the lease is lost with the beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Noted {
    No,
    /// It was asked for, and no answer said so.
    Perhaps,
    Yes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Draining {
    pub(crate) successor: Option<Holder>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ending {
    pub(crate) term: Term,
    pub(crate) work_ended: bool,
    pub(crate) release: Option<Releasing>,
    /// Whether the process let go by itself: then others go first.
    pub(crate) by_choice: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Releasing {
    pub(crate) successor: Option<Holder>,
    pub(crate) due: Moment,
    /// From then on the store has let it expire.
    pub(crate) until: Moment,
}
