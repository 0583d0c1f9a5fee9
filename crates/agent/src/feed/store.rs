//! The feed of an edge in the same process as the store.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_store::{
    Bundle, Change, Changes, EdgeId, EdgeReport, Error as StoreError, NewEdge, Revision,
    SharedStore, Topic,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Bundles, Feed};
use crate::{Error, Result};

/// Being woken is a hint that can be missed: look at least this often.
const POLL: Duration = Duration::from_secs(5);

/// The store, as the edge sees it.
pub struct StoreFeed {
    store: SharedStore,
    edge: NewEdge,
    id: Mutex<Option<EdgeId>>,
    deployments: watch::Receiver<u64>,
}

impl StoreFeed {
    /// A feed for this edge; nothing is asked of the store yet.
    #[must_use]
    pub fn new(store: SharedStore, edge: NewEdge) -> Self {
        let deployments = store.wake(Topic::Deployments);
        Self { store, edge, id: Mutex::new(None), deployments }
    }

    fn id(&self) -> Result<EdgeId> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).ok_or(Error::Unregistered)
    }
}

#[async_trait]
impl Bundles for StoreFeed {
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>> {
        Ok(self.store.bundle_named(&change.name).await?)
    }
}

#[async_trait]
impl Feed for StoreFeed {
    async fn register(&self) -> Result<Revision> {
        let edge = self.store.register_edge(&self.edge).await?;
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = Some(edge.id);
        Ok(edge.revision)
    }

    async fn changes(&self, after: Revision, limit: u32, wait: Duration) -> Result<Changes> {
        let deadline = Instant::now() + wait;
        let mut woken = self.deployments.clone();
        loop {
            // Before asking: what is deployed while we ask wakes us.
            woken.borrow_and_update();
            let changes = self.store.changes(&self.edge.group, after, limit).await?;
            let nothing = changes.items.is_empty() && !changes.more && changes.up_to == after;
            if !nothing || Instant::now() >= deadline {
                return Ok(changes);
            }
            let until = deadline.min(Instant::now() + POLL);
            if let Ok(Err(_)) = timeout_at(until, woken.changed()).await {
                // Nobody will wake us any more: only the clock is left.
                tokio::time::sleep_until(until).await;
            }
        }
    }

    async fn report(&self, report: &EdgeReport) -> Result<()> {
        match self.store.observe(self.id()?, report).await {
            Err(StoreError::NotFound(_)) => Err(Error::Unregistered),
            done => Ok(done?),
        }
    }
}

impl From<StoreError> for Error {
    fn from(source: StoreError) -> Self {
        match source {
            StoreError::RevisionGone { .. } => Self::RevisionGone,
            source if source.is_transient() => Self::Unavailable { source: source.into() },
            source => Self::Refused { source: source.into() },
        }
    }
}
