//! The certificates at hand: a bounded cache over the source.
//!
//! A name is looked up once however many ask for it at once. What is at hand is served also while the source is away.
//! A swap replaces an entry, and a lookup that began before the swap cannot undo it.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::{Hostname, Note};
use holdfast_store::{Bundle, Observation};
use quick_cache::sync::{Cache, EntryAction};
use tokio::sync::{Mutex, Semaphore, mpsc};
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

/// How long after a failed recheck the next is tried, and after a certificate that cannot be served the next lookup.
const RECHECK_RETRY: Duration = Duration::from_secs(30);

/// So many observations wait to be reported; what finds no room is seen again.
const OBSERVATIONS: usize = 256;

pub(super) struct Shelf {
    source: Arc<dyn Source>,
    maker: Maker,
    known: Cache<Hostname, Arc<Served>>,
    unknown: Cache<Hostname, Instant>,
    /// Names whose certificate is there and cannot be served: until when that is believed, and why.
    unusable: Cache<Hostname, (Instant, Note)>,
    observations: mpsc::Sender<Observation>,
    observed: Mutex<mpsc::Receiver<Observation>>,
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
        let (observations, observed) = mpsc::channel(OBSERVATIONS);
        Self {
            source,
            maker,
            known: Cache::new(entries.max(1)),
            unknown: Cache::new(UNKNOWN_ENTRIES),
            unusable: Cache::new(UNKNOWN_ENTRIES),
            observations,
            observed: Mutex::new(observed),
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
        // Whoever looked it up before us may have found nothing, or nothing that can be served.
        if self.is_known_unknown(name) {
            return Ok(None);
        }
        self.check_usable(name)?;
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
        self.unusable.remove(name);
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

    /// What is to be reported of names that were looked up.
    pub(super) async fn observed(&self) -> Observation {
        match self.observed.lock().await.recv().await {
            Some(observation) => observation,
            None => std::future::pending().await,
        }
    }

    fn check_usable(&self, name: &Hostname) -> Result<()> {
        match self.unusable.get(name) {
            Some((until, why)) if Instant::now() < until => {
                Err(Error::Unusable { name: name.to_string(), source: why.detail.into() })
            }
            _ => Ok(()),
        }
    }

    async fn look_up(&self, name: &Hostname) -> Result<Option<Arc<Served>>> {
        let found = self.load(name).await;
        match &found {
            Err(error) if !error.is_transient() => self.is_unusable(name, error).await,
            // Somebody mended it.
            Ok(Some(served)) if self.unusable.remove(name).is_some() => {
                self.report(name, Some(served.summary.sha256.clone()), None).await;
            }
            _ => {}
        }
        found
    }

    async fn is_unusable(&self, name: &Hostname, error: &Error) {
        let note = error.note();
        tracing::warn!(%name, error = note.detail, "a certificate cannot be served");
        self.unusable.insert(name.clone(), (Instant::now() + RECHECK_RETRY, note.clone()));
        let before = self.served(name);
        self.report(name, before.clone(), Some(note)).await;
        // A swap in between is told of last, as the swap itself will be.
        let now = self.served(name);
        if now != before {
            self.report(name, now, None).await;
        }
    }

    /// The fingerprint at hand for a name.
    fn served(&self, name: &Hostname) -> Option<String> {
        self.known.get(name).map(|served| served.summary.sha256.clone())
    }

    /// Tells what is served for a name, if anything is, and what is wrong with what is stored.
    async fn report(&self, name: &Hostname, sha256: Option<String>, error: Option<Note>) {
        if let Ok(Some(domain)) = self.source.domain(name).await {
            self.observations.try_send(Observation { domain, sha256, error }).ok();
        }
    }

    async fn load(&self, name: &Hostname) -> Result<Option<Arc<Served>>> {
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
                // One that cannot be served was told of already.
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
