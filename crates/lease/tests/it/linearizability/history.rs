//! What was asked and answered, when: as plain numbers, so that a process can print it and another read it.

use holdfast_lease::row::Row;
use holdfast_lease::{Holder, Incarnation};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One operation on one lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Op {
    /// The process.
    pub(super) who: u32,
    pub(super) lease: usize,
    /// By the machine's boot clock, which all its processes share: before it was sent, and after it was answered.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) asked: Asked,
    /// By the store's clock: past it nothing is done.
    pub(super) not_after: i64,
    pub(super) answer: Answer,
    /// The store's time in the answer.
    pub(super) at: i64,
}

impl Op {
    /// Whether it changed the row, or may have.
    pub(super) fn wrote(&self) -> bool {
        match &self.answer {
            Answer::Granted(_) | Answer::Kept { .. } | Answer::Unknown => true,
            Answer::Done(done) => *done,
            Answer::Forced(term) => term.is_some(),
            Answer::Seen(_) | Answer::Refused(_) | Answer::Gone(_) | Answer::TooLate => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Asked {
    Look,
    Acquire {
        above: i64,
        ttl: i64,
        priority: i16,
        unchanged: Option<(Option<u32>, i64, i64)>,
    },
    Renew {
        term: i64,
        ttl: i64,
    },
    Release {
        term: i64,
        successor: Option<(u32, i64)>,
    },
    Ask {
        term: i64,
        successor: u32,
        over: Option<i16>,
    },
    Force,
    /// The internal event: a row in exactly this state runs out before its time, because someone is about to take it as lifeless.
    Expire((Option<u32>, i64, i64)),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    Seen(Option<Shown>),
    Granted(Shown),
    Refused(Option<Shown>),
    Kept {
        step_down: bool,
        successor: Option<u32>,
    },
    Gone(Option<Shown>),
    Done(bool),
    Forced(Option<i64>),
    TooLate,
    /// Given up on: it may have acted, or may yet.
    Unknown,
}

/// A row as it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shown {
    pub(super) owner: Option<u32>,
    pub(super) term: i64,
    pub(super) beat: i64,
    pub(super) ttl: i64,
    pub(super) expires: i64,
    pub(super) since: i64,
    pub(super) priority: i16,
    pub(super) step_down: bool,
    pub(super) successor: Option<u32>,
}

impl From<&Row> for Shown {
    fn from(row: &Row) -> Self {
        Self {
            owner: row.owner.as_ref().map(|owner| number(&owner.holder)),
            term: row.term.number(),
            beat: row.beat,
            ttl: i64::try_from(row.ttl.as_micros()).unwrap(),
            expires: row.expires_at.as_micros(),
            since: row.since.as_micros(),
            priority: row.priority.0,
            step_down: row.step_down,
            successor: row.successor.as_ref().map(number),
        }
    }
}

pub(super) fn holder(who: u32) -> Holder {
    Holder::new(who.to_string()).unwrap()
}

pub(super) fn incarnation(who: u32) -> Incarnation {
    Incarnation::from_uuid(Uuid::from_u128(1 + u128::from(who)))
}

pub(super) fn number(holder: &Holder) -> u32 {
    holder.as_str().parse().unwrap()
}
