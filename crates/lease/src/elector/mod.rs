//! Electors: many leases of one process, on one connection, renewed in one batch.
//!
//! The driver task alone touches the store and the protocol. Handles read what it publishes: a deadline that is compared
//! at every question, a watch, and a stream of events.

mod beacon;
mod belief;
mod driver;
#[cfg(test)]
mod faults;
mod health;
mod hearing;
mod leadership;
#[cfg(test)]
mod stage;
mod supervision;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub use self::beacon::FullyGuarded;
use self::beacon::Lamp;
use self::belief::Belief;
use self::driver::{Command, Driver};
use self::health::Condition;
pub use self::health::Health;
use self::leadership::Inner;
pub use self::leadership::Leadership;
use self::work::Progress;
pub use self::work::Work;
use crate::clock::{BootClock, Clock};
use crate::error::Error;
use crate::event::Event;
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::options::{Options, Timing};
use crate::protocol::{State, Wish};
use crate::row::Row;
use crate::store::Store;

/// Where a process stands with a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store has not been asked yet, or this process just let go.
    Unknown,
    /// Someone else's, or nobody's: the row as last seen.
    Following(Row),
    /// Held in this term. Whether it still is, ask [`Leadership::is_leader`].
    Leading(Term),
}

impl Standing {
    /// Notes a row that was seen; true if that is news.
    fn follow(&mut self, row: &Row) -> bool {
        let news = *self != Self::Following(row.clone());
        if news {
            *self = Self::Following(row.clone());
        }
        news
    }
}

/// What the driver publishes of one lease.
struct Local {
    belief: Belief,
    standing: watch::Sender<Standing>,
    progress: Mutex<Option<Arc<Progress>>>,
    /// The row as it was last granted to this process.
    granted: Mutex<Option<Row>>,
}

/// What the driver and the handles share.
struct Shared {
    clock: Arc<dyn Clock>,
    holder: Holder,
    incarnation: Incarnation,
    timing: Timing,
    condition: watch::Sender<Condition>,
    listeners: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    locals: Mutex<BTreeMap<Name, Weak<Local>>>,
    /// Two who contend for one lease in one process share a handle.
    handles: Mutex<BTreeMap<Name, Weak<Inner>>>,
    lamp: Mutex<Lamp>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn listeners(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<Event>>> {
        lock(&self.listeners)
    }

    /// The lease whose work has not shown the progress it promised.
    fn stuck(&self) -> Option<String> {
        let now = self.clock.now();
        let leases = lock(&self.locals);
        leases.iter().find_map(|(name, local)| {
            let local = local.upgrade()?;
            let overdue = lock(&local.progress).as_ref()?.overdue(now)?;
            let working = local.belief.holds(now);
            working.then(|| {
                format!("work under {name} is {overdue:?} behind the progress it promised")
            })
        })
    }

    /// Forgets a lease whose last handle is gone, unless a new one has been made.
    fn forget(&self, name: &Name, local: &Arc<Local>) {
        let mut handles = lock(&self.handles);
        let mut locals = lock(&self.locals);
        if locals.get(name).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(local))) {
            locals.remove(name);
            handles.remove(name);
        }
    }
}

/// Contends for leases on behalf of one process.
#[derive(Clone)]
pub struct Elector {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Elector {
    /// Starts an elector with a unique holder name and the machine's own clock. Must be called within a tokio runtime.
    pub fn start(store: impl Store, options: &Options) -> Result<Self, Error> {
        Self::start_as(Box::new(store), options, Holder::unique(), Arc::new(BootClock))
    }

    /// Starts an elector with this holder name and this clock.
    pub fn start_as(
        store: Box<dyn Store>,
        options: &Options,
        holder: Holder,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let timing = options.timing()?;
        let incarnation = Incarnation::random();
        let (seed, _) = incarnation.as_uuid().as_u64_pair();
        let state = State::new(holder.clone(), incarnation, timing.clone(), seed | 1);
        let (commands, receiver) = mpsc::unbounded_channel();
        let (condition, _) = watch::channel(Condition::default());
        let shared = Arc::new(Shared {
            clock,
            holder,
            incarnation,
            timing,
            condition,
            listeners: Mutex::default(),
            locals: Mutex::default(),
            handles: Mutex::default(),
            lamp: Mutex::new(store.beacon().map_or(Lamp::Missing, Lamp::Unlit)),
        });
        if let Some(listener) = store.listener() {
            shared.condition.send_modify(|condition| condition.deaf = true);
            tokio::spawn(hearing::listen(listener, commands.downgrade(), shared.clone()));
        }
        let driver = Driver {
            state,
            store: Arc::new(tokio::sync::Mutex::new(store)),
            shared: shared.clone(),
            commands: receiver,
            leases: BTreeMap::new(),
            works: BTreeMap::new(),
            flight: None,
            detailed: options.enable_detailed_logging,
            leaving: false,
            alone: false,
            withdrawn: BTreeSet::new(),
        };
        tokio::spawn(driver.run());
        Ok(Self { shared, commands })
    }

    /// Contends for a lease until the last clone of the handle is dropped. Who contends for the same lease again gets a clone, and
    /// the last wish counts.
    pub fn contend(&self, name: &Name, wish: Wish) -> Leadership {
        self.contend_as(name, wish, false)
    }

    /// Contends for a lease with a beacon: should this process die, the next one leads at once, not after a whole lease.
    ///
    /// It gives up that at most one process believes it holds the lease, and that belief ends before the store's row does: see
    /// [`FullyGuarded`] for what must be true of the lease. Every contender for it should contend in this way. It takes another
    /// connection, and followers look every [`Options::beacon_interval`]. Refused where the store has no beacons. Must be called
    /// within a tokio runtime.
    pub fn contend_with_beacon(
        &self,
        name: &Name,
        wish: Wish,
        _promise: FullyGuarded,
    ) -> Result<Leadership, Error> {
        let mut lamp = lock(&self.shared.lamp);
        match std::mem::replace(&mut *lamp, Lamp::Kept) {
            Lamp::Missing => {
                *lamp = Lamp::Missing;
                return Err(Error::NoBeacon);
            }
            Lamp::Unlit(beacon) => {
                self.shared.condition.send_modify(|condition| condition.dark = true);
                let commands = self.commands.downgrade();
                tokio::spawn(beacon::keep(beacon, commands, self.shared.clone()));
            }
            Lamp::Kept => {}
        }
        drop(lamp);
        Ok(self.contend_as(name, wish, true))
    }

    fn contend_as(&self, name: &Name, wish: Wish, beacon: bool) -> Leadership {
        let mut handles = lock(&self.shared.handles);
        let known = handles.get(name).and_then(Weak::upgrade);
        let inner = known.unwrap_or_else(|| {
            let (standing, _) = watch::channel(Standing::Unknown);
            let (progress, granted) = (Mutex::default(), Mutex::default());
            let local = Arc::new(Local { belief: Belief::default(), standing, progress, granted });
            lock(&self.shared.locals).insert(name.clone(), Arc::downgrade(&local));
            let (shared, commands) = (self.shared.clone(), self.commands.clone());
            Arc::new(Inner { name: name.clone(), local, shared, commands })
        });
        handles.insert(name.clone(), Arc::downgrade(&inner));
        // Sent while nobody else can make a handle: the driver must see them in the order they were made.
        let local = inner.local.clone();
        self.commands.send(Command::Contend(name.clone(), wish, beacon, local)).ok();
        Leadership(inner)
    }

    /// Runs work under a lease of its own: acquired now or refused with who holds it, kept renewed while the work runs, released at
    /// its end. The work is cancelled, and then dropped, before the lease can end.
    pub async fn operation<T, F, Fut>(&self, name: &Name, work: F) -> Result<T, Error>
    where
        F: FnOnce(Work) -> Fut,
        Fut: Future<Output = T>,
    {
        // Whoever contends for it already keeps its wish.
        let known = lock(&self.shared.handles).get(name).and_then(Weak::upgrade).map(Leadership);
        let lease = known.unwrap_or_else(|| self.contend(name, Wish::default()));
        lease.once(work).await
    }

    /// The events of all leases from now on, in order, none missing.
    pub fn events(&self) -> Events {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut listeners = self.shared.listeners();
        // After the end nobody tells anything: the stream ends at once.
        if !self.shared.condition.borrow().ended {
            listeners.push(sender);
        }
        drop(listeners);
        Events(receiver)
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        let condition = self.shared.condition.borrow().clone();
        condition.judge(self.shared.clock.now(), self.shared.timing.window, self.shared.stuck())
    }

    /// The name people read.
    pub fn holder(&self) -> &Holder {
        &self.shared.holder
    }

    /// The process, as the store compares it.
    pub fn incarnation(&self) -> Incarnation {
        self.shared.incarnation
    }

    /// Lets go of everything in order: work is cancelled, and when it has ended its lease is released. Waits for that, but
    /// not longer than `drain`.
    pub async fn shut_down(&self, drain: Duration) -> Result<(), Error> {
        self.commands.send(Command::ShutDown).ok();
        let mut condition = self.shared.condition.subscribe();
        let ended = condition.wait_for(|condition| condition.ended);
        let limit = self.shared.clock.now() + drain;
        tokio::select! {
            _ = ended => Ok(()),
            () = self.shared.clock.sleep_until(limit) => Err(Error::TimedOut(drain)),
        }
    }
}

/// Events as they happen.
pub struct Events(mpsc::UnboundedReceiver<Event>);

impl Events {
    /// The next event; none when the elector has ended.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}
