//! Driving the protocol of a process: what it is told, and what it then wants done.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::checker::{Checker, Verdict};
use super::clock::Skew;
use super::happen::Happen;
use super::plan::micros;
use super::process::Process;
use super::world::World;
use crate::event::Happening;
use crate::identity::{Holder, Incarnation};
use crate::protocol::bug::Bugs;
use crate::protocol::{Action, Input, State, step};

impl World {
    pub(crate) fn process(&mut self, index: usize, clock: Skew) -> Process {
        let named = if self.plan.twins && index == 1 { 0 } else { index };
        let holder = Holder::new(format!("p{named}")).unwrap();
        let id =
            (u128::from(self.dice.roll(u64::MAX)) << 64) | u128::from(self.dice.roll(u64::MAX));
        let incarnation = Incarnation::from_uuid(Uuid::from_u128(id));
        let seed = self.dice.roll(u64::MAX) | 1;
        let mut state = State::new(holder.clone(), incarnation, self.plan.timing.clone(), seed);
        state.bugs = Bugs { seeded: self.plan.bug };
        Process {
            holder,
            incarnation,
            state,
            clock,
            alive: true,
            paused_until: 0,
            stalled_until: 0,
            cut_out_until: 0,
            cut_in_until: 0,
            beliefs: BTreeMap::new(),
            works: BTreeMap::new(),
            troubles: Vec::new(),
            wakes: 0,
            session: 0,
        }
    }

    pub(crate) fn restart(&mut self, index: usize) -> Verdict {
        let clock = self.processes[index].clock;
        let wakes = self.processes[index].wakes;
        self.processes[index] = self.process(index, clock);
        self.processes[index].wakes = wakes + 1;
        self.light_soon(index);
        self.contend(index)
    }

    pub(crate) fn contend(&mut self, index: usize) -> Verdict {
        for name in self.names.clone() {
            let input = self.plan.contend(name, index);
            self.input(index, input)?;
        }
        self.input(index, Input::Listening(true))
    }

    /// Gives a process something to think about, now or when it runs again.
    pub(crate) fn input(&mut self, index: usize, input: Input) -> Verdict {
        let process = &mut self.processes[index];
        if !process.alive {
            return Ok(());
        }
        let incarnation = process.incarnation;
        if process.runs_from() > self.now {
            let later = process.runs_from();
            self.at(later, Happen::News { process: index, incarnation, input });
            return Ok(());
        }
        let moment = process.moment(self.now);
        let shown = self.trace.is_some().then(|| format!("{input:?}"));
        let actions = step(&mut process.state, input, moment);
        if let Some(shown) = shown {
            self.note(|| format!("p{index} {moment:?} {shown} => {actions:?}"));
        }
        for action in actions {
            self.action(index, action)?;
        }
        self.nothing_held_in_the_dark(index)?;
        let process = &mut self.processes[index];
        process.wakes += 1;
        if let Some(wake_at) = process.state.wake_at() {
            let (time, number) = (process.clock.true_time(wake_at), process.wakes);
            self.at(time, Happen::Wake { process: index, number });
        }
        Ok(())
    }

    fn action(&mut self, index: usize, action: Action) -> Verdict {
        let now = self.now;
        match action {
            Action::Send(id, request) => self.send(index, id, request),
            Action::Abandon(_) => Ok(()),
            Action::Believe { name, term, until } => {
                let process = &mut self.processes[index];
                process.beliefs.insert(name.clone(), (term, until));
                let last = process.clock.true_time(until).saturating_sub(1);
                self.at(last, Happen::Probe(name.clone()));
                if self.plan.strict() {
                    Checker::one_believer(&name, &self.processes, now)
                } else {
                    Ok(())
                }
            }
            Action::Disbelieve(name) => {
                self.processes[index].beliefs.remove(&name);
                Ok(())
            }
            Action::Tell(event) => {
                let window = micros(self.plan.timing.ttl);
                self.checker.told(&event, &self.processes[index], window, now)?;
                if event.happening == Happening::Elected {
                    self.begin_work(index, &event.name, event.term);
                }
                Ok(())
            }
            Action::Cancel { name, term, .. } => {
                self.cancel_work(index, &name, term);
                Ok(())
            }
        }
    }
}
