//! What may happen next in the model, and what must always be true of it.

use stateright::{Model, Property};
use uuid::Uuid;

use super::world::{Message, Process, World};
use super::{Bounds, LeaseModel, timing};
use crate::identity::{Holder, Incarnation, Term};
use crate::protocol::bug::Bugs;
use crate::protocol::{Input, State, Wish};
use crate::rules::Slot;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Tick,
    Wake(usize),
    Deliver(usize),
    Lose(usize),
    Double(usize),
    Crash(usize),
    Lag(usize),
    LetGo(usize),
    /// The session of a beacon ends.
    Cut(usize),
    /// The store's clock is set back.
    SetBack,
    /// The server is started again: all sessions end.
    Restart,
    /// A process learns that its session has ended.
    Notice(usize),
    /// A process lights its beacon anew.
    Light(usize),
}

/// What must be reachable, or the space would say little.
pub(super) const LOST: &str = "elected though a message was lost";
pub(super) const CRASHED: &str = "a second owner after a crash";
pub(super) const LIFELESS: &str = "taken from an owner that had shown no life";
pub(super) const DARK: &str = "taken from an owner whose beacon was gone";

impl LeaseModel {
    fn process(&self, index: usize) -> Process {
        let holder = Holder::new(format!("p{index}")).unwrap();
        let incarnation = Incarnation::from_uuid(Uuid::from_u128(1 + index as u128));
        let mut state = State::new(holder, incarnation, timing(self.bounds.lags), 0);
        state.bugs = Bugs { seeded: self.bug };
        let (belief, told) = (None, None);
        Process { state, alive: true, lag: 0, belief, told, session: 0, open: 0 }
    }

    fn light(&self, world: &mut World, index: usize) {
        world.sessions += 1;
        let process = &mut world.processes[index];
        (process.session, process.open) = (world.sessions, world.sessions);
        self.feed(world, index, Input::Beacon { lit: true });
    }

    fn process_steps(&self, world: &World, index: usize, steps: &mut Vec<Step>) {
        let (bounds, process) = (&self.bounds, &world.processes[index]);
        let due = process.state.wake_at().is_some_and(|at| at <= process.moment(world.now));
        let led = process.believes(world.now).is_some();
        let behind = process.lag < bounds.lags && u32::from(process.lag) < world.now;
        let unnoticed = process.session != 0 && process.session != process.open;
        let possible = [
            (due, Step::Wake(index)),
            (world.crashes < bounds.crashes, Step::Crash(index)),
            (behind, Step::Lag(index)),
            (world.step_downs < bounds.step_downs && led, Step::LetGo(index)),
            (world.cuts < bounds.cuts && process.open != 0, Step::Cut(index)),
            (unnoticed, Step::Notice(index)),
            (bounds.beacon && process.session == 0, Step::Light(index)),
        ];
        steps.extend(possible.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
    }

    fn take(&self, world: &mut World, step: Step) {
        match step {
            Step::Tick => world.now += 1,
            Step::Wake(index) => self.feed(world, index, Input::Tick),
            Step::Deliver(at) => self.deliver(world, at, false),
            Step::Lose(at) => {
                world.losses += 1;
                world.messages.remove(at);
            }
            Step::Double(at) => {
                world.doubles += 1;
                self.deliver(world, at, true);
            }
            Step::Crash(index) => {
                world.crashes += 1;
                world.end_session(index);
                let process = &mut world.processes[index];
                (process.alive, process.belief, process.session) = (false, None, 0);
            }
            Step::Lag(index) => world.processes[index].lag += 1,
            Step::LetGo(index) => {
                world.step_downs += 1;
                self.feed(world, index, Input::StepDown(self.name.clone(), None));
            }
            Step::Cut(index) => {
                world.cuts += 1;
                world.end_session(index);
            }
            Step::SetBack => world.set_backs += 1,
            Step::Restart => {
                world.restarts += 1;
                world.processes.iter_mut().for_each(|process| process.open = 0);
            }
            Step::Notice(index) => {
                world.processes[index].session = 0;
                self.feed(world, index, Input::Beacon { lit: false });
            }
            Step::Light(index) => self.light(world, index),
        }
    }
}

impl Model for LeaseModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            now: 0,
            processes: (0..self.bounds.processes).map(|index| self.process(index)).collect(),
            slot: Slot { bugs: Bugs { seeded: self.bug }, ..Slot::default() },
            messages: Vec::new(),
            crashes: 0,
            losses: 0,
            doubles: 0,
            step_downs: 0,
            set_backs: 0,
            lived: 0,
            cuts: 0,
            restarts: 0,
            sessions: 0,
            named: (0, 0, false),
            taken_lifeless: false,
            taken_in_the_dark: false,
            highest: Term::NONE,
            broken: None,
        };
        for index in 0..self.bounds.processes {
            if self.bounds.beacon {
                self.light(&mut world, index);
            }
            let (name, wish, beacon) = (self.name.clone(), Wish::default(), self.bounds.beacon);
            self.feed(&mut world, index, Input::Contend { name, wish, beacon });
        }
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let bounds = &self.bounds;
        if world.now < bounds.ticks {
            steps.push(Step::Tick);
        }
        if world.set_backs < bounds.set_backs {
            steps.push(Step::SetBack);
        }
        if world.restarts < bounds.restarts {
            steps.push(Step::Restart);
        }
        for index in 0..world.processes.len() {
            if world.processes[index].alive {
                self.process_steps(world, index, steps);
            }
        }
        for (at, message) in world.messages.iter().enumerate() {
            steps.push(Step::Deliver(at));
            if world.losses < bounds.losses {
                steps.push(Step::Lose(at));
            }
            if world.doubles < bounds.doubles && matches!(message, Message::Request(..)) {
                steps.push(Step::Double(at));
            }
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        self.take(&mut world, step);
        world.canonical();
        if world.held_in_the_dark() {
            world.broken = Some("I5");
        }
        Some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        let Bounds { messages, terms, .. } = self.bounds;
        world.messages.len() <= messages && world.highest.number() <= terms
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1: one believer", |model: &Self, world: &World| {
                let believes = |process: &&Process| process.believes(world.now).is_some();
                model.bounds.beacon || world.processes.iter().filter(believes).count() <= 1
            }),
            Property::always("I2: belief within expiry", |model: &Self, world: &World| {
                model.bounds.beacon || world.processes.iter().all(|process| covered(world, process))
            }),
            Property::always("I3: terms rise", |_, world: &World| world.broken != Some("I3")),
            Property::always("I5: only what may be taken", |_, world: &World| {
                world.broken != Some("I5")
            }),
            Property::always("I6: what was given up changes nothing", |_, world: &World| {
                world.broken != Some("I6")
            }),
            Property::always("I7: lost before released", |_, world: &World| {
                world.broken != Some("I7")
            }),
            Property::sometimes(LOST, |_, world: &World| world.losses > 0 && world.led()),
            Property::sometimes(CRASHED, |_, world: &World| {
                world.crashes > 0 && world.highest > Term::new(1)
            }),
            Property::sometimes(LIFELESS, |_, world: &World| world.taken_lifeless),
            Property::sometimes(DARK, |_, world: &World| world.taken_in_the_dark),
        ]
    }
}

/// Whether the store's row bears out what a process believes.
fn covered(world: &World, process: &Process) -> bool {
    process.believes(world.now).is_none_or(|term| {
        world.slot.row.as_ref().is_some_and(|row| {
            row.is_of(process.state.incarnation)
                && row.term == term
                && row.expires_at >= world.store_time()
        })
    })
}
