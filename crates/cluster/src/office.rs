//! Asking and administering leases on behalf of people, beside the elector and on a connection of its own, which is closed when the
//! answer is there.

use std::time::Duration;

use holdfast_lease::{
    Holder, Name, Store, StoreError,
    request::{Ask, Force},
    row::{Entry, Row, StoreTime},
};
use holdfast_model::Timestamp;
use tokio::sync::{Mutex, MutexGuard};

use crate::{Error, LeaseEntry, LeaseView, Result};

/// More leases than this nobody has.
const ALL: u32 = 1_000;

/// Where leases are asked about.
pub(crate) struct Office {
    store: Mutex<Box<dyn Store>>,
    limit: Duration,
}

fn name(text: &str) -> Result<Name> {
    Name::new(text).map_err(|_| Error::UnknownLease(text.to_owned()))
}

fn time(at: StoreTime) -> Timestamp {
    Timestamp::from_micros(at.as_micros())
}

fn term(term: holdfast_lease::Term) -> u64 {
    u64::try_from(term.number()).unwrap_or(0)
}

fn view(name: &Name, row: &Row, now: StoreTime) -> LeaseView {
    let owner = row.owner.as_ref();
    LeaseView {
        name: name.as_str().to_owned(),
        holder: owner.map(|owner| owner.holder.as_str().to_owned()),
        incarnation: owner.map(|owner| owner.incarnation.as_uuid()),
        term: term(row.term),
        since: time(row.since),
        expires_at: time(row.expires_at),
        held: owner.is_some() && row.expires_at > now,
        priority: row.priority.0,
        successor: row.successor.as_ref().map(|holder| holder.as_str().to_owned()),
    }
}

fn entry(entry: &Entry) -> LeaseEntry {
    let text = |holder: &Option<Holder>| holder.as_ref().map(|holder| holder.as_str().to_owned());
    LeaseEntry {
        id: entry.id,
        at: time(entry.at),
        change: entry.change.as_str(),
        term: term(entry.term),
        from: text(&entry.from),
        to: text(&entry.to),
        note: entry.note.clone(),
    }
}

impl Office {
    pub(crate) fn new(store: Box<dyn Store>, limit: Duration) -> Self {
        Self { store: Mutex::new(store), limit }
    }

    async fn visit(&self) -> Visit<'_> {
        Visit { store: self.store.lock().await, limit: self.limit * 2 }
    }

    pub(crate) async fn leases(&self) -> Result<Vec<LeaseView>> {
        let mut visit = self.visit().await;
        let list = within(visit.limit, visit.store.list(None, ALL)).await?;
        Ok(list.answer.iter().map(|(name, row)| view(name, row, list.at)).collect())
    }

    pub(crate) async fn lease(&self, text: &str) -> Result<LeaseView> {
        let name = name(text)?;
        let names = [name.clone()];
        let mut visit = self.visit().await;
        let look = within(visit.limit, visit.store.look(&names)).await?;
        drop(visit);
        let row = look.answer.first().and_then(|(row, _)| row.as_ref());
        row.map(|row| view(&name, row, look.at)).ok_or_else(|| Error::UnknownLease(text.to_owned()))
    }

    pub(crate) async fn history(
        &self,
        text: &str,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<LeaseEntry>> {
        let name = name(text)?;
        let mut visit = self.visit().await;
        let entries = visit.store.history(&name, before, limit);
        let entries = within(visit.limit, entries).await?;
        drop(visit);
        if entries.is_empty() {
            self.lease(text).await?;
        }
        Ok(entries.iter().map(entry).collect())
    }

    pub(crate) async fn prune(&self, older_than: Duration) -> Result<u64> {
        let mut visit = self.visit().await;
        within(visit.limit, visit.store.prune(older_than)).await
    }

    pub(crate) async fn release(&self, text: &str, note: &str) -> Result<u64> {
        let force = Force { name: name(text)?, note: note.to_owned() };
        let mut visit = self.visit().await;
        let raised = within(visit.limit, visit.store.force(&force)).await?;
        raised.answer.map(term).ok_or_else(|| Error::UnknownLease(text.to_owned()))
    }

    pub(crate) async fn step_down(&self, text: &str, to: Option<&str>) -> Result<()> {
        let name = name(text)?;
        let successor = to.map(Holder::new).transpose()?;
        let mut visit = self.visit().await;
        let names = [name.clone()];
        let look = within(visit.limit, visit.store.look(&names)).await?;
        let Some((Some(row), _)) = look.answer.first() else {
            return Err(Error::UnknownLease(text.to_owned()));
        };
        let not_held = || Error::NotHeld(text.to_owned());
        if row.owner.is_none() || row.expires_at <= look.at {
            return Err(not_held());
        }
        let not_after = look.at.plus(self.limit);
        let ask = Ask { name, term: row.term, successor, over: None, not_after };
        let asked = within(visit.limit, visit.store.ask(&ask)).await?;
        if asked.answer { Ok(()) } else { Err(not_held()) }
    }
}

/// The connection, closed at the end.
struct Visit<'a> {
    store: MutexGuard<'a, Box<dyn Store>>,
    limit: Duration,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.store.disconnect();
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = std::result::Result<T, StoreError>>,
) -> Result<T> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(holdfast_lease::Error::TimedOut(limit).into()),
    }
}
