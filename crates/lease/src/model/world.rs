//! The state of the model: processes, the store's row, and messages on their way.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::LeaseModel;
use crate::clock::Moment;
use crate::event::{Event, Happening};
use crate::identity::Term;
use crate::protocol::bug::Bug;
use crate::protocol::{Action, Input, Reply, Request, RequestId, State, step};
use crate::row::StoreTime;
use crate::rules::Slot;

/// By how many ticks a clock is set back.
const FAR: i64 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: u32,
    pub(super) processes: Vec<Process>,
    pub(super) slot: Slot,
    /// On their way, in a canonical order: the order among them has no meaning.
    pub(super) messages: Vec<Message>,
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) doubles: u8,
    pub(super) step_downs: u8,
    pub(super) set_backs: u8,
    /// When the owner's last sign of life was sent, in true time.
    pub(super) lived: u32,
    pub(super) cuts: u8,
    pub(super) restarts: u8,
    /// How many sessions there were.
    pub(super) sessions: u8,
    /// The session the row names, the number of restarts it was named after, and whether it ended by itself.
    pub(super) named: (u8, u8, bool),
    /// Whether it was ever taken because it showed no life.
    pub(super) taken_lifeless: bool,
    /// Whether it was ever taken because a beacon was gone.
    pub(super) taken_in_the_dark: bool,
    pub(super) highest: Term,
    pub(super) broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) state: State,
    pub(super) alive: bool,
    /// How many ticks its clock is behind.
    pub(super) lag: u8,
    pub(super) belief: Option<(Term, Moment)>,
    pub(super) told: Option<(Term, bool)>,
    /// The session of its beacon as it knows it, and as the server does; zero: none.
    pub(super) session: u8,
    pub(super) open: u8,
}

/// Most of a state never changes: only what does is hashed.
impl Hash for Process {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let State { leases, in_flight, store_clock, lit, note_at, .. } = &self.state;
        (leases, in_flight, store_clock, lit, note_at).hash(hasher);
        (self.alive, self.lag, self.belief, self.told, self.session, self.open).hash(hasher);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    /// From this process, under this session of its beacon.
    Request(usize, u8, RequestId, Request),
    Reply(usize, RequestId, Reply),
}

impl Message {
    fn stamp(&mut self) -> (usize, &mut RequestId) {
        match self {
            Self::Request(of, _, id, _) | Self::Reply(of, id, _) => (*of, id),
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Process {
    pub(super) fn moment(&self, now: u32) -> Moment {
        Moment::from_nanos(1_000_000_000 * u64::from(100 + now - u32::from(self.lag)))
    }

    pub(super) fn believes(&self, now: u32) -> Option<Term> {
        let flag = self.state.bugs.has(Bug::CachedFlag);
        self.belief
            .filter(|(_, until)| self.alive && (flag || self.moment(now) < *until))
            .map(|(term, _)| term)
    }

    /// Notes what is told of a term; false if it does not fit what was told before.
    fn hear(&mut self, event: &Event) -> bool {
        let fits = match event.happening {
            Happening::Elected => self.told.is_none_or(|(term, open)| !open && term < event.term),
            _ => self.told == Some((event.term, true)),
        };
        self.told = Some((event.term, !event.ends_term()));
        fits
    }
}

impl World {
    /// What the store's clock shows.
    pub(super) fn store_time(&self) -> StoreTime {
        let back = i64::from(self.set_backs) * FAR;
        StoreTime::from_micros((i64::from(self.now) - back) * 1_000_000)
    }

    /// Whether somebody believes.
    pub(super) fn led(&self) -> bool {
        self.processes.iter().any(|process| process.believes(self.now).is_some())
    }

    /// Whether the session the row names is gone, and not because the server was started again.
    pub(super) fn beacon_gone(&self) -> bool {
        let (session, after, _) = self.named;
        let same_server = after == self.restarts || self.slot.bugs.has(Bug::BeaconGoneByRestart);
        let lit = self.slot.row.as_ref().is_some_and(|row| row.beacon);
        lit && same_server && self.processes.iter().all(|process| process.open != session)
    }

    /// The server sees a session end, and lives on.
    pub(super) fn end_session(&mut self, index: usize) {
        let session = std::mem::take(&mut self.processes[index].open);
        self.named.2 |= session != 0 && self.named.0 == session;
    }

    /// Whether someone who knows its beacon to be gone holds the lease by it.
    pub(super) fn held_in_the_dark(&self) -> bool {
        self.slot.row.as_ref().filter(|row| row.beacon).is_some_and(|row| {
            self.processes.iter().any(|process| {
                row.is_of(process.state.incarnation)
                    && process.believes(self.now) == Some(row.term)
                    && process.session != self.named.0
            })
        })
    }

    /// Forgets what has no meaning: the numbers of requests, the order of messages. An answer to what was given up changes nothing,
    /// and is checked to.
    pub(super) fn canonical(&mut self) {
        for (index, process) in self.processes.iter_mut().enumerate() {
            let current = process.state.renumber();
            let now = process.moment(self.now);
            let state = &process.state;
            let broken = &mut self.broken;
            self.messages.retain_mut(|message| {
                let (of, id) = message.stamp();
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
        self.messages.sort_by_cached_key(Message::key);
    }
}

impl LeaseModel {
    pub(super) fn feed(&self, world: &mut World, index: usize, input: Input) {
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
            Action::Send(id, request) => self.send(world, index, id, request),
            Action::Abandon(_) => {}
            Action::Believe { term, until, .. } => process.belief = Some((term, until)),
            Action::Disbelieve(_) => process.belief = None,
            Action::Tell(event) => {
                if !process.hear(&event) {
                    world.broken = Some("I7");
                }
            }
            Action::Cancel { name, term, .. } => {
                let released = process.believes(now) == Some(term);
                self.feed(world, index, Input::WorkEnded(name, term));
                if released {
                    world.broken = Some("I7");
                }
            }
        }
    }

    fn send(&self, world: &mut World, index: usize, id: RequestId, request: Request) {
        let process = &world.processes[index];
        if let Request::Release(release) = &request
            && (process.believes(world.now) == Some(release.term)
                || process.told == Some((release.term, true)))
        {
            world.broken = Some("I7");
        }
        let session = process.session;
        // What is read may be old when it arrives; that it was also late to be asked for adds nothing.
        if matches!(request, Request::Look(_)) {
            self.serve(world, (index, session), id, &request);
        } else {
            world.messages.push(Message::Request(index, session, id, request));
        }
    }
}
