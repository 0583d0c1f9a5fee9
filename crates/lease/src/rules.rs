//! The sequential lease: what one store does with one row, as pure functions of the store's time.
//!
//! This is the specification. The store in memory runs it; the simulator and the model checker put faults around it; the
//! SQL and Lua of the other stores are held to it by the conformance suite and by the linearizability checker.

use std::time::Duration;

use crate::identity::{Holder, Incarnation, Term};
use crate::protocol::bug::{Bug, Bugs};
use crate::request::{Acquire, Acquired, Ask, Release, Renew, Renewal, Renewed};
use crate::row::{Change, Owner, Row, StoreTime};

/// Why this request may take this row now; none if it may not.
///
/// Only what is expired, released, unchanged for a whole lease, reserved for the asker, or (with a beacon) without a sign of
/// life may be taken.
pub fn may_take(row: &Row, request: &Acquire, beacon_gone: bool, now: StoreTime) -> Option<Change> {
    let reserved_for = |holder: &Holder| row.successor.as_ref() == Some(holder);
    match &row.owner {
        None if reserved_for(&request.holder) => Some(Change::Reserved),
        None if row.successor.is_none() => Some(Change::Released),
        Some(owner) if owner.incarnation == request.incarnation => Some(Change::Reacquired),
        _ if row.expires_at < now => Some(Change::Expired),
        _ if request.unchanged == Some(row.version()) => Some(Change::Unchanged),
        Some(_) if request.beacon && row.beacon && beacon_gone => Some(Change::BeaconGone),
        _ => None,
    }
}

/// The whole of a lease: its row, and what changed hands for the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The row, once there is one.
    pub row: Option<Row>,
    /// Whether the owner's beacon is gone. Only the simulator sets it: a real store asks its own sessions.
    pub beacon_gone: bool,
    /// Bugs seeded by tests.
    pub(crate) bugs: Bugs,
}

/// A change of owner that an operation made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Why.
    pub change: Change,
    /// Who held it before.
    pub from: Option<Holder>,
    /// Who holds it now.
    pub to: Option<Holder>,
    /// The term now.
    pub term: Term,
}

impl Slot {
    /// Acquires: see [`Acquire`].
    pub fn acquire(&mut self, request: &Acquire, now: StoreTime) -> (Acquired, Option<Changed>) {
        if now > request.not_after && !self.bugs.has(Bug::AbandonedRequestActs) {
            return (Acquired::TooLate, None);
        }
        let change = match &self.row {
            None => Change::Created,
            Some(row) => match self.may_take(row, request, now) {
                Some(change) => change,
                None => return (Acquired::Refused(self.row.clone()), None),
            },
        };
        if change == Change::Reacquired
            && let Some(row) = self.row.as_mut().filter(|row| row.term > request.above)
        {
            // The reply to an earlier request was lost: the same term again, from now.
            row.beat += 1;
            row.ttl = request.ttl;
            row.expires_at = now.plus(request.ttl);
            row.priority = request.priority;
            row.beacon = request.beacon;
            return (Acquired::Granted(row.clone()), None);
        }
        let before = self.row.as_ref();
        let last = before.map_or(Term::NONE, |row| row.term);
        let from = before.and_then(|row| row.owner.as_ref()).map(|owner| owner.holder.clone());
        let term = if self.bugs.has(Bug::TermKept) && last > Term::NONE {
            last
        } else {
            last.max(request.above).next()
        };
        let row = self.row.insert(granted(request, term, now));
        self.beacon_gone = false;
        let to = Some(request.holder.clone());
        (Acquired::Granted(row.clone()), Some(Changed { change, from, to, term }))
    }

    fn may_take(&self, row: &Row, request: &Acquire, now: StoreTime) -> Option<Change> {
        let equal = self.bugs.has(Bug::StealOnEqualExpiry) && row.expires_at == now;
        let unreserved = self.bugs.has(Bug::ReservationIgnored) && row.owner.is_none();
        let blind = self.bugs.has(Bug::UnchangedWithoutVersion) && request.unchanged.is_some();
        let stranger = self.bugs.has(Bug::SelfNotRecognised)
            && row.is_of(request.incarnation)
            && row.expires_at >= now;
        match may_take(row, request, self.beacon_gone, now) {
            Some(_) if stranger => None,
            None if equal || unreserved || blind => Some(Change::Expired),
            verdict => verdict,
        }
    }

    /// Renews one lease of a batch: see [`crate::request::Renew`].
    pub fn renew(&mut self, request: &Renew, lease: &Renewal, now: StoreTime) -> Renewed {
        let incarnation = request.incarnation;
        if now > request.not_after && !self.bugs.has(Bug::AbandonedRequestActs) {
            return Renewed::TooLate;
        }
        let by_name = self.bugs.has(Bug::RenewByNameOnly);
        let own = |row: &&mut Row| {
            (by_name && row.owner.is_some()) || row.is_of(incarnation) && row.term == lease.term
        };
        match self.row.as_mut().filter(own) {
            Some(row) => {
                // Never down and never the same: a belated request must not make a row look as it did before.
                row.beat = request.beat.max(row.beat + 1);
                row.ttl = lease.ttl;
                row.expires_at = now.plus(lease.ttl);
                Renewed::Kept { step_down: row.step_down, successor: row.successor.clone() }
            }
            None => Renewed::Gone(self.row.clone()),
        }
    }

    /// Releases: see [`Release`]. True if the lease was the asker's until now.
    pub fn release(&mut self, request: &Release, now: StoreTime) -> (bool, Option<Changed>) {
        if now > request.not_after && !self.bugs.has(Bug::AbandonedRequestActs) {
            return (false, None);
        }
        let own = |row: &&mut Row| row.is_of(request.incarnation) && row.term == request.term;
        let Some(row) = self.row.as_mut().filter(own) else { return (false, None) };
        let from = row.owner.take().map(|owner| owner.holder);
        let term = row.term;
        let reserve = request.successor.as_ref().map_or(Duration::ZERO, |(_, reserve)| *reserve);
        row.beat += 1;
        row.ttl = reserve;
        row.since = now;
        row.expires_at = now.plus(reserve);
        row.step_down = false;
        row.successor = request.successor.as_ref().map(|(holder, _)| holder.clone());
        row.beacon = false;
        let change = if row.successor.is_some() { Change::SteppedDown } else { Change::Departed };
        if self.bugs.has(Bug::RowDeletedOnRelease) {
            self.row = None;
        }
        (true, Some(Changed { change, from, to: None, term }))
    }

    /// Asks the owner to step down: see [`Ask`]. True if it was written.
    pub fn ask(&mut self, request: &Ask, now: StoreTime) -> bool {
        let lower = |row: &Row| request.over.is_none_or(|priority| row.priority < priority);
        let wanted = |row: &&mut Row| {
            row.owner.is_some()
                && row.term == request.term
                && now <= request.not_after
                && lower(row)
        };
        let Some(row) = self.row.as_mut().filter(wanted) else { return false };
        row.step_down = true;
        row.successor.clone_from(&request.successor);
        true
    }

    /// Takes the lease away from whoever holds it: see [`crate::request::Force`].
    pub fn force(&mut self, now: StoreTime) -> Option<Changed> {
        let row = self.row.as_mut()?;
        let from = row.owner.take().map(|owner| owner.holder);
        row.term = row.term.next();
        row.beat = 0;
        row.ttl = Duration::ZERO;
        row.since = now;
        row.expires_at = now;
        row.step_down = false;
        row.successor = None;
        row.beacon = false;
        Some(Changed { change: Change::Forced, from, to: None, term: row.term })
    }

    /// Whether a write under this term and incarnation may be made now.
    pub fn guards(&self, incarnation: Incarnation, term: Term, now: StoreTime) -> bool {
        let expired_too = self.bugs.has(Bug::GuardWithoutExpiry);
        self.row.as_ref().is_some_and(|row| {
            let live = expired_too || row.expires_at > now;
            row.term == term && (expired_too || row.is_of(incarnation)) && live
        })
    }
}

fn granted(request: &Acquire, term: Term, now: StoreTime) -> Row {
    Row {
        owner: Some(Owner { holder: request.holder.clone(), incarnation: request.incarnation }),
        term,
        beat: 0,
        ttl: request.ttl,
        expires_at: now.plus(request.ttl),
        since: now,
        priority: request.priority,
        step_down: false,
        successor: None,
        beacon: request.beacon,
    }
}
