//! The world of one seed: what happens, in order of true time.

use std::collections::BTreeMap;

use super::checker::{Checker, Verdict};
use super::clock::{Skew, WallClock};
use super::happen::Happen;
use super::plan::Plan;
use super::process::Process;
use super::store::SimStore;
use super::{Dice, Micros};
use crate::identity::Name;
use crate::protocol::bug::Bugs;

/// A world that does not come to rest is wrong too: some process asks again and again at one moment.
const MOST_EVENTS: u64 = 200_000;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Micros,
    pub(crate) dice: Dice,
    pub(crate) names: Vec<Name>,
    pub(crate) processes: Vec<Process>,
    pub(crate) store: SimStore,
    pub(crate) checker: Checker,
    pub(crate) calm: bool,
    pub(crate) flaky_until: Micros,
    pub(crate) slow_until: Micros,
    pub(crate) last_step: Micros,
    pub(crate) store_epoch: u32,
    /// How many sessions of beacons there were.
    pub(crate) sessions: u64,
    /// When the last work that does not stop does.
    pub(crate) stubborn_until: Micros,
    /// Boxed: what a map moves about should be small.
    queue: BTreeMap<(Micros, u64), Box<Happen>>,
    pub(crate) order: u64,
    events: u64,
    unowned_since: Vec<Option<Micros>>,
    owner_within: Micros,
    pub(crate) trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(plan: Plan, traced: bool) -> Self {
        let mut dice = Dice(plan.seed);
        let bugs = Bugs { seeded: plan.bug };
        let skew = |dice: &mut Dice| Skew {
            ppm: i64::try_from(dice.roll(9_801)).unwrap_or_default() - 4_900,
            offset: dice.roll(1_000_000_000),
        };
        let grain = if dice.once_in(3) { 10_000 } else { 1 };
        let clock = WallClock { skew: skew(&mut dice), step: 0, grain };
        let store = SimStore::new(clock, plan.weak, bugs);
        let names: Vec<Name> =
            (0..plan.names).map(|index| Name::new(format!("lease-{index}")).unwrap()).collect();
        let owner_within = plan.owner_within();
        let stubborn_until = plan.stormy + owner_within;
        let mut world = Self {
            now: 0,
            names,
            processes: Vec::new(),
            store,
            checker: Checker::default(),
            calm: false,
            flaky_until: 0,
            slow_until: 0,
            last_step: 0,
            store_epoch: 0,
            sessions: 0,
            stubborn_until,
            queue: BTreeMap::new(),
            order: 0,
            events: 0,
            unowned_since: vec![None; plan.names],
            owner_within,
            trace: traced.then(Vec::new),
            dice,
            plan,
        };
        for index in 0..world.plan.processes {
            let clock = skew(&mut world.dice);
            let process = world.process(index, clock);
            world.processes.push(process);
        }
        world
    }

    /// Lives through the storm and the calm after it; the last words of a broken invariant otherwise.
    pub(crate) fn run(&mut self) -> Verdict {
        let ends = self.live();
        ends.map_err(|why| format!("seed {}: {why}", self.plan.seed))
    }

    pub(crate) fn trace(self) -> Vec<String> {
        self.trace.unwrap_or_default()
    }

    fn live(&mut self) -> Verdict {
        for index in 0..self.processes.len() {
            self.contend(index)?;
            self.light_soon(index);
        }
        self.at(self.plan.fault_every, Happen::Fault);
        self.run_until(self.plan.stormy)?;
        self.end_faults()?;
        // The last work to stop, an owner, a failback after its cooldown.
        let quiet = self.stubborn_until + self.plan.owner_within() + 14_000_000;
        self.run_until(quiet)?;
        let settled = self.checker.changes.clone();
        self.owned("I9: in calm")?;
        self.run_until(quiet + 10_000_000)?;
        self.owned("I9: in lasting calm")?;
        if self.checker.changes != settled {
            return Err(format!(
                "I10: leases still change hands in calm: {settled:?}, then {:?}",
                self.checker.changes
            ));
        }
        self.beacons_are_noted()?;
        self.best_leads()
    }

    /// However a term was won, its owner has had its beacon noted in the end. (A belated request may have taken it off the row
    /// again: that costs a fast takeover, and nothing else.)
    fn beacons_are_noted(&self) -> Verdict {
        for name in self.names.iter().filter(|_| self.plan.beacon) {
            let owns = |process: &&Process| process.believes(name, self.now).is_some();
            let noted = |process: &Process| process.state.is_noted(name);
            if !self.processes.iter().find(owns).is_some_and(noted) {
                return Err(format!("I9: {name} is held without a beacon in calm"));
            }
        }
        Ok(())
    }

    fn owned(&self, when: &str) -> Verdict {
        for name in &self.names {
            if !self.processes.iter().any(|process| process.believes(name, self.now).is_some()) {
                return Err(format!("{when} nobody owns {name}"));
            }
        }
        Ok(())
    }

    fn best_leads(&self) -> Verdict {
        let best = self.processes.len() - 1;
        for name in self.names.iter().filter(|_| self.plan.ranked) {
            let leader = self
                .processes
                .iter()
                .position(|process| process.believes(name, self.now).is_some());
            if leader != Some(best) {
                return Err(format!(
                    "I10: {name} is held by process {leader:?}, not by the preferred {best}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn run_until(&mut self, end: Micros) -> Verdict {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((now, _), happen) = entry.remove_entry();
            self.now = now;
            self.events += 1;
            if self.events > MOST_EVENTS {
                return Err(format!("I9: {MOST_EVENTS} events and no rest"));
            }
            self.happen(*happen)?;
            if self.plan.strict() {
                for name in &self.names {
                    Checker::belief_within_expiry(name, &self.processes, &mut self.store, now)?;
                }
            }
            if self.calm {
                self.owned_in_time()?;
            }
        }
        self.now = end;
        Ok(())
    }

    /// I9: once nothing goes wrong, a lease is never without an owner for longer than the bound.
    fn owned_in_time(&mut self) -> Verdict {
        let bound = self.owner_within;
        for (name, since) in self.names.iter().zip(&mut self.unowned_since) {
            if self.processes.iter().any(|process| process.believes(name, self.now).is_some()) {
                *since = None;
            } else if self.now - *since.get_or_insert(self.now) > bound {
                return Err(format!("I9: nobody has owned {name} for {bound} µs"));
            }
        }
        Ok(())
    }

    pub(crate) fn at(&mut self, time: Micros, happen: Happen) {
        self.order += 1;
        self.queue.insert((time.max(self.now), self.order), Box::new(happen));
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12} {}", self.now, what()));
        }
    }
}
