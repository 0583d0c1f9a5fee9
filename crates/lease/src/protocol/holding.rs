//! Holding a lease: renewing it, losing it, letting go of it.

use crate::clock::Moment;
use crate::event::{Event, Happening, Loss};
use crate::identity::{Holder, Name, Term};
use crate::protocol::bug::Bug;
use crate::protocol::input::Action;
use crate::protocol::lease::{
    Draining, Ending, Following, Holding, Lease, Noted, Phase, Releasing,
};
use crate::protocol::state::State;
use crate::request::Renewed;
use crate::row::Row;

impl State {
    /// Ends every term whose time to stop has come.
    pub(crate) fn expire(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let lead = self.timing.lead;
        let over = |held: &Holding| now >= held.deadline - lead;
        let names: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, lease)| matches!(&lease.phase, Phase::Holding(held) if over(held)))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            if !(self.bugs.has(Bug::ErrorKeepsLeadership) && self.cling(&name, now, actions)) {
                self.lose(&name, Loss::Deadline, now, actions);
            }
        }
    }

    /// The bug that takes an error for a reason to go on.
    fn cling(&mut self, name: &Name, now: Moment, actions: &mut Vec<Action>) -> bool {
        let until = now + self.timing.window;
        let lease = self.leases.get_mut(name);
        let Some(Phase::Holding(held)) = lease.map(|lease| &mut lease.phase) else { return false };
        let (term, failing) = (held.term, held.renew_at > held.expected);
        if failing && held.draining.is_none() {
            held.deadline = until;
            actions.push(Action::Believe { name: name.clone(), term, until });
        }
        failing && held.draining.is_none()
    }

    /// The store granted a lease in answer to a request sent at `sent`; `dark`: the beacon it was sent with is gone.
    pub(crate) fn granted(
        &mut self,
        name: &Name,
        row: &Row,
        (sent, now, dark): (Moment, Moment, bool),
        actions: &mut Vec<Action>,
    ) {
        let deadline = self.deadline(sent, now);
        let until = sent + self.timing.ttl;
        let dark = dark && row.beacon && !self.bugs.has(Bug::BeaconLossForgotten);
        let in_time = now < deadline - self.timing.lead && !dark;
        let renew_at = sent + self.timing.renew_every;
        let Some(lease) = self.leases.get_mut(name) else { return };
        match lease.phase {
            Phase::Following(_) => {}
            Phase::Holding(_) => return self.noted(name, row, (sent, now, dark), actions),
            _ => return,
        }
        let term = row.term;
        if !lease.wanted || !in_time {
            // Nobody was told, so nothing has to stop first.
            lease.ended = term;
            let release = Some(Releasing { successor: None, due: now, until });
            lease.phase =
                Phase::Ending(Ending { term, work_ended: true, release, by_choice: false });
            return;
        }
        lease.phase = Phase::Holding(Holding {
            term,
            noted: if row.beacon { Noted::Yes } else { Noted::No },
            deadline,
            renew_at,
            expected: renew_at,
            draining: None,
        });
        actions.push(Action::Believe { name: name.clone(), term, until: deadline });
        actions.push(tell(name, term, Happening::Elected));
    }

    /// The store answered a renewal sent at `sent`.
    pub(crate) fn renewed(
        &mut self,
        (name, term): (&Name, Term),
        answer: Renewed,
        sent: Moment,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let deadline = self.deadline(sent, now);
        let next = sent + self.timing.renew_every;
        let late_after = self.timing.retry;
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Holding(held) = &mut lease.phase else { return };
        if held.term != term {
            return;
        }
        match answer {
            Renewed::Kept { step_down, successor } => {
                held.deadline = deadline;
                let late = sent.since(held.expected);
                (held.renew_at, held.expected) = (next, next);
                if held.draining.is_none() {
                    actions.push(Action::Believe { name: name.clone(), term, until: deadline });
                    if late >= late_after {
                        actions.push(tell(name, term, Happening::RenewedLate { by: late }));
                    }
                }
                if step_down {
                    self.drain(name, successor, now, actions);
                }
            }
            // The store's clock was stepped, or the reply was slow; its time is known anew: ask again at once.
            Renewed::TooLate => held.renew_at = now,
            Renewed::Gone(row) => {
                let loss = match row {
                    Some(Row { owner: Some(owner), term, .. })
                        if owner.incarnation != self.incarnation =>
                    {
                        Loss::Superseded { by: owner.holder, term }
                    }
                    _ => Loss::TakenAway,
                };
                self.lose(name, loss, now, actions);
            }
        }
    }

    /// Others may take what was held with the beacon from now on: it is lost at once, also what is only being granted.
    pub(crate) fn beacon_lost(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.lit = false;
        if let Some(flight) = &mut self.in_flight {
            flight.dark = true;
        }
        if self.bugs.has(Bug::BeaconLossIgnored) {
            return;
        }
        let lost =
            |lease: &Lease| matches!(&lease.phase, Phase::Holding(held) if held.noted != Noted::No);
        let leases = self.leases.iter().filter(|(_, lease)| lost(lease));
        let names: Vec<_> = leases.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.lose(&name, Loss::BeaconLost, now, actions);
        }
    }

    /// Belief ends, then it is told, then the work is cancelled; release comes when the work has ended.
    pub(crate) fn lose(&mut self, name: &Name, loss: Loss, now: Moment, actions: &mut Vec<Action>) {
        let margin = self.timing.margin;
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Holding(held) = &lease.phase else { return };
        let (term, deadline) = (held.term, held.deadline);
        let draining = held.draining.clone();
        // What the store says is another's, or nobody's, is not ours to release.
        let ours = matches!(loss, Loss::Deadline | Loss::BeaconLost);
        let by = if ours { deadline } else { now };
        if draining.is_none() {
            actions.push(Action::Disbelieve(name.clone()));
            actions.push(tell(name, term, Happening::Lost(loss)));
        }
        actions.push(Action::Cancel { name: name.clone(), term, by });
        let by_choice = draining.is_some();
        let successor = draining.and_then(|draining| draining.successor);
        let release = ours.then(|| Releasing { successor, due: now, until: deadline + margin });
        lease.ended = term;
        lease.phase = Phase::Ending(Ending { term, work_ended: false, release, by_choice });
    }

    pub(crate) fn step_down(
        &mut self,
        name: &Name,
        successor: Option<Holder>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        // In favour of oneself: there is nothing to do.
        if successor.as_ref() != Some(&self.holder) {
            self.drain(name, successor, now, actions);
        }
    }

    /// Lets go in order: belief ends, it is told, the work is asked to end. The lease is kept until it has.
    pub(crate) fn drain(
        &mut self,
        name: &Name,
        successor: Option<Holder>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let hasty = self.bugs.has(Bug::ReleaseBeforeLocalLoss);
        let Some(lease) = self.leases.get_mut(name) else { return };
        let Phase::Holding(held) = &mut lease.phase else { return };
        if held.draining.is_some() {
            return;
        }
        let term = held.term;
        if hasty {
            let release = Releasing { successor, due: now, until: held.deadline };
            lease.ended = term;
            lease.phase = Phase::Ending(Ending {
                term,
                work_ended: true,
                release: Some(release),
                by_choice: true,
            });
            return;
        }
        let by = held.deadline;
        held.draining = Some(Draining { successor: successor.clone() });
        actions.push(Action::Disbelieve(name.clone()));
        actions.push(tell(name, term, Happening::SteppedDown { successor }));
        actions.push(Action::Cancel { name: name.clone(), term, by });
    }

    pub(crate) fn work_ended(&mut self, name: &Name, term: Term, now: Moment) {
        let margin = self.timing.margin;
        let Some(lease) = self.leases.get_mut(name) else { return };
        match &mut lease.phase {
            Phase::Holding(held) if held.term == term => {
                let Some(draining) = held.draining.take() else { return };
                let until = held.deadline + margin;
                let release = Releasing { successor: draining.successor, due: now, until };
                lease.ended = term;
                lease.phase = Phase::Ending(Ending {
                    term,
                    work_ended: true,
                    release: Some(release),
                    by_choice: true,
                });
            }
            Phase::Ending(ending) if ending.term == term => {
                ending.work_ended = true;
                if ending.release.is_none() {
                    self.settle(name, now);
                }
            }
            _ => {}
        }
    }
}

/// Follows from now on, giving others the first go until `not_before`.
pub(crate) fn follow(now: Moment, not_before: Moment) -> Phase {
    Phase::Following(Following::new(now, not_before))
}

pub(crate) fn tell(name: &Name, term: Term, happening: Happening) -> Action {
    Action::Tell(Event { name: name.clone(), term, happening })
}
