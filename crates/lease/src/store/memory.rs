//! Leases in memory: for tests, and for programs that may one day have a second process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{Listener, Look, Store};
use crate::error::StoreError;
use crate::identity::{Incarnation, Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row, StoreTime};
use crate::rules::{Changed, Slot};
use crate::store::wall_clock;

/// How many changes of owner are kept.
const KEPT: usize = 10_000;

/// Leases of this process alone. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    table: Arc<Mutex<Table>>,
    wake: broadcast::Sender<Name>,
}

#[derive(Debug, Default)]
struct Table {
    slots: BTreeMap<Name, Slot>,
    history: Vec<Entry>,
    last_id: i64,
    /// How far tests have moved the store's clock.
    step_us: i64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        let (wake, _) = broadcast::channel(256);
        Self { table: Arc::default(), wake }
    }

    /// Whether a write under this term and incarnation may be made now: the guard, for effects in this process.
    pub fn guards(&self, name: &Name, incarnation: Incarnation, term: Term) -> bool {
        let table = self.table();
        let now = table.now();
        table.slots.get(name).is_some_and(|slot| slot.guards(incarnation, term, now))
    }

    /// Steps the store's clock, as an administrator may do to a real one.
    pub fn step_clock(&self, by: Duration, back: bool) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.table().step_us += if back { -by } else { by };
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, name: &Name) {
        self.wake.send(name.clone()).ok();
    }
}

impl Table {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(wall_clock().as_micros().saturating_add(self.step_us))
    }

    fn slot(&mut self, name: &Name) -> &mut Slot {
        self.slots.entry(name.clone()).or_default()
    }

    fn record(
        &mut self,
        name: &Name,
        at: StoreTime,
        changed: Option<Changed>,
        note: Option<String>,
    ) {
        let Some(Changed { change, from, to, term }) = changed else { return };
        self.last_id += 1;
        let (id, name) = (self.last_id, name.clone());
        self.history.push(Entry { id, name, at, change, term, from, to, note });
        let excess = self.history.len().saturating_sub(KEPT);
        self.history.drain(..excess);
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        let table = self.table();
        let row = |name| (table.slots.get(name).and_then(|slot| slot.row.clone()), false);
        Ok(At { at: table.now(), answer: names.iter().map(row).collect() })
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        let mut table = self.table();
        let at = table.now();
        let (answer, changed) = table.slot(&request.name).acquire(request, at);
        table.record(&request.name, at, changed, None);
        Ok(At { at, answer })
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        let mut table = self.table();
        let at = table.now();
        let leases = request.leases.iter();
        let answers = leases.map(|lease| table.slot(&lease.name).renew(request, lease, at));
        Ok(At { at, answer: answers.collect() })
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        let mut table = self.table();
        let at = table.now();
        let (answer, changed) = table.slot(&request.name).release(request, at);
        table.record(&request.name, at, changed, None);
        drop(table);
        self.wake(&request.name);
        Ok(At { at, answer })
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        let mut table = self.table();
        let at = table.now();
        let answer = table.slot(&request.name).ask(request, at);
        drop(table);
        self.wake(&request.name);
        Ok(At { at, answer })
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        let mut table = self.table();
        let at = table.now();
        let changed = table.slot(&request.name).force(at);
        let term = changed.as_ref().map(|changed| changed.term);
        table.record(&request.name, at, changed, Some(request.note.clone()));
        drop(table);
        self.wake(&request.name);
        Ok(At { at, answer: term })
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        let table = self.table();
        let later = table.slots.iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
        let rows = later.filter_map(|(name, slot)| Some((name.clone(), slot.row.clone()?)));
        Ok(At { at: table.now(), answer: rows.take(limit as usize).collect() })
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let table = self.table();
        let wanted =
            |entry: &&Entry| entry.name == *name && before.is_none_or(|before| entry.id < before);
        Ok(table.history.iter().rev().filter(wanted).take(limit as usize).cloned().collect())
    }

    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        let mut table = self.table();
        let (now, before) = (table.now(), table.history.len());
        table.history.retain(|entry| entry.at.plus(older_than) >= now);
        Ok((before - table.history.len()) as u64)
    }

    fn disconnect(&mut self) {}

    fn listener(&self) -> Option<Box<dyn Listener>> {
        Some(Box::new(MemoryListener { wake: self.wake.clone(), receiver: None }))
    }
}

struct MemoryListener {
    wake: broadcast::Sender<Name>,
    receiver: Option<broadcast::Receiver<Name>>,
}

#[async_trait]
impl Listener for MemoryListener {
    async fn connect(&mut self) -> Result<(), StoreError> {
        self.receiver = Some(self.wake.subscribe());
        Ok(())
    }

    async fn next(&mut self) -> Result<Name, StoreError> {
        let receiver = self.receiver.get_or_insert_with(|| self.wake.subscribe());
        receiver.recv().await.map_err(|missed| StoreError::new("listening", missed))
    }
}
