//! A control plane in memory: what is deployed, challenges, reports; and faults on demand.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_agent::{Bundles, Error, Feed, Listing, News, Result, Source};
use holdfast_model::{DomainId, Hostname};
use holdfast_store::{
    Adopted, Adoption, Bundle, Change, Changes, Difference, EdgeReport, Names, Observation,
    Revision, Stranger,
};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::name;

#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    reported: Notify,
    /// Every call fails.
    pub(crate) down: AtomicBool,
    /// Lookups of certificates.
    pub(crate) lookups: AtomicU64,
    /// Lookups wait until this is opened.
    pub(crate) gate: Gate,
    pub(crate) registrations: AtomicU64,
    /// Questions for changes.
    pub(crate) polls: AtomicU64,
    fetched: AtomicU64,
}

#[derive(Default)]
struct State {
    bundles: HashMap<Hostname, Bundle>,
    domains: HashMap<Hostname, DomainId>,
    /// The newest change of each name.
    log: BTreeMap<Revision, Change>,
    at: Revision,
    /// Revisions before this are not kept.
    kept_from: Revision,
    challenges: HashMap<String, String>,
    alpn: HashMap<Hostname, String>,
    reports: Vec<EdgeReport>,
    acknowledged: Revision,
    unregistered: bool,
    /// Who asks is told to ask again after this.
    busy: Option<Duration>,
    refusals: Vec<Instant>,
    /// What is stored of this one's certificate is damaged.
    damaged: Option<Hostname>,
    /// So many certificates are given at once; who asks for one more is refused.
    seats: Option<Arc<Semaphore>>,
    /// Reports with an observation of this name are refused.
    unwelcome: Option<Hostname>,
    strangers: Vec<Stranger>,
    adoptions: Vec<Adoption>,
    adopted: Vec<Adopted>,
    lie: Option<Lie>,
    difference: Difference,
}

impl State {
    /// What came after a revision, or what is said to have.
    fn news(&self, after: Revision, limit: u32) -> Result<News> {
        let fresh = after == Revision::default();
        if !fresh && (after < self.kept_from || after.epoch != self.at.epoch) {
            return Err(Error::RevisionGone);
        }
        if let Some(Lie::Poll { up_to, gone }) = self.lie {
            // Who believes it is not told twice.
            let gone = gone.filter(|_| after != up_to);
            let items = gone.map(|revision| self.all_gone(revision)).unwrap_or_default();
            return Ok(Changes { items, up_to, more: false }.into());
        }
        let mut newer = self.log.range(..).filter(|(at, _)| fresh || **at > after);
        let items: Vec<_> =
            newer.by_ref().take(limit as usize).map(|(_, change)| change.clone()).collect();
        let more = newer.next().is_some();
        let last = items.last().map(|change| change.revision).filter(|_| more);
        let changes = Changes { items, up_to: last.unwrap_or(self.at), more };
        Ok(News { changes, adoptions: self.adoptions.clone() })
    }

    fn all_gone(&self, revision: Revision) -> Vec<Change> {
        let gone = |change: &Change| Change { certificate: None, revision, ..change.clone() };
        self.log.values().map(gone).collect()
    }
}

/// How a control plane can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Nothing is to be served.
    Empty,
    /// Only the first so many names.
    Only(usize),
    /// The listing breaks off.
    Broken,
    /// Its revision is one it was past long ago.
    Back,
    /// A poll gives what came up to here; and that every name is gone, as of the other revision.
    Poll { up_to: Revision, gone: Option<Revision> },
    /// A poll is answered at once.
    Hasty,
}

/// Open unless closed.
pub(crate) struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Gate {
    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        self.0.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn append(&self, name: &Hostname, certificate: Option<&Bundle>) {
        let mut state = self.lock();
        state.at.number += 1;
        let revision = state.at;
        let domain = *state.domains.entry(name.clone()).or_default();
        let certificate = certificate.map(|bundle| (bundle.id, bundle.summary.sha256.clone()));
        state.log.retain(|_, change| change.name != *name);
        state.log.insert(revision, Change { name: name.clone(), domain, certificate, revision });
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Deploys a certificate; gives its fingerprint.
    pub(crate) fn deploy(&self, bundle: &Bundle) -> String {
        let mut state = self.lock();
        state.damaged.take_if(|damaged| *damaged == bundle.name);
        state.bundles.insert(bundle.name.clone(), bundle.clone());
        drop(state);
        self.append(&bundle.name, Some(bundle));
        bundle.summary.sha256.clone()
    }

    /// Deploys a certificate that cannot be read any more, until another is deployed.
    pub(crate) fn deploy_damaged(&self, bundle: &Bundle) {
        self.lock().damaged = Some(bundle.name.clone());
        self.append(&bundle.name, Some(bundle));
    }

    /// Deploys a tombstone.
    pub(crate) fn withdraw(&self, text: &str) {
        self.lock().bundles.remove(&name(text));
        self.append(&name(text), None);
    }

    /// Forgets a name without a tombstone.
    pub(crate) fn forget(&self, text: &str) {
        self.lock().log.retain(|_, change| change.name != name(text));
    }

    /// How many certificates were fetched by changes.
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// What is deployed changes, and nobody is told.
    pub(crate) fn replace_silently(&self, bundle: Bundle) -> String {
        let sha256 = bundle.summary.sha256.clone();
        self.lock().bundles.insert(bundle.name.clone(), bundle);
        sha256
    }

    pub(crate) fn change(&self, text: &str) -> Change {
        self.lock().log.values().find(|change| change.name == name(text)).unwrap().clone()
    }

    /// The newest change to this certificate.
    pub(crate) fn change_of(&self, sha256: &str) -> Option<Change> {
        let is_it = |change: &&Change| {
            change.certificate.as_ref().is_some_and(|(_, deployed)| deployed == sha256)
        };
        self.lock().log.values().find(is_it).cloned()
    }

    pub(crate) fn domain(&self, text: &str) -> DomainId {
        self.lock().domains[&name(text)]
    }

    pub(crate) fn at(&self) -> Revision {
        self.lock().at
    }

    pub(crate) fn challenge(&self, token: &str, answer: &str) {
        self.lock().challenges.insert(token.to_owned(), answer.to_owned());
    }

    pub(crate) fn alpn(&self, text: &str, answer: &str) {
        self.lock().alpn.insert(name(text), answer.to_owned());
    }

    /// As after a restored backup: another epoch, numbers as they are.
    pub(crate) fn new_epoch(&self) {
        let mut state = self.lock();
        state.at.epoch += 1;
        let epoch = state.at.epoch;
        let log = std::mem::take(&mut state.log);
        for change in log.into_values() {
            let revision = Revision { epoch, ..change.revision };
            state.log.insert(revision, Change { revision, ..change });
        }
    }

    /// As after a restored backup that is so many changes old: they are forgotten, and another epoch begins there.
    pub(crate) fn restore(&self, number: i64) {
        let mut state = self.lock();
        state.at.number = number;
        state.log.retain(|at, _| at.number <= number);
        drop(state);
        self.new_epoch();
    }

    /// Who asks is told to ask again later.
    pub(crate) fn be_busy(&self, after: Option<Duration>) {
        self.lock().busy = after;
    }

    /// Revisions before this one are not kept any more.
    pub(crate) fn forget_before(&self, revision: Revision) {
        self.lock().kept_from = revision;
    }

    /// What came later than this was reported to a database that is lost.
    pub(crate) fn forget_reports_after(&self, revision: Revision) {
        self.lock().acknowledged = revision;
    }

    pub(crate) fn forget_edge(&self) {
        let mut state = self.lock();
        (state.unregistered, state.acknowledged) = (true, Revision::default());
    }

    pub(crate) fn seat(&self, at_once: usize) {
        self.lock().seats = Some(Arc::new(Semaphore::new(at_once)));
    }

    pub(crate) fn refuse_observations_of(&self, text: &str) {
        self.lock().unwelcome = Some(name(text));
    }

    /// From now on listings or polls are wrong, or right again.
    pub(crate) fn lie(&self, lie: Option<Lie>) {
        self.lock().lie = lie;
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn lies(&self) -> Option<Lie> {
        self.lock().lie
    }

    /// Asks the edge to take a file over.
    pub(crate) fn adopt(&self, file: &str, text: &str) {
        let adoption = Adoption { file: file.to_owned(), name: name(text) };
        self.lock().adoptions.push(adoption);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn strangers(&self) -> Vec<Stranger> {
        self.lock().strangers.clone()
    }

    pub(crate) fn adopted(&self) -> Vec<Adopted> {
        self.lock().adopted.clone()
    }

    /// What the edge found when it compared itself: names served and not known here, and names not served before.
    pub(crate) fn difference(&self) -> (Vec<String>, Vec<String>) {
        let Difference { unknown, absent } = self.lock().difference.clone();
        (unknown.first, absent.first)
    }

    /// What the edge last complained of.
    pub(crate) fn complaint(&self) -> Option<holdfast_model::Note> {
        self.lock().reports.last()?.error.clone()
    }

    pub(crate) fn reports(&self) -> Vec<EdgeReport> {
        self.lock().reports.clone()
    }

    pub(crate) fn acknowledged(&self) -> Revision {
        self.lock().acknowledged
    }

    /// The newest observation of a name.
    pub(crate) fn observed(&self, text: &str) -> Option<Observation> {
        let state = self.lock();
        let domain = *state.domains.get(&name(text))?;
        let mut all = state.reports.iter().flat_map(|report| &report.observations).rev();
        all.find(|seen| seen.domain == domain).cloned()
    }

    /// Waits until the reports are as wanted.
    pub(crate) async fn until<T>(&self, what: &str, wanted: impl Fn(&Self) -> Option<T>) -> T {
        self.until_within(Duration::from_secs(60), what, wanted).await
    }

    /// The same, where the clock is paused and what is waited for takes its time, or must not.
    pub(crate) async fn until_within<T>(
        &self,
        within: Duration,
        what: &str,
        wanted: impl Fn(&Self) -> Option<T>,
    ) -> T {
        let wait = async {
            loop {
                let notified = self.reported.notified();
                if let Some(found) = wanted(self) {
                    return found;
                }
                notified.await;
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or_else(|_| panic!("waited for {what}"))
    }

    /// Waits until a name was seen with this fingerprint, and nothing wrong.
    pub(crate) async fn until_seen(&self, text: &str, sha256: Option<&str>) {
        let wanted = |memory: &Self| {
            let seen = memory.observed(text)?;
            (seen.sha256.as_deref() == sha256 && seen.error.is_none()).then_some(())
        };
        self.until(&format!("{text} to be seen as {sha256:?}"), wanted).await;
    }

    /// When it was asked in vain.
    pub(crate) fn refusals(&self) -> Vec<Instant> {
        self.lock().refusals.clone()
    }

    fn check(&self) -> Result<()> {
        let refusal = match self.lock().busy {
            _ if self.down.load(Ordering::Relaxed) => {
                Error::Unavailable { source: "the test took it down".into() }
            }
            Some(after) => Error::Busy { after, source: "as the test said".into() },
            None => return Ok(()),
        };
        self.lock().refusals.push(Instant::now());
        Err(refusal)
    }

    async fn look_up(&self, name: &Hostname) -> Result<Option<Bundle>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        let found = self.lock().bundles.get(name).cloned();
        self.gate.pass().await;
        Ok(found)
    }
}

#[async_trait]
impl Source for Memory {
    async fn bundle(&self, name: &Hostname) -> Result<Option<Bundle>> {
        self.look_up(name).await
    }

    async fn domain(&self, name: &Hostname) -> Result<Option<DomainId>> {
        Ok(self.lock().bundles.get(name).map(|bundle| bundle.domain))
    }

    async fn http_answer(&self, token: &str) -> Result<Option<String>> {
        self.check()?;
        Ok(self.lock().challenges.get(token).cloned())
    }

    async fn alpn_answer(&self, name: &Hostname) -> Result<Option<String>> {
        self.check()?;
        Ok(self.lock().alpn.get(name).cloned())
    }

    async fn proof(&self, nonce: &str) -> Result<String> {
        self.check()?;
        Ok(format!("proof of {nonce}"))
    }
}

#[async_trait]
impl Bundles for Memory {
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>> {
        self.check()?;
        let seats = self.lock().seats.clone();
        let seat = seats.map(Semaphore::try_acquire_owned).transpose();
        let _seat = seat.map_err(|full| Error::Unavailable { source: full.into() })?;
        // Refusals come sooner than certificates.
        tokio::task::yield_now().await;
        self.fetched.fetch_add(1, Ordering::Relaxed);
        if self.lock().damaged.as_ref() == Some(&change.name) {
            return Err(Error::Damaged { source: "as the test said".into() });
        }
        Ok(self.lock().bundles.get(&change.name).cloned())
    }
}

#[async_trait]
impl Feed for Memory {
    async fn difference(&self, unknown: &Names, absent: Option<&Names>) -> Result<()> {
        self.check()?;
        let mut state = self.lock();
        state.difference.unknown = unknown.clone();
        if let Some(absent) = absent {
            state.difference.absent = absent.clone();
        }
        drop(state);
        self.reported.notify_waiters();
        Ok(())
    }

    async fn register(&self) -> Result<Revision> {
        self.check()?;
        self.registrations.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        state.unregistered = false;
        Ok(state.acknowledged)
    }

    async fn changes(&self, after: Revision, limit: u32, wait: Duration) -> Result<News> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let deadline = Instant::now() + wait;
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            self.check()?;
            let news = self.lock().news(after, limit)?;
            let nothing = news.changes.items.is_empty()
                && news.changes.up_to == after
                && news.adoptions.is_empty();
            let is_hasty = self.lies() == Some(Lie::Hasty);
            if !nothing
                || is_hasty
                || tokio::time::timeout_at(deadline, changed.changed()).await.is_err()
            {
                return Ok(news);
            }
        }
    }

    async fn desired(&self) -> Result<Listing> {
        self.check()?;
        let state = self.lock();
        let live = state.log.values().filter(|change| change.certificate.is_some());
        let count = match state.lie {
            Some(Lie::Empty) => 0,
            Some(Lie::Only(count)) => count,
            Some(Lie::Broken) => return Err(Error::Nonsense("the listing broke off".to_owned())),
            Some(Lie::Back | Lie::Poll { .. } | Lie::Hasty) | None => usize::MAX,
        };
        let items = live.take(count).cloned().collect();
        let back = i64::from(state.lie == Some(Lie::Back));
        let revision = Revision { number: state.at.number - back, ..state.at };
        Ok(Listing { items, revision })
    }

    async fn report(&self, report: &EdgeReport) -> Result<()> {
        let EdgeReport { strangers, adopted, .. } = report;
        self.check()?;
        let mut state = self.lock();
        if state.unregistered {
            return Err(Error::Unregistered);
        }
        let unwelcome = state.unwelcome.as_ref().and_then(|name| state.domains.get(name));
        if report.observations.iter().any(|seen| Some(&seen.domain) == unwelcome) {
            return Err(Error::Refused { source: "as the test said".into() });
        }
        if let Some(strangers) = strangers {
            state.strangers.clone_from(strangers);
        }
        state.adoptions.retain(|asked| !adopted.iter().any(|one| one.adoption == *asked));
        state.adopted.extend(adopted.iter().cloned());
        state.acknowledged = report.up_to;
        state.reports.push(report.clone());
        drop(state);
        self.reported.notify_waiters();
        Ok(())
    }
}
