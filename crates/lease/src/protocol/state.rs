//! The state of one process: its leases, the request on its way, what it knows of the store's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::options::Timing;
use crate::protocol::bug::{Bug, Bugs};
use crate::protocol::input::{Action, Input, Request, RequestId};
use crate::protocol::lease::{Ending, Following, Holding, Lease, Phase, Wish};
use crate::row::StoreTime;

/// Everything the protocol of one process remembers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) holder: Holder,
    pub(crate) incarnation: Incarnation,
    pub(crate) timing: Timing,
    pub(crate) leases: BTreeMap<Name, Lease>,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) store_clock: Option<StoreClock>,
    pub(crate) listening: bool,
    /// When the store's clock was last noticed to have been set back.
    set_back: Option<Moment>,
    /// Whether the beacon of this process is lit.
    pub(crate) lit: bool,
    /// Not to ask before this for the beacon to be noted.
    pub(crate) note_at: Moment,
    /// The highest term of a lease that was forgotten.
    over: Term,
    pub(crate) bugs: Bugs,
    next_id: u64,
    random: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InFlight {
    pub(crate) id: RequestId,
    pub(crate) sent: Moment,
    pub(crate) give_up: Moment,
    pub(crate) request: Request,
    /// The beacon it was sent with has gone out meanwhile: what it is granted is lost already.
    pub(crate) dark: bool,
    /// There was news meanwhile of what it is about: its answer may be older.
    pub(crate) news: bool,
}

/// The store's clock was at least at `at` when this machine's showed `seen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreClock {
    pub(crate) at: StoreTime,
    pub(crate) seen: Moment,
}

impl State {
    /// A process that contends for nothing yet. `seed` makes its waits differ from those of others; zero: no jitter.
    pub fn new(holder: Holder, incarnation: Incarnation, timing: Timing, seed: u64) -> Self {
        Self {
            holder,
            incarnation,
            timing,
            leases: BTreeMap::new(),
            in_flight: None,
            store_clock: None,
            listening: false,
            set_back: None,
            lit: false,
            note_at: Moment::default(),
            over: Term::NONE,
            bugs: Bugs::default(),
            next_id: 0,
            random: seed,
        }
    }

    /// When [`Input::Tick`] is due, if nothing happens before.
    pub fn wake_at(&self) -> Option<Moment> {
        let busy = self.in_flight.is_some();
        let lead = self.timing.lead;
        let leases = self.leases.values().filter_map(|lease| match &lease.phase {
            Phase::Holding(held) if busy || held.draining.is_some() => Some(held.deadline - lead),
            Phase::Holding(held) => Some(held.renew_at.min(held.deadline - lead)),
            Phase::Following(following) if lease.wanted && !busy => Some(following.due),
            Phase::Ending(Ending { work_ended: true, release: Some(release), .. }) if !busy => {
                Some(release.due)
            }
            _ => None,
        });
        let note = self.lit && !busy && self.leases.values().any(|lease| self.wants_noting(lease));
        let others =
            [self.in_flight.as_ref().map(|flight| flight.give_up), note.then_some(self.note_at)];
        leases.chain(others.into_iter().flatten()).min()
    }

    /// Whether nothing is contended for, held or on its way.
    pub fn is_idle(&self) -> bool {
        let idle = |lease: &Lease| matches!(lease.phase, Phase::Idle);
        self.in_flight.is_none() && self.leases.values().all(idle)
    }

    /// The term in which a lease is held and not being let go of.
    pub fn term(&self, name: &Name) -> Option<Term> {
        match &self.leases.get(name)?.phase {
            Phase::Holding(Holding { term, draining: None, .. }) => Some(*term),
            _ => None,
        }
    }

    pub(crate) fn take(&mut self, input: Input, now: Moment, actions: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::Contend { name, wish, beacon } => self.contend(name, wish, beacon, now),
            Input::Withdraw(name) => self.withdraw(&name, now, actions),
            Input::StepDown(name, successor) => self.step_down(&name, successor, now, actions),
            Input::WorkEnded(name, term) => self.work_ended(&name, term, now),
            Input::Woken(name) => self.woken(name.as_ref(), now),
            Input::Listening(listening) => {
                self.listening = listening;
                // Whatever was told while nobody listened is found by looking.
                self.woken(None, now);
            }
            Input::Beacon { lit: true } => self.beacon_lit(now),
            Input::Beacon { lit: false } => self.beacon_lost(now, actions),
            Input::Answered(id, reply) => self.answered(id, reply, now, actions),
            Input::Failed(id) => self.failed(id, now),
            Input::ShutDown => {
                let names: Vec<_> = self.leases.keys().cloned().collect();
                for name in names {
                    self.withdraw(&name, now, actions);
                }
            }
        }
    }

    /// Whether it remembers anything of a lease.
    pub(crate) fn knows(&self, name: &Name) -> bool {
        self.leases.contains_key(name)
    }

    fn contend(&mut self, name: Name, wish: Wish, beacon: bool, now: Moment) {
        let over = self.over;
        let lease = self.leases.entry(name).or_insert_with(|| Lease {
            wish,
            beacon,
            wanted: true,
            ended: over,
            phase: Phase::Idle,
        });
        (lease.wish, lease.beacon) = (wish, beacon);
        lease.wanted = true;
        if lease.phase == Phase::Idle {
            lease.phase = Phase::Following(Following::new(now, now));
        }
    }

    fn withdraw(&mut self, name: &Name, now: Moment, actions: &mut Vec<Action>) {
        self.drain(name, None, now, actions);
        let acquiring = matches!(
            self.in_flight.as_ref().map(|flight| &flight.request),
            Some(Request::Acquire(acquire)) if acquire.name == *name
        );
        let Some(lease) = self.leases.get_mut(name) else { return };
        lease.wanted = false;
        // An acquisition on its way may succeed: its answer decides what is left to release.
        if matches!(lease.phase, Phase::Following(_)) && !acquiring {
            self.rest(name);
        }
    }

    /// Contends no more, and forgets the lease: a process that runs operations under ever new names must not remember them all.
    /// The highest term is kept, for all of them together: none that was told to be over is ever granted again.
    pub(crate) fn rest(&mut self, name: &Name) {
        if let Some(lease) = self.leases.remove(name) {
            self.over = self.over.max(lease.ended);
        }
    }

    /// The store answered a request sent at `sent`. Its clock was read after that: less than it must have shown since the last
    /// answer, by more than a margin, says that it was set back.
    pub(crate) fn heard(&mut self, at: StoreTime, sent: Moment, now: Moment) {
        if let Some(clock) = self.store_clock {
            let elapsed = sent.since(clock.seen);
            let least = clock.at.plus(elapsed.saturating_sub(self.timing.drift_of(elapsed)));
            let set_back = at.plus(self.timing.margin) < least;
            if set_back && !self.bugs.has(Bug::SetBackUnnoticed) {
                self.set_back = Some(now);
            }
        }
        self.store_clock = Some(StoreClock { at, seen: now });
    }

    /// Whether rows may have been dated by the store's clock before it was set back: all of them are renewed or taken in the time
    /// of two leases.
    pub(crate) fn is_set_back(&self, now: Moment) -> bool {
        let while_it_matters = self.timing.still(self.timing.ttl) * 2;
        self.set_back.is_some_and(|noticed| now.since(noticed) < while_it_matters)
    }

    /// The moment belief ends, for a request sent at `sent` whose answer arrives `now`.
    pub(crate) fn deadline(&self, sent: Moment, now: Moment) -> Moment {
        let from = if self.bugs.has(Bug::DeadlineArmedAtReply) { now } else { sent };
        from + self.timing.window
    }

    /// The store's time past which a request sent now must not act: no later than when it is given up.
    pub(crate) fn not_after(&self, now: Moment) -> StoreTime {
        let Some(StoreClock { at, seen }) = self.store_clock else {
            return StoreTime::from_micros(i64::MAX);
        };
        let elapsed = (now + self.timing.request_timeout).since(seen);
        at.plus(elapsed.saturating_sub(self.timing.drift_of(elapsed)))
    }

    pub(crate) fn next_id(&mut self) -> RequestId {
        self.next_id += 1;
        RequestId(self.next_id)
    }

    /// Numbers the request on its way 1, whatever its number was: two states that differ in numbers alone are one.
    #[cfg(test)]
    pub(crate) fn renumber(&mut self) -> Option<RequestId> {
        self.next_id = 1;
        let flight = self.in_flight.as_mut()?;
        Some(std::mem::replace(&mut flight.id, RequestId(1)))
    }

    pub(crate) fn retry(&mut self) -> Duration {
        if self.bugs.has(Bug::RetryAsLongAsTheWindow) {
            return self.timing.window;
        }
        self.timing.retry
    }

    /// A part of `span` that differs from process to process and from time to time (splitmix64).
    pub(crate) fn jitter(&mut self, span: Duration) -> Duration {
        if self.random == 0 {
            return Duration::ZERO;
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        span / 1024 * u32::try_from((mixed ^ (mixed >> 31)) % 1024).unwrap_or_default()
    }
}
