//! The certificates at hand: a bounded cache over the source.
//!
//! A name is looked up once however many ask for it at once. What is at hand is served also while the source is away.
//! A swap replaces an entry, and a lookup that began before the swap cannot undo it.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::Hostname;
use holdfast_store::Bundle;
use quick_cache::sync::{Cache, EntryAction};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::EdgeLimits;
use super::served::{Maker, Served};
use super::source::Source;
use super::tally::Tally;
use crate::{Error, Result};

/// So many unknown names are remembered.
const UNKNOWN_ENTRIES: usize = 4_096;

/// So many names are looked up at once: visitors of unknown names must not take the whole database.
const LOOKUPS: usize = 32;

/// How long after a failed recheck the next is tried.
const RECHECK_RETRY: Duration = Duration::from_secs(30);

pub(super) struct Shelf {
    source: Arc<dyn Source>,
    maker: Maker,
    known: Cache<Hostname, Arc<Served>>,
    unknown: Cache<Hostname, Instant>,
    lookups: Semaphore,
    lookup_limit: Duration,
    recheck_after: Duration,
    unknown_for: Duration,
    tally: Arc<Tally>,
}

impl Shelf {
    pub(super) fn new(
        source: Arc<dyn Source>,
        maker: Maker,
        entries: usize,
        limits: &EdgeLimits,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            source,
            maker,
            known: Cache::new(entries.max(1)),
            unknown: Cache::new(UNKNOWN_ENTRIES),
            lookups: Semaphore::new(LOOKUPS),
            lookup_limit: limits.lookup,
            recheck_after: limits.recheck,
            unknown_for: limits.unknown,
            tally,
        }
    }

    /// The certificate for a name; none when nothing is deployed for it.
    pub(super) async fn find(self: &Arc<Self>, name: &Hostname) -> Result<Option<Arc<Served>>> {
        if let Some(served) = self.known.get(name) {
            self.recheck_if_due(name, &served);
            return Ok(Some(served));
        }
        if self.is_known_unknown(name) {
            return Ok(None);
        }
        let place = match self.known.get_value_or_guard_async(name).await {
            Ok(served) => return Ok(Some(served)),
            Err(place) => place,
        };
        // Whoever looked it up before us may have found nothing.
        if self.is_known_unknown(name) {
            return Ok(None);
        }
        let Some(served) = self.look_up(name).await? else {
            self.know_unknown(name);
            return Ok(None);
        };
        // Refused when it was swapped or withdrawn meanwhile; then it is this visitor's alone.
        place.insert(served.clone()).ok();
        Ok(Some(served))
    }

    /// Serves this certificate from now on.
    pub(super) fn put(&self, name: &Hostname, served: Served) {
        self.known.insert(name.clone(), Arc::new(self.fresh(served)));
    }

    /// Forgets a name, and for a moment refuses it whatever the source says: it may still have it, for other edges.
    pub(super) fn withdraw(&self, name: &Hostname) {
        self.know_unknown(name);
        self.known.remove(name);
    }

    /// Looks everything up again, each when it is asked for next.
    pub(super) fn recheck_all(&self) {
        for (_, served) in self.known.iter() {
            served.recheck_in(Duration::ZERO);
        }
    }

    fn fresh(&self, served: Served) -> Served {
        served.recheck_in(self.recheck_after);
        served
    }

    fn know_unknown(&self, name: &Hostname) {
        self.unknown.insert(name.clone(), Instant::now() + self.unknown_for);
    }

    fn is_known_unknown(&self, name: &Hostname) -> bool {
        self.unknown.get(name).is_some_and(|until| Instant::now() < until)
    }

    async fn look_up(&self, name: &Hostname) -> Result<Option<Arc<Served>>> {
        let limit = self.lookup_limit;
        let found = timeout(limit, self.ask(name)).await.unwrap_or(Err(Error::Timeout(limit)));
        self.tally.looked_up(found.as_ref().map(Option::is_some).ok());
        let Some(bundle) = found? else { return Ok(None) };
        Ok(Some(Arc::new(self.fresh(self.maker.make(&bundle)?))))
    }

    async fn ask(&self, name: &Hostname) -> Result<Option<Bundle>> {
        // Never closed.
        let _permit = self.lookups.acquire().await.ok();
        self.source.bundle(name).await
    }

    fn recheck_if_due(self: &Arc<Self>, name: &Hostname, served: &Arc<Served>) {
        if served.is_recheck_due(RECHECK_RETRY) {
            let (shelf, name, served) = (self.clone(), name.clone(), served.clone());
            tokio::spawn(async move { shelf.recheck(&name, &served).await });
        }
    }

    /// Looks a name up that is being served. Only the entry that it began from is replaced or dropped.
    async fn recheck(&self, name: &Hostname, before: &Arc<Served>) {
        match self.look_up(name).await {
            Ok(Some(now)) if now.summary.sha256 == before.summary.sha256 => {
                before.recheck_in(self.recheck_after);
            }
            Ok(Some(now)) => self.replace(name, before, now),
            Ok(None) => {
                self.known.remove_if(name, |served| Arc::ptr_eq(served, before));
            }
            Err(error) => {
                tracing::debug!(%name, %error, "served as it is: it cannot be looked up now");
            }
        }
    }

    fn replace(&self, name: &Hostname, before: &Arc<Served>, now: Arc<Served>) {
        // Where the entry is gone there is nothing to replace: the next visitor looks it up.
        drop(self.known.entry(name, Some(Duration::ZERO), |_, served| {
            if Arc::ptr_eq(served, before) {
                *served = now;
            }
            EntryAction::Retain(())
        }));
    }
}
