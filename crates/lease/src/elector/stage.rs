//! A store in memory that does as it is told, on a clock that stands still while anything runs: for tests of the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::lock;
use crate::clock::{Clock, Moment};
use crate::error::StoreError;
use crate::identity::{Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row};
use crate::store::{Listener, Look, MemoryStore, Store};

/// Tokio's clock, which tests pause: it moves on when nobody has anything left to do.
pub(super) struct PausedClock {
    begun: Instant,
    pub(super) sleeps: AtomicU64,
}

impl PausedClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), sleeps: AtomicU64::new(0) })
    }
}

#[async_trait]
impl Clock for PausedClock {
    fn now(&self) -> Moment {
        Moment::default() + self.begun.elapsed() + Duration::from_secs(1)
    }

    async fn sleep_until(&self, moment: Moment) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(moment.since(self.now())).await;
    }
}

/// What a call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Fails,
    Panics,
    Hangs,
    /// It reaches the store when its time is over.
    IsLate,
}

/// How many calls there were, and what becomes of the next ones.
#[derive(Default)]
pub(super) struct Script {
    pub(super) calls: AtomicU32,
    pub(super) releases: AtomicU32,
    pub(super) connects: AtomicU32,
    /// So many calls go wrong, in this way.
    pub(super) calls_to_come: std::sync::Mutex<Option<(u32, Fault)>>,
    pub(super) releases_to_come: std::sync::Mutex<Option<(u32, Fault)>>,
    pub(super) connects_to_come: std::sync::Mutex<Option<(u32, Fault)>>,
    /// So many wake-ups do.
    pub(super) news_to_come: std::sync::Mutex<Option<(u32, Fault)>>,
    pub(super) checks: AtomicU32,
    pub(super) checks_to_come: std::sync::Mutex<Option<(u32, Fault)>>,
}

/// Takes one of the faults to come.
fn next(faults: &std::sync::Mutex<Option<(u32, Fault)>>) -> Option<Fault> {
    let mut faults = lock(faults);
    let (left, fault) = faults.take().filter(|(left, _)| *left > 0)?;
    *faults = Some((left - 1, fault));
    Some(fault)
}

async fn strike(fault: Option<Fault>) -> Result<(), StoreError> {
    match fault {
        Some(Fault::Fails) => Err(StoreError::new("playing", "it was told to fail")),
        Some(Fault::Panics) => panic!("it was told to panic"),
        Some(Fault::Hangs) => std::future::pending().await,
        Some(Fault::IsLate) | None => Ok(()),
    }
}

/// A store that follows the script, and whose clock goes with the paused one.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) store: MemoryStore,
    pub(super) script: Arc<Script>,
    stepped: Arc<std::sync::Mutex<Duration>>,
    clock: Arc<PausedClock>,
}

impl Stage {
    pub(super) fn new(clock: &Arc<PausedClock>) -> Self {
        let (store, script) = (MemoryStore::new(), Arc::default());
        Self { store, script, stepped: Arc::default(), clock: clock.clone() }
    }

    /// Another way to the same leases, with a script of its own.
    pub(super) fn beside(&self) -> Self {
        Self { script: Arc::default(), ..self.clone() }
    }

    async fn called(&self) -> Result<(), StoreError> {
        let elapsed = self.clock.begun.elapsed();
        let before = std::mem::replace(&mut *lock(&self.stepped), elapsed);
        self.store.step_clock(elapsed.saturating_sub(before), false);
        self.script.calls.fetch_add(1, Ordering::Relaxed);
        strike(next(&self.script.calls_to_come)).await
    }
}

#[async_trait]
impl Store for Stage {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        self.called().await?;
        self.store.look(names).await
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        self.called().await?;
        self.store.acquire(request).await
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        self.called().await?;
        self.store.renew(request).await
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        self.called().await?;
        self.script.releases.fetch_add(1, Ordering::Relaxed);
        let fault = next(&self.script.releases_to_come);
        strike(fault).await?;
        if fault == Some(Fault::IsLate) {
            let late =
                request.not_after.since(self.store.look(&[]).await?.at) + Duration::from_millis(1);
            self.store.step_clock(late, false);
        }
        self.store.release(request).await
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        self.called().await?;
        self.store.ask(request).await
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        self.store.force(request).await
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        self.store.list(after, limit).await
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        self.store.history(name, before, limit).await
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        self.store.prune(older_than).await
    }

    fn disconnect(&mut self) {}

    fn listener(&self) -> Option<Box<dyn Listener>> {
        let heard = self.store.listener()?;
        Some(Box::new(Hearing { heard, script: self.script.clone() }))
    }
}

struct Hearing {
    heard: Box<dyn Listener>,
    script: Arc<Script>,
}

#[async_trait]
impl Listener for Hearing {
    async fn connect(&mut self) -> Result<(), StoreError> {
        self.script.connects.fetch_add(1, Ordering::Relaxed);
        strike(next(&self.script.connects_to_come)).await?;
        self.heard.connect().await
    }

    async fn next(&mut self) -> Result<Name, StoreError> {
        let name = self.heard.next().await?;
        strike(next(&self.script.news_to_come)).await?;
        Ok(name)
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        self.script.checks.fetch_add(1, Ordering::Relaxed);
        strike(next(&self.script.checks_to_come)).await
    }
}
