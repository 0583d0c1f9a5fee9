//! Messages between processes and the store: lost, late and doubled, and commits that take time.

use super::Micros;
use super::checker::{Checker, Verdict};
use super::happen::{Flight, Happen};
use super::plan::micros;
use super::store::{Act, Done};
use super::world::World;
use crate::protocol::{Input, Reply, Request, RequestId};

impl World {
    pub(crate) fn send(&mut self, index: usize, id: RequestId, request: Request) -> Verdict {
        let process = &self.processes[index];
        if let Request::Release(release) = &request {
            self.checker.releases(&release.name, release.term, process, self.now)?;
        }
        let give_up = process.moment(self.now) + self.plan.timing.request_timeout;
        let limit = process.clock.true_time(give_up);
        let (incarnation, session) = (process.incarnation, process.session);
        let (sent, arrived) = (self.now, None);
        let flight =
            Flight { process: index, incarnation, session, id, request, sent, arrived, limit };
        if process.cut_out_until > self.now {
            self.processes[index].trouble(self.now, 100);
            return Ok(());
        }
        if let Some(delay) = self.delay(index) {
            self.at(self.now + delay, Happen::Arrive(flight.clone()));
            if !self.calm && self.dice.once_in(100) {
                let later = delay + self.dice.roll(100_000);
                self.at(self.now + later, Happen::Arrive(flight));
            }
        }
        Ok(())
    }

    /// How long a message takes; none if it is lost. What is lost or late is trouble for its process.
    fn delay(&mut self, index: usize) -> Option<Micros> {
        let (now, flaky) = (self.now, self.flaky_until > self.now);
        if self.calm {
            return Some(100 + self.dice.roll(5_000));
        }
        if self.dice.once_in(if flaky { 5 } else { 60 }) {
            self.processes[index].trouble(now, 1);
            return None;
        }
        if self.dice.once_in(if flaky { 6 } else { 60 }) {
            self.processes[index].trouble(now, 1);
            let timing = &self.plan.timing;
            // Just in time, or far too late.
            let most = if self.dice.once_in(2) { timing.request_timeout } else { timing.ttl * 2 };
            return Some(self.dice.roll(micros(most)));
        }
        Some(if self.dice.once_in(4) { 0 } else { self.dice.roll(20_000) })
    }

    pub(crate) fn arrive(&mut self, mut flight: Flight) {
        let now = self.now;
        let arrived = *flight.arrived.get_or_insert(now);
        if !self.store.up {
            self.processes[flight.process].trouble(now, 100);
            return self.answer(&flight, Input::Failed(flight.id));
        }
        let slow = self.slow_until > now;
        let takes = if slow { self.dice.roll(1_500_000) } else { self.dice.roll(2_000) };
        if slow {
            self.processes[flight.process].trouble(now, 1);
        }
        let (session, sent) = (flight.session, flight.sent);
        let (done, acts) = self.store.act(&flight.request, (session, sent), now, now + takes);
        match done {
            Done::Reply(reply) => {
                let takes = if acts.is_empty() { 0 } else { takes };
                let epoch = self.store_epoch;
                self.at(now + takes, Happen::Commit { flight, reply, acts, acted: now, epoch });
            }
            // The statement's own time limit.
            Done::Blocked if now - arrived >= micros(self.plan.timing.request_timeout) => {
                self.processes[flight.process].trouble(now, 100);
                self.answer(&flight, Input::Failed(flight.id));
            }
            Done::Blocked => self.at(now + 1_000, Happen::Arrive(flight)),
        }
    }

    pub(crate) fn commit(
        &mut self,
        flight: &Flight,
        reply: Reply,
        acts: &[Act],
        acted: Micros,
        epoch: u32,
    ) -> Verdict {
        if epoch != self.store_epoch {
            return Ok(());
        }
        self.store.settle(self.now);
        for act in acts {
            self.note(|| format!("store {:?} by p{}", act.after.slot.row, flight.process));
            self.checker.owner_changed(act, &flight.request, &self.plan, acted)?;
            if !self.plan.wild {
                let clocks = 2 * micros(self.plan.timing.margin);
                Checker::acted_in_time(&flight.request, acted, flight.limit + clocks)?;
            }
        }
        if !acts.is_empty() && matches!(flight.request, Request::Release(_) | Request::Ask(_)) {
            self.wake_all(acts);
        }
        self.answer(flight, Input::Answered(flight.id, reply));
        Ok(())
    }

    pub(crate) fn wake_all(&mut self, acts: &[Act]) {
        for act in acts {
            for index in 0..self.processes.len() {
                if !self.calm && self.dice.once_in(10) {
                    continue;
                }
                let incarnation = self.processes[index].incarnation;
                let input = Input::Woken(Some(act.name.clone()));
                let soon = self.now + self.dice.roll(10_000);
                self.at(soon, Happen::News { process: index, incarnation, input });
            }
        }
    }

    /// Sends an answer back: lost, late or twice, now and then.
    fn answer(&mut self, flight: &Flight, input: Input) {
        let (process, incarnation) = (flight.process, flight.incarnation);
        if self.processes[process].cut_in_until > self.now {
            return self.processes[process].trouble(self.now, 100);
        }
        let Some(delay) = self.delay(process) else { return };
        if !self.calm && self.dice.once_in(30) {
            let twice = delay + self.dice.roll(3_000_000);
            let input = input.clone();
            self.at(self.now + twice, Happen::News { process, incarnation, input });
        }
        self.at(self.now + delay, Happen::News { process, incarnation, input });
    }
}
