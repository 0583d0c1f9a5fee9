//! The protocol under a model checker: every order of events within small bounds.
//!
//! Time is counted in ticks. Anything may be late: a process wakes up whenever it likes after its time, a message arrives
//! whenever it likes, is lost, or is answered twice; a process may crash, and its clock may fall behind by the declared
//! drift. Bounds are printed with the size of the space.

use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model, Property};
use uuid::Uuid;

use crate::clock::Moment;
use crate::event::{Event, Happening};
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::options::Timing;
use crate::protocol::bug::{Bug, Bugs};
use crate::protocol::{Action, Input, Reply, Request, RequestId, State, Wish, step};
use crate::request::At;
use crate::row::{Row, StoreTime};
use crate::rules::Slot;

const TICK: Duration = Duration::from_secs(1);

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    processes: usize,
    ticks: u32,
    messages: usize,
    crashes: u8,
    losses: u8,
    doubles: u8,
    lags: u8,
    step_downs: u8,
}

#[derive(Clone, Debug)]
struct LeaseModel {
    bounds: Bounds,
    bug: Option<Bug>,
    name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u32,
    processes: Vec<Process>,
    slot: Slot,
    /// On their way, in a canonical order: the order among them has no meaning.
    messages: Vec<Message>,
    crashes: u8,
    losses: u8,
    doubles: u8,
    step_downs: u8,
    highest: Term,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    state: State,
    alive: bool,
    /// How many ticks its clock is behind.
    lag: u8,
    belief: Option<(Term, Moment)>,
    told: Option<(Term, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    Request(usize, RequestId, Request),
    Reply(usize, RequestId, Reply),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Tick,
    Wake(usize),
    Deliver(usize),
    Lose(usize),
    Double(usize),
    Crash(usize),
    Lag(usize),
    LetGo(usize),
}

/// A lease of two ticks, one of them margin, and one more for each tick a clock may fall behind.
fn timing(lags: u8) -> Timing {
    Timing {
        ttl: TICK * (2 + u32::from(lags)),
        window: TICK,
        lead: Duration::ZERO,
        renew_every: TICK,
        request_timeout: TICK,
        retry: TICK,
        poll: TICK,
        reservation: TICK,
        priority_step: TICK,
        drift_ppm: 0,
        margin: TICK,
    }
}

fn store_time(tick: u32) -> StoreTime {
    StoreTime::from_micros(i64::from(tick) * 1_000_000)
}

impl Process {
    fn moment(&self, now: u32) -> Moment {
        Moment::from_nanos(1_000_000_000 * u64::from(100 + now - u32::from(self.lag)))
    }

    fn believes(&self, now: u32) -> Option<Term> {
        let flag = self.state.bugs.has(Bug::CachedFlag);
        self.belief
            .filter(|(_, until)| self.alive && (flag || self.moment(now) < *until))
            .map(|(term, _)| term)
    }
}

impl LeaseModel {
    fn feed(&self, world: &mut World, index: usize, input: Input) {
        let now = world.now;
        let process = &mut world.processes[index];
        let moment = process.moment(now);
        for action in step(&mut process.state, input, moment) {
            self.act(world, index, action);
        }
    }

    fn act(&self, world: &mut World, index: usize, action: Action) {
        let now = world.now;
        let process = &mut world.processes[index];
        match action {
            Action::Send(id, request) => {
                if let Request::Release(release) = &request
                    && (process.believes(now) == Some(release.term)
                        || process.told == Some((release.term, true)))
                {
                    world.broken = Some("I7");
                }
                // What is read may be old when it arrives; that it was also late to be asked for adds nothing.
                if matches!(request, Request::Look(_)) {
                    self.serve(world, index, id, &request);
                } else {
                    world.messages.push(Message::Request(index, id, request));
                }
            }
            Action::Abandon(_) => {}
            Action::Believe { term, until, .. } => process.belief = Some((term, until)),
            Action::Disbelieve(_) => process.belief = None,
            Action::Tell(event) => tell(process, &event, &mut world.broken),
            Action::Cancel { name, term, .. } => {
                self.feed(world, index, Input::WorkEnded(name, term));
            }
        }
    }

    fn serve(&self, world: &mut World, index: usize, id: RequestId, request: &Request) {
        let at = store_time(world.now);
        let before = world.slot.row.clone();
        let reply = match request {
            Request::Look(_) => {
                Reply::Looked(At { at, answer: vec![(before.clone(), world.slot.beacon_gone)] })
            }
            Request::Acquire(acquire) => {
                let (answer, changed) = world.slot.acquire(acquire, at);
                if let Some(changed) = changed {
                    if changed.term <= world.highest {
                        world.broken = Some("I3");
                    }
                    world.highest = world.highest.max(changed.term);
                    let taken = |row: &Row| row.owner.is_some() && !row.is_of(acquire.incarnation);
                    let live = |row: &Row| {
                        row.expires_at >= at && acquire.unchanged != Some(row.version())
                    };
                    if before.as_ref().is_some_and(|row| taken(row) && live(row)) {
                        world.broken = Some("I5");
                    }
                }
                Reply::Acquired(At { at, answer })
            }
            Request::Renew(renew) => {
                let answer = renew
                    .leases
                    .iter()
                    .map(|lease| world.slot.renew(renew.incarnation, lease, renew.not_after, at));
                let answer = answer.collect();
                if world.slot.row != before
                    && !before.as_ref().is_some_and(|row| row.is_of(renew.incarnation))
                {
                    world.broken = Some("I5");
                }
                Reply::Renewed(At { at, answer })
            }
            Request::Release(release) => {
                let (answer, _) = world.slot.release(release, at);
                if world.slot.row.is_none() && before.is_some() {
                    world.broken = Some("I3");
                }
                Reply::Released(At { at, answer })
            }
            Request::Ask(ask) => Reply::Asked(At { at, answer: world.slot.ask(ask, at) }),
        };
        world.messages.push(Message::Reply(index, id, reply));
    }

    fn deliver(&self, world: &mut World, at: usize, twice: bool) {
        let message = if twice { world.messages[at].clone() } else { world.messages.remove(at) };
        match message {
            Message::Request(index, id, request) => self.serve(world, index, id, &request),
            Message::Reply(index, id, reply) if world.processes[index].alive => {
                self.feed(world, index, Input::Answered(id, reply));
            }
            Message::Reply(..) => {}
        }
    }
}

/// Forgets what has no meaning: the numbers of requests. An answer to what was given up changes nothing, and is checked to.
fn canonical(world: &mut World) {
    for (index, process) in world.processes.iter_mut().enumerate() {
        let current = process.state.renumber();
        let now = process.moment(world.now);
        let state = &process.state;
        let broken = &mut world.broken;
        world.messages.retain_mut(|message| {
            let (of, id) = match message {
                Message::Request(of, id, _) | Message::Reply(of, id, _) => (*of, id),
            };
            if of != index {
                return true;
            }
            let stale = Some(*id) != current;
            *id = RequestId(u64::from(!stale));
            let Message::Reply(_, id, reply) = message else { return true };
            if stale && process.alive && state.wake_at().is_none_or(|at| at > now) {
                let mut after = state.clone();
                if !step(&mut after, Input::Answered(*id, reply.clone()), now).is_empty()
                    || after != *state
                {
                    *broken = Some("I6");
                }
            }
            !stale
        });
    }
}

fn tell(process: &mut Process, event: &Event, broken: &mut Option<&'static str>) {
    let fits = match event.happening {
        Happening::Elected => process.told.is_none_or(|(term, open)| !open && term < event.term),
        _ => process.told == Some((event.term, true)),
    };
    if !fits {
        *broken = Some("I7");
    }
    process.told = Some((event.term, !event.ends_term()));
}

impl Model for LeaseModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let bugs = Bugs { seeded: self.bug };
        let processes = (0..self.bounds.processes).map(|index| {
            let holder = Holder::new(format!("p{index}")).unwrap();
            let incarnation = Incarnation::from_uuid(Uuid::from_u128(1 + index as u128));
            let mut state = State::new(holder, incarnation, timing(self.bounds.lags), 0);
            state.bugs = bugs;
            Process { state, alive: true, lag: 0, belief: None, told: None }
        });
        let mut world = World {
            now: 0,
            processes: processes.collect(),
            slot: Slot { bugs, ..Slot::default() },
            messages: Vec::new(),
            crashes: 0,
            losses: 0,
            doubles: 0,
            step_downs: 0,
            highest: Term::NONE,
            broken: None,
        };
        for index in 0..self.bounds.processes {
            self.feed(&mut world, index, Input::Contend(self.name.clone(), Wish::default()));
        }
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let bounds = &self.bounds;
        if world.now < bounds.ticks {
            steps.push(Step::Tick);
        }
        for (index, process) in
            world.processes.iter().enumerate().filter(|(_, process)| process.alive)
        {
            let due = process.state.wake_at().is_some_and(|at| at <= process.moment(world.now));
            if due {
                steps.push(Step::Wake(index));
            }
            if world.crashes < bounds.crashes {
                steps.push(Step::Crash(index));
            }
            if process.lag < bounds.lags && u32::from(process.lag) < world.now {
                steps.push(Step::Lag(index));
            }
            if world.step_downs < bounds.step_downs && process.believes(world.now).is_some() {
                steps.push(Step::LetGo(index));
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

    fn next_state(&self, before: &World, action: Step) -> Option<World> {
        let mut world = before.clone();
        match action {
            Step::Tick => world.now += 1,
            Step::Wake(index) => self.feed(&mut world, index, Input::Tick),
            Step::Deliver(at) => self.deliver(&mut world, at, false),
            Step::Lose(at) => {
                world.losses += 1;
                world.messages.remove(at);
            }
            Step::Double(at) => {
                world.doubles += 1;
                self.deliver(&mut world, at, true);
            }
            Step::Crash(index) => {
                world.crashes += 1;
                world.processes[index].alive = false;
                world.processes[index].belief = None;
            }
            Step::Lag(index) => world.processes[index].lag += 1,
            Step::LetGo(index) => {
                world.step_downs += 1;
                self.feed(&mut world, index, Input::StepDown(self.name.clone(), None));
            }
        }
        canonical(&mut world);
        world.messages.sort_by_cached_key(|message| format!("{message:?}"));
        (world.messages.len() <= self.bounds.messages).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1: one believer", |_, world: &World| {
                world
                    .processes
                    .iter()
                    .filter(|process| process.believes(world.now).is_some())
                    .count()
                    <= 1
            }),
            Property::always("I2: belief within expiry", |_, world: &World| {
                world.processes.iter().all(|process| {
                    process.believes(world.now).is_none_or(|term| {
                        world.slot.row.as_ref().is_some_and(|row| {
                            row.is_of(process.state.incarnation)
                                && row.term == term
                                && row.expires_at >= store_time(world.now)
                        })
                    })
                })
            }),
            Property::always("I3: terms rise", |_, world: &World| world.broken != Some("I3")),
            Property::always("I5: only what may be taken", |_, world: &World| {
                world.broken != Some("I5")
            }),
            Property::always(
                "I6: answers to what was given up change nothing",
                |_, world: &World| world.broken != Some("I6"),
            ),
            Property::always("I7: lost before released", |_, world: &World| {
                world.broken != Some("I7")
            }),
            Property::sometimes("I6: elected though a message was lost", |_, world: &World| {
                world.losses > 0
                    && world.processes.iter().any(|process| process.believes(world.now).is_some())
            }),
            Property::sometimes("a second owner after a crash", |_, world: &World| {
                world.crashes > 0 && world.highest > Term::new(1)
            }),
        ]
    }
}

/// Two contenders, and long enough for a lease to be taken, to expire and to be taken again.
const BOUNDS: Bounds = Bounds {
    processes: 2,
    ticks: 4,
    messages: 2,
    crashes: 0,
    losses: 0,
    doubles: 0,
    lags: 0,
    step_downs: 0,
};

/// What must be reachable, or the space would say little.
const LOST: &str = "I6: elected though a message was lost";
const CRASHED: &str = "a second owner after a crash";

/// Explores the whole space, or until a seeded bug is found: the invariants broken, and the examples found.
#[expect(clippy::disallowed_methods, reason = "how long the checker took is printed, nothing more")]
fn check(bounds: Bounds, bug: Option<Bug>) -> (Vec<&'static str>, Vec<&'static str>) {
    let model = LeaseModel { bounds, bug, name: Name::new("x").unwrap() };
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let enough = if bug.is_some() { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
    let checker = model.checker().threads(threads).finish_when(enough).spawn_dfs().join();
    println!(
        "{bounds:?}, bug {bug:?}: {} states, {} unique, depth {}, {:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
    let found = checker.discoveries().into_keys();
    let (examples, mut broken): (Vec<_>, Vec<_>) =
        found.partition(|found| [LOST, CRASHED].contains(found));
    broken.sort_unstable();
    (broken, examples)
}

fn holds(bounds: Bounds) -> Vec<&'static str> {
    let (broken, examples) = check(bounds, None);
    assert!(broken.is_empty(), "{broken:?}");
    examples
}

#[test]
fn the_invariants_hold_through_a_crash() {
    assert_eq!(holds(Bounds { crashes: 1, ..BOUNDS }), [CRASHED]);
}

#[test]
fn the_invariants_hold_through_a_lost_message() {
    assert_eq!(holds(Bounds { losses: 1, ..BOUNDS }), [LOST]);
}

#[test]
fn the_invariants_hold_through_a_request_served_twice() {
    holds(Bounds { doubles: 1, ..BOUNDS });
}

#[test]
fn the_invariants_hold_while_clocks_fall_behind() {
    holds(Bounds { lags: 1, ..BOUNDS });
}

#[test]
fn the_invariants_hold_through_a_step_down() {
    holds(Bounds { step_downs: 1, ticks: 3, ..BOUNDS });
}

#[test]
fn the_invariants_hold_for_three_contenders() {
    holds(Bounds { processes: 3, ticks: 1, messages: 3, ..BOUNDS });
}

#[test]
fn the_checker_finds_seeded_bugs() {
    let crash = Bounds { crashes: 1, ..BOUNDS };
    let steps = Bounds { step_downs: 1, ..BOUNDS };
    for (bug, bounds, invariant) in [
        (Bug::CachedFlag, BOUNDS, "I"),
        (Bug::TermKept, crash, "I3"),
        (Bug::StealOnEqualExpiry, BOUNDS, "I"),
        (Bug::RowDeletedOnRelease, steps, "I3"),
        (Bug::ReleaseBeforeLocalLoss, steps, "I7"),
    ] {
        let (broken, _) = check(bounds, Some(bug));
        assert!(broken.iter().any(|found| found.starts_with(invariant)), "{bug:?}: {broken:?}");
    }
}
