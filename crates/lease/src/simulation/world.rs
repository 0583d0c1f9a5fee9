//! The world of one seed: what happens, in order of true time.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::checker::{Checker, Verdict};
use super::clock::{Skew, WallClock};
use super::plan::{Plan, micros};
use super::process::{Process, Work};
use super::store::{Act, Done, Guard, SimStore};
use super::{Dice, Micros};
use crate::event::Happening;
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::protocol::bug::Bugs;
use crate::protocol::{Action, Input, Reply, Request, RequestId, State, step};

/// A world that does not come to rest is wrong too: some process asks again and again at one moment.
const MOST_EVENTS: u64 = 200_000;

/// Something that will happen.
pub(crate) enum Happen {
    /// A process's own timer.
    Wake {
        process: usize,
        number: u64,
    },
    /// News for a process.
    News {
        process: usize,
        incarnation: Incarnation,
        input: Input,
    },
    /// A request reaches the store.
    Arrive(Flight),
    /// What a request did becomes durable.
    Commit {
        flight: Flight,
        reply: Reply,
        acts: Vec<Act>,
        acted: Micros,
        epoch: u32,
    },
    /// Work tries to write.
    Write {
        process: usize,
        incarnation: Incarnation,
        name: Name,
        term: Term,
    },
    /// Work commits what it wrote.
    WriteCommit {
        name: Name,
        guard: Guard,
    },
    /// Look at who believes.
    Probe(Name),
    Fault,
    StoreUp,
    Restart(usize),
    /// A session's end is noticed by its process.
    SessionLost {
        process: usize,
        incarnation: Incarnation,
    },
}

#[derive(Clone)]
pub(crate) struct Flight {
    process: usize,
    incarnation: Incarnation,
    id: RequestId,
    request: Request,
    arrived: Option<Micros>,
    /// When its sender gives it up, in true time.
    limit: Micros,
}

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
    stubborn_until: Micros,
    queue: BTreeMap<(Micros, u64), Happen>,
    order: u64,
    events: u64,
    unowned_since: Vec<Option<Micros>>,
    trace: Option<Vec<String>>,
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
        let store = SimStore { clock, up: true, tables: BTreeMap::new(), weak: plan.weak, bugs };
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
            stubborn_until,
            queue: BTreeMap::new(),
            order: 0,
            events: 0,
            unowned_since: vec![None; plan.names],
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
        self.best_leads()
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

    fn run_until(&mut self, end: Micros) -> Verdict {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((now, _), happen) = entry.remove_entry();
            self.now = now;
            self.events += 1;
            if self.events > MOST_EVENTS {
                return Err(format!("I9: {MOST_EVENTS} events and no rest"));
            }
            self.happen(happen)?;
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
        let bound = self.plan.owner_within();
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
        self.queue.insert((time.max(self.now), self.order), happen);
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12} {}", self.now, what()));
        }
    }

    fn process(&mut self, index: usize, clock: Skew) -> Process {
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
        }
    }

    pub(crate) fn restart(&mut self, index: usize) -> Verdict {
        let clock = self.processes[index].clock;
        let wakes = self.processes[index].wakes;
        self.processes[index] = self.process(index, clock);
        self.processes[index].wakes = wakes + 1;
        self.contend(index)
    }

    pub(crate) fn contend(&mut self, index: usize) -> Verdict {
        for name in self.names.clone() {
            let wish = self.plan.wish(index);
            self.input(index, Input::Contend(name, wish))?;
        }
        self.input(index, Input::Listening(true))
    }

    fn happen(&mut self, happen: Happen) -> Verdict {
        match happen {
            Happen::Wake { process, number } if self.processes[process].wakes == number => {
                self.input(process, Input::Tick)
            }
            Happen::News { process, incarnation, input }
                if self.processes[process].incarnation == incarnation =>
            {
                self.input(process, input)
            }
            Happen::Arrive(flight) => {
                self.arrive(flight);
                Ok(())
            }
            Happen::Commit { flight, reply, acts, acted, epoch } => {
                self.commit(&flight, reply, &acts, acted, epoch)
            }
            Happen::Write { process, incarnation, name, term } => {
                self.write(process, incarnation, name, term);
                Ok(())
            }
            Happen::WriteCommit { name, guard } => {
                self.store.settle(self.now);
                let guards = &mut self.store.table(&name).guards;
                let open = guards.iter().any(|open| open.id == guard.id);
                guards.retain(|open| open.id != guard.id);
                if open { self.checker.wrote(&name, guard.term) } else { Ok(()) }
            }
            Happen::Probe(name) if self.plan.strict() => {
                Checker::one_believer(&name, &self.processes, self.now)
            }
            Happen::Fault => self.fault(),
            Happen::StoreUp => {
                self.store.up = true;
                Ok(())
            }
            Happen::Restart(index) if !self.processes[index].alive => self.restart(index),
            Happen::SessionLost { process, incarnation }
                if self.processes[process].incarnation == incarnation =>
            {
                self.input(process, Input::SessionLost)
            }
            _ => Ok(()),
        }
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

    fn begin_work(&mut self, index: usize, name: &Name, term: Term) {
        let stubborn = index == 0 && !self.calm && self.dice.once_in(3);
        let incarnation = self.processes[index].incarnation;
        self.processes[index].works.insert(name.clone(), Work { term, stubborn });
        let soon = self.now + self.dice.roll(50_000);
        self.at(soon, Happen::Write { process: index, incarnation, name: name.clone(), term });
    }

    fn cancel_work(&mut self, index: usize, name: &Name, term: Term) {
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

    fn write(&mut self, index: usize, incarnation: Incarnation, name: Name, term: Term) {
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
            let ordinary =
                self.dice.roll(if self.dice.clone().once_in(8) { limit * 3 / 2 } else { 30_000 });
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

    fn send(&mut self, index: usize, id: RequestId, request: Request) -> Verdict {
        let process = &self.processes[index];
        if let Request::Release(release) = &request {
            self.checker.releases(&release.name, release.term, process, self.now)?;
        }
        let give_up = process.moment(self.now) + self.plan.timing.request_timeout;
        let limit = process.clock.true_time(give_up);
        let incarnation = process.incarnation;
        let flight = Flight { process: index, incarnation, id, request, arrived: None, limit };
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

    fn arrive(&mut self, mut flight: Flight) {
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
        let (done, acts) = self.store.act(&flight.request, now, now + takes);
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

    fn commit(
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
