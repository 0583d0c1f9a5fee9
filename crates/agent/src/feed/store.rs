//! The feed of an edge in the same process as the store.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_store::{
    Actor, Bundle, Change, Changes, EdgeId, EdgeReport, Error as StoreError, Names, NewEdge, Page,
    Revision, SharedStore, Topic,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::session::Session;
use super::{Bundles, Feed, Listing, News};
use crate::{Error, Result};

/// How many names are read at once for a listing.
const LISTED_AT_ONCE: u32 = 1_000;

/// Being woken is a hint that can be missed: look at least this often.
const POLL: Duration = Duration::from_secs(5);

/// The store, as the edge sees it.
pub struct StoreFeed {
    store: SharedStore,
    edge: NewEdge,
    id: Mutex<Option<EdgeId>>,
    session: Session,
    /// What an edge is given that follows from the beginning, until it has all of it.
    listing: Mutex<Option<Listing>>,
    deployments: watch::Receiver<u64>,
}

impl StoreFeed {
    /// A feed for this edge; nothing is asked of the store yet.
    #[must_use]
    pub fn new(store: SharedStore, edge: NewEdge) -> Self {
        let deployments = store.wake(Topic::Deployments);
        Self {
            store,
            edge,
            id: Mutex::new(None),
            session: Session::default(),
            listing: Mutex::default(),
            deployments,
        }
    }

    /// The next part for an edge that follows from the beginning. What is kept of the changes may begin later, so it is given the
    /// listing, in the order of revisions.
    async fn listed_after(&self, after: Revision, limit: u32) -> Result<Option<Changes>> {
        if after == Revision::default() {
            let mut listing = self.desired().await?;
            listing.items.sort_by_key(|change| change.revision);
            *self.listing() = Some(listing);
        }
        let mut listing = self.listing();
        let part = listing.as_ref().and_then(|listing| part(listing, after, limit));
        if part.as_ref().is_none_or(|part| !part.more) {
            *listing = None;
        }
        Ok(part)
    }

    fn listing(&self) -> MutexGuard<'_, Option<Listing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> Result<EdgeId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).ok_or(Error::Unregistered)
    }
}

#[async_trait]
impl Bundles for StoreFeed {
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>> {
        let Some((_, sha256)) = &change.certificate else { return Ok(None) };
        let group = self.edge.group.as_str();
        let found = self.store.bundle_by_sha256(sha256, Some(group), Some(change.domain)).await?;
        // A certificate of another group is none of this edge's business.
        Ok(found.filter(|(_, of)| of == group).map(|(bundle, _)| bundle))
    }
}

#[async_trait]
impl Feed for StoreFeed {
    async fn register(&self) -> Result<Revision> {
        let edge = self.store.register_edge(&self.edge).await?;
        let session = self.store.open_session(edge.id).await.map_err(unregistered)?;
        self.session.begin(Some(session));
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = Some(edge.id);
        Ok(edge.revision)
    }

    async fn changes(&self, after: Revision, limit: u32, wait: Duration) -> Result<News> {
        if let Some(changes) = self.listed_after(after, limit).await? {
            return Ok(News { changes, adoptions: self.store.adoptions(self.id()?).await? });
        }
        let deadline = Instant::now() + wait;
        let mut woken = self.deployments.clone();
        loop {
            // Before asking: what is deployed while we ask wakes us.
            woken.borrow_and_update();
            let changes = self.store.changes(&self.edge.group, after, limit).await?;
            let adoptions = self.store.adoptions(self.id()?).await?;
            let nothing = changes.items.is_empty() && !changes.more && changes.up_to == after;
            if !nothing || !adoptions.is_empty() || Instant::now() >= deadline {
                return Ok(News { changes, adoptions });
            }
            let until = deadline.min(Instant::now() + POLL);
            if let Ok(Err(_)) = timeout_at(until, woken.changed()).await {
                // Nobody will wake us any more: only the clock is left.
                tokio::time::sleep_until(until).await;
            }
        }
    }

    async fn desired(&self) -> Result<Listing> {
        let mut page = Page { limit: LISTED_AT_ONCE, after: None };
        let mut items = Vec::new();
        loop {
            let part = self.store.desired(&self.edge.group, &page).await?;
            items.extend(part.items);
            page.after = part.next;
            if page.after.is_none() {
                return Ok(Listing { items, revision: part.revision });
            }
        }
    }

    async fn difference(&self, unknown: &Names, absent: Option<&Names>) -> Result<()> {
        self.store.keep_difference(self.id()?, unknown, absent).await.map_err(unregistered)
    }

    async fn report(&self, report: &EdgeReport) -> Result<()> {
        let edge = self.id()?;
        let report = EdgeReport { order: self.session.next(), ..report.clone() };
        let name = &self.edge.name;
        let actor = Actor { instance: name.clone(), name: format!("edge:{name}") };
        self.store.observe(edge, &report, &actor).await.map_err(unregistered)
    }
}

/// What of a listing comes after a revision; none after all of it, or where nothing is listed.
fn part(listing: &Listing, after: Revision, limit: u32) -> Option<Changes> {
    let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let begin = listing.items.partition_point(|change| change.revision <= after);
    let rest = listing.items.get(begin..)?;
    let items: Vec<_> = rest.iter().take(limit).cloned().collect();
    let last = items.last()?.revision;
    let more = rest.len() > items.len();
    Some(Changes { up_to: if more { last } else { listing.revision.max(last) }, items, more })
}

/// An edge that reports and is not there must register again.
fn unregistered(error: StoreError) -> Error {
    match error {
        StoreError::NotFound(_) => Error::Unregistered,
        other => other.into(),
    }
}

impl From<StoreError> for Error {
    fn from(source: StoreError) -> Self {
        match source {
            StoreError::RevisionGone { .. } => Self::RevisionGone,
            source if source.is_damage() => Self::Damaged { source: source.into() },
            source if source.is_transient() || source.outage().is_some() => {
                Self::Unavailable { source: source.into() }
            }
            source => Self::Refused { source: source.into() },
        }
    }
}
