//! The sequential lease, in which expiry is an internal event: what state may follow an operation with this answer.
//!
//! The store's time of an operation is known only within bounds: not before what was answered before it began, not after its
//! own answer. So the times of a row are spans, which narrow when a row is shown.

use super::history::{Answer, Asked, Op, Shown};

/// Times of which one is the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Span {
    low: i64,
    high: i64,
}

impl Span {
    fn plus(self, by: i64) -> Self {
        Self { low: self.low + by, high: self.high + by }
    }

    /// The earlier of two.
    fn sooner(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.min(other.high) }
    }

    fn narrowed(self, to: i64) -> Option<Self> {
        (self.low <= to && to <= self.high).then_some(Self { low: to, high: to })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    owner: Option<u32>,
    term: i64,
    beat: i64,
    ttl: i64,
    expires: Span,
    since: Span,
    priority: i16,
    step_down: bool,
    successor: Option<u32>,
}

/// The lease, and the least that the store's clock showed to whoever last wrote. Whoever only reads may show a later time and yet
/// come before: a store may read its clock a while before it commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    row: Option<Row>,
    clock: i64,
}

impl Row {
    /// The same row, if it can be the one shown.
    fn shown(self, shown: &Shown) -> Option<Self> {
        let Row { owner, term, beat, ttl, priority, step_down, successor, .. } = self;
        let same = (owner, term, beat, ttl) == (shown.owner, shown.term, shown.beat, shown.ttl)
            && (priority, step_down, successor)
                == (shown.priority, shown.step_down, shown.successor);
        let (expires, since) =
            (self.expires.narrowed(shown.expires)?, self.since.narrowed(shown.since)?);
        same.then_some(Self { expires, since, ..self })
    }

    fn is_of(&self, who: u32, term: i64) -> bool {
        self.owner == Some(who) && self.term == term
    }

    /// Whether it may be taken whatever the time.
    fn takeable(&self, op: &Op, unchanged: Option<(Option<u32>, i64, i64)>) -> bool {
        let free = self.owner.is_none() && self.successor.is_none_or(|heir| heir == op.who);
        free || self.owner == Some(op.who) || unchanged == Some((self.owner, self.term, self.beat))
    }
}

fn matching(row: Option<Row>, shown: Option<&Shown>) -> Option<Option<Row>> {
    match (row, shown) {
        (None, None) => Some(None),
        (Some(row), Some(shown)) => row.shown(shown).map(Some),
        _ => None,
    }
}

impl State {
    /// What may follow: none if this answer cannot be given here and now. `floor` is what the store's clock showed before it began.
    pub(super) fn after(self, op: &Op, floor: i64) -> Vec<Self> {
        let unknown = op.answer == Answer::Unknown;
        let high = if unknown { op.not_after } else { op.at };
        let time = Span { low: self.clock.max(floor), high };
        let next = |row| Self { row, clock: if op.wrote() { time.low } else { self.clock } };
        if unknown {
            // It acted, or it did not and never will.
            let acted = (time.low <= time.high).then(|| self.acted(op, time)).flatten();
            return acted.map(|row| next(Some(row))).into_iter().chain([self]).collect();
        }
        if time.low > time.high {
            return Vec::new();
        }
        self.answered(op, time).map(next).into_iter().collect()
    }

    /// The row after an operation that did what was asked; none if it could not.
    fn acted(self, op: &Op, time: Span) -> Option<Row> {
        let row = self.row;
        let own = |term: i64| row.filter(|row| row.is_of(op.who, term));
        match op.asked {
            Asked::Look => None,
            Asked::Expire(version) => row
                .filter(|row| (row.owner, row.term, row.beat) == version)
                .map(|row| Row { expires: row.expires.sooner(time), ..row }),
            Asked::Acquire { .. } => self.granted(op, time),
            Asked::Renew { term, ttl } => {
                own(term).map(|row| Row { beat: row.beat + 1, ttl, expires: time.plus(ttl), ..row })
            }
            Asked::Release { term, successor } => own(term).map(|row| {
                let reserve = successor.map_or(0, |(_, reserve)| reserve);
                let (beat, expires) = (row.beat + 1, time.plus(reserve));
                let successor = successor.map(|(heir, _)| heir);
                let (owner, step_down, since) = (None, false, time);
                Row { owner, beat, ttl: reserve, expires, since, step_down, successor, ..row }
            }),
            Asked::Ask { term, successor, over } => row
                .filter(|row| row.owner.is_some() && row.term == term)
                .filter(|row| over.is_none_or(|over| row.priority < over))
                .map(|row| Row { step_down: true, successor: Some(successor), ..row }),
            Asked::Force => row.map(|row| Row {
                owner: None,
                term: row.term + 1,
                beat: 0,
                ttl: 0,
                expires: time,
                since: time,
                step_down: false,
                successor: None,
                ..row
            }),
        }
    }

    fn granted(self, op: &Op, time: Span) -> Option<Row> {
        let Asked::Acquire { above, ttl, priority, unchanged } = op.asked else { return None };
        let expired = |row: &Row| row.expires.low < time.high;
        if self.row.is_some_and(|row| !row.takeable(op, unchanged) && !expired(&row)) {
            return None;
        }
        let again = |row: &Row| row.owner == Some(op.who) && row.term > above;
        if let Some(row) = self.row.filter(again) {
            return Some(Row { beat: row.beat + 1, ttl, expires: time.plus(ttl), priority, ..row });
        }
        let term = self.row.map_or(0, |row| row.term).max(above) + 1;
        let (expires, since) = (time.plus(ttl), time);
        let (owner, beat, step_down, successor) = (Some(op.who), 0, false, None);
        Some(Row { owner, term, beat, ttl, expires, since, priority, step_down, successor })
    }

    /// The row after an operation that was answered so; none if it cannot have been.
    fn answered(self, op: &Op, time: Span) -> Option<Option<Row>> {
        let late = time.high > op.not_after;
        let own = |term: i64| self.row.is_some_and(|row| row.is_of(op.who, term));
        match (&op.asked, &op.answer) {
            (Asked::Look, Answer::Seen(shown)) => matching(self.row, shown.as_ref()),
            (Asked::Acquire { .. }, Answer::Granted(shown)) => {
                self.granted(op, time)?.shown(shown).map(Some)
            }
            (Asked::Acquire { unchanged, .. }, Answer::Refused(shown)) => {
                let row = self.row.filter(|row| !row.takeable(op, *unchanged))?;
                let row = (row.expires.high >= time.low).then_some(Some(row))?;
                shown.as_ref().map_or(Some(row), |shown| matching(row, Some(shown)))
            }
            (Asked::Renew { .. }, Answer::Kept { step_down, successor }) => {
                let row = self.acted(op, time)?;
                let same = (row.step_down, row.successor) == (*step_down, *successor);
                same.then_some(Some(row))
            }
            (Asked::Renew { term, .. }, Answer::Gone(shown)) if !own(*term) => {
                shown.as_ref().map_or(Some(self.row), |shown| matching(self.row, Some(shown)))
            }
            (Asked::Release { .. } | Asked::Ask { .. }, Answer::Done(true)) => {
                self.acted(op, time).map(Some)
            }
            (Asked::Release { .. } | Asked::Ask { .. }, Answer::Done(false)) => {
                (late || self.acted(op, time).is_none()).then_some(self.row)
            }
            (Asked::Force, Answer::Forced(term)) => {
                let row = self.acted(op, time);
                (row.map(|row| row.term) == *term).then_some(row)
            }
            (Asked::Acquire { .. } | Asked::Renew { .. }, Answer::TooLate) => {
                late.then_some(self.row)
            }
            _ => None,
        }
    }
}
