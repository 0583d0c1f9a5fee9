//! What goes wrong, and how it ends.

use super::Micros;
use super::checker::Verdict;
use super::happen::Happen;
use super::plan::micros;
use super::world::World;
use crate::identity::Name;
use crate::protocol::Input;
use crate::rules::Slot;

impl World {
    /// One thing goes wrong, and the next is on its way.
    pub(crate) fn fault(&mut self) -> Verdict {
        if self.calm {
            return Ok(());
        }
        let next = self.now + 1 + self.dice.roll(2 * self.plan.fault_every);
        self.at(next, Happen::Fault);
        let count = self.processes.len() as u64;
        let index = usize::try_from(self.dice.roll(count)).unwrap_or_default();
        let kind = self.dice.roll(16);
        self.note(|| format!("fault {kind} at p{index}"));
        match kind {
            0 | 1 => self.crash(index),
            2 => self.pause(index),
            3 => self.stall(index),
            4 => self.cut(index, true, false),
            5 => self.cut(index, false, true),
            6 => self.cut(index, true, true),
            7 => self.crash_store(),
            8 => self.slow_until = self.now + self.dice.between(500_000, 3_000_000),
            9 => self.step_clock(),
            10 => self.force(),
            11 if self.plan.beacon => self.end_session(index, 300_000),
            11 => self.lose_row(),
            12 => return self.step_down(index),
            13 => return self.leave(index),
            14 => return self.deafen(index),
            _ => self.flaky_until = self.now + self.dice.between(500_000, 4_000_000),
        }
        Ok(())
    }

    fn span(&mut self, most: Micros) -> Micros {
        self.now + self.dice.between(100_000, most)
    }

    fn crash(&mut self, index: usize) {
        self.processes[index].alive = false;
        self.end_session(index, 1);
        let later = self.span(5_000_000);
        self.at(later, Happen::Restart(index));
    }

    fn pause(&mut self, index: usize) {
        let until = self.span(8_000_000);
        self.processes[index].paused_until = until;
        self.processes[index].trouble(self.now, 100);
        self.processes[index].trouble(until, 100);
    }

    fn stall(&mut self, index: usize) {
        let until = self.span(5_000_000);
        self.processes[index].stalled_until = until;
        self.processes[index].trouble(self.now, 100);
        self.processes[index].trouble(until, 100);
    }

    fn cut(&mut self, index: usize, out: bool, back: bool) {
        let until = self.span(6_000_000);
        let process = &mut self.processes[index];
        process.trouble(until, 100);
        if out {
            process.cut_out_until = until;
        }
        if back {
            process.cut_in_until = until;
        }
        if out && back {
            self.end_session(index, 2_000_000);
        }
    }

    fn crash_store(&mut self) {
        self.store.crash(self.now);
        self.store_epoch += 1;
        self.end_all_sessions();
        for process in &mut self.processes {
            process.trouble(self.now, 100);
        }
        let later = self.span(3_000_000);
        self.at(later, Happen::StoreUp);
    }

    /// Within the declared limit, less than a margin in a lease; or far, where that is allowed.
    fn step_clock(&mut self) {
        let sign = if self.dice.once_in(2) { 1 } else { -1 };
        if self.plan.wild {
            let far = i64::try_from(self.dice.roll(3_600_000_000)).unwrap_or_default();
            self.store.clock.step += sign * far;
            self.processes.iter_mut().for_each(|process| process.trouble(self.now, 100));
        } else if self.now - self.last_step > 2 * micros(self.plan.timing.ttl) {
            let most = micros(self.plan.timing.margin) * 9 / 10;
            let near = i64::try_from(self.dice.roll(most)).unwrap_or_default();
            self.store.clock.step += sign * near;
            self.last_step = self.now;
            self.processes.iter_mut().for_each(|process| process.trouble(self.now, 1));
        }
    }

    fn any_name(&mut self) -> Name {
        let index = self.dice.roll(self.names.len() as u64);
        self.names[usize::try_from(index).unwrap_or_default()].clone()
    }

    /// An operator takes a lease away.
    fn force(&mut self) {
        let (name, now) = (self.any_name(), self.now);
        let at = self.store.clock.now(now);
        self.store.settle(now);
        let table = self.store.table(&name);
        if self.plan.wild && table.guards.is_empty() && table.locked_until <= now {
            table.slot.force(at);
            table.visible.clone_from(&table.slot.row);
            (table.touched, table.term_began) = (now, now);
        }
    }

    /// FLUSHALL, or a failover to a replica that knew nothing.
    fn lose_row(&mut self) {
        let name = self.any_name();
        if self.plan.weak {
            let bugs = self.store.bugs;
            let table = self.store.table(&name);
            table.slot = Slot { bugs, ..Slot::default() };
            table.visible = None;
        }
    }

    fn step_down(&mut self, index: usize) -> Verdict {
        let name = self.any_name();
        let heir = usize::try_from(self.dice.roll(self.processes.len() as u64)).unwrap_or_default();
        let heir = self.processes[heir].holder.clone();
        let successor = Some(heir).filter(|_| self.dice.once_in(2));
        self.input(index, Input::StepDown(name, successor))
    }

    /// Shut down in order, started again later.
    fn leave(&mut self, index: usize) -> Verdict {
        if self.processes[index].runs_from() > self.now {
            return Ok(());
        }
        let gone = self.now + self.dice.between(500_000, 3_000_000);
        let incarnation = self.processes[index].incarnation;
        for name in self.names.clone() {
            let input = self.plan.contend(name, index);
            self.at(gone, Happen::News { process: index, incarnation, input });
        }
        self.input(index, Input::ShutDown)
    }

    fn deafen(&mut self, index: usize) -> Verdict {
        let hears = self.span(6_000_000);
        let incarnation = self.processes[index].incarnation;
        self.at(hears, Happen::News { process: index, incarnation, input: Input::Listening(true) });
        self.input(index, Input::Listening(false))
    }

    /// From now on nothing goes wrong; what is dead is started again.
    pub(crate) fn end_faults(&mut self) -> Verdict {
        self.note(|| "calm".to_owned());
        self.calm = true;
        (self.flaky_until, self.slow_until) = (0, 0);
        self.store.up = true;
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            (process.paused_until, process.stalled_until) = (0, 0);
            (process.cut_in_until, process.cut_out_until) = (0, 0);
            if process.alive {
                self.contend(index)?;
            } else {
                self.restart(index)?;
            }
        }
        Ok(())
    }
}
