//! Work done under a term: it writes through guards, and now and then it does not stop when told to.

use super::happen::Happen;
use super::store::Guard;
use super::world::World;
use crate::identity::{Incarnation, Name, Term};
use crate::protocol::Input;

/// The work under one term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) term: Term,
    /// It does not stop when told to.
    pub(crate) stubborn: bool,
}

impl World {
    pub(crate) fn begin_work(&mut self, index: usize, name: &Name, term: Term) {
        let stubborn = index == 0 && !self.calm && self.dice.once_in(3);
        let incarnation = self.processes[index].incarnation;
        self.processes[index].works.insert(name.clone(), Work { term, stubborn });
        let soon = self.now + self.dice.roll(50_000);
        self.at(soon, Happen::Write { process: index, incarnation, name: name.clone(), term });
    }

    pub(crate) fn cancel_work(&mut self, index: usize, name: &Name, term: Term) {
        let incarnation = self.processes[index].incarnation;
        let stubborn = self.processes[index].works.get(name).is_some_and(|work| work.stubborn);
        let ends = if stubborn {
            self.stubborn_until.max(self.now)
        } else {
            self.now + self.dice.roll(60_000)
        };
        if !stubborn {
            self.processes[index].works.remove(name);
        }
        let input = Input::WorkEnded(name.clone(), term);
        self.at(ends, Happen::News { process: index, incarnation, input });
    }

    pub(crate) fn write(&mut self, index: usize, incarnation: Incarnation, name: Name, term: Term) {
        let process = &self.processes[index];
        let work = process.works.get(&name).copied().filter(|work| work.term == term);
        let Some(work) = work.filter(|_| process.alive && process.incarnation == incarnation)
        else {
            return;
        };
        if self.now >= self.stubborn_until
            && work.stubborn
            && process.believes(&name, self.now).is_none()
        {
            return;
        }
        let again = Happen::Write { process: index, incarnation, name: name.clone(), term };
        if process.paused_until > self.now {
            let resumed = process.paused_until;
            return self.at(resumed, again);
        }
        self.store.settle(self.now);
        let locked = self.store.table(&name).locked_until > self.now;
        if self.store.up && !locked && self.store.guards(&name, incarnation, term, self.now) {
            let limit = self.plan.guard_limit();
            self.order += 1;
            let guard = Guard { id: self.order, process: index, term, until: self.now + limit };
            self.store.table(&name).guards.push(guard);
            let long = self.dice.clone().once_in(8);
            let ordinary = self.dice.roll(if long { limit * 3 / 2 } else { 30_000 });
            let takes = if work.stubborn { limit * 9 / 10 } else { ordinary };
            self.at(self.now + takes, Happen::WriteCommit { name, guard });
        }
        let pause = if work.stubborn {
            self.plan.guard_limit() / 3
        } else {
            50_000 + self.dice.roll(600_000)
        };
        self.at(self.now + pause, again);
    }
}
