//! Having the beacon noted in a row that is held without it: a term may be won before the beacon is lit.
//!
//! An owner that acquires again is granted the same term as it is, with its beacon noted. From the moment it asks until an answer
//! says that the row does not name the beacon, it may: so it is lost with it.

use crate::clock::Moment;
use crate::event::Loss;
use crate::identity::Name;
use crate::protocol::bug::Bug;
use crate::protocol::input::{Action, Request};
use crate::protocol::lease::{Lease, Noted, Phase};
use crate::protocol::state::State;
use crate::request::Renewed;
use crate::row::Row;

impl State {
    /// Whether a lease is held in a row that should name the beacon, and is not known to.
    pub(crate) fn wants_noting(&self, lease: &Lease) -> bool {
        let unnoted = matches!(&lease.phase, Phase::Holding(held)
            if held.noted != Noted::Yes && held.draining.is_none());
        unnoted && lease.beacon && self.lit && !self.bugs.has(Bug::BeaconNeverNoted)
    }

    pub(crate) fn note_due(&mut self, now: Moment) -> Option<Request> {
        if !self.lit || self.note_at > now {
            return None;
        }
        let wanting = |(_, lease): &(&Name, &Lease)| self.wants_noting(lease);
        let name = self.leases.iter().find(wanting).map(|(name, _)| name.clone())?;
        let request = self.acquire_request(&name, self.leases.get(&name)?, None, now);
        if let Phase::Holding(held) = &mut self.leases.get_mut(&name)?.phase {
            held.noted = Noted::Perhaps;
        }
        Some(Request::Acquire(request))
    }

    /// The store granted what is held: in the same term it is as good as a renewal.
    pub(crate) fn noted(
        &mut self,
        name: &Name,
        row: &Row,
        (sent, now, dark): (Moment, Moment, bool),
        actions: &mut Vec<Action>,
    ) {
        self.note_again(now);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Holding(held) = &mut lease.phase else { return };
        if row.term != held.term {
            return self.lose(name, Loss::TakenAway, now, actions);
        }
        if row.beacon {
            held.noted = Noted::Yes;
            self.note_at = now;
        }
        if dark && row.beacon {
            return self.lose(name, Loss::BeaconLost, now, actions);
        }
        let (step_down, successor) = (row.step_down, row.successor.clone());
        self.renewed((name, row.term), Renewed::Kept { step_down, successor }, sent, now, actions);
    }

    /// Whether the store said that what is held names the beacon.
    #[cfg(test)]
    pub(crate) fn is_noted(&self, name: &Name) -> bool {
        let phase = self.leases.get(name).map(|lease| &lease.phase);
        matches!(phase, Some(Phase::Holding(held)) if held.noted == Noted::Yes)
    }

    /// Not before a little while has passed.
    pub(crate) fn note_again(&mut self, now: Moment) {
        self.note_at = now + self.timing.retry;
    }
}
