//! One reader of the log for all streams of a replica: woken by the store, and polling slowly. It runs while a stream is open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use holdfast_store::{Error, EventCursor, Topic};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ring::{Next, Ring, Told};
use crate::{AppState, Kind, Problem};

/// Events read at once.
const PAGE: u32 = 200;

/// Events kept in memory.
const KEPT: usize = 2_048;

/// A hint can come before what it hints at is visible, so the first look after one is soon.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// The slowest look at a quiet log.
const SLOWEST_LOOK: Duration = Duration::from_secs(5);

/// Streams that may read the store for themselves at once.
const CATCHING_UP: usize = 4;

/// What streams of this replica share.
pub(crate) struct Tail {
    feed: Mutex<Weak<Feed>>,
    started: AtomicU64,
    catching_up: Arc<Semaphore>,
}

impl Default for Tail {
    fn default() -> Self {
        Self {
            feed: Mutex::default(),
            started: AtomicU64::new(0),
            catching_up: Arc::new(Semaphore::new(CATCHING_UP)),
        }
    }
}

/// One run of the reader, and what it read. It ends with the last stream that holds it.
pub(super) struct Feed {
    id: u64,
    ring: Mutex<Ring>,
    moved: watch::Sender<u64>,
    over: CancellationToken,
    _abandoned: DropGuard,
}

/// Where the reader was before the store was asked for the latest event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    id: u64,
    head: EventCursor,
}

impl Feed {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a stream does that was told everything up to `place`.
    pub(super) fn next(&self, place: EventCursor) -> Next {
        self.ring().next(place, PAGE as usize)
    }

    /// Changes with each page.
    pub(super) fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Waits until the reader has failed or ended; streams end with it, and their clients come back.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    fn push(&self, page: Vec<Arc<Told>>) {
        self.ring().push(page);
        self.moved.send_modify(|pages| *pages += 1);
    }
}

impl Tail {
    fn feed(&self) -> MutexGuard<'_, Weak<Feed>> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the reader is, if one runs.
    pub(super) fn before(&self) -> Option<Before> {
        let feed = self.feed().upgrade()?;
        let head = feed.ring().head();
        Some(Before { id: feed.id, head })
    }

    /// Joins the reader, which is started if none runs. A log that ends before where the reader was is another log (a failover that
    /// lost commits): the reader begins again with it.
    pub(super) fn join(
        &self,
        state: &AppState,
        latest: EventCursor,
        before: Option<Before>,
    ) -> Arc<Feed> {
        let mut slot = self.feed();
        if let Some(feed) = slot.upgrade().filter(|feed| !feed.over.is_cancelled()) {
            let went_back = before.is_some_and(|before| {
                // An empty log is one of which retention removed everything.
                before.id == feed.id && latest < before.head && latest != EventCursor::default()
            });
            if !went_back {
                return feed;
            }
            tracing::warn!(%latest, "the event log ends earlier than before; event streams begin again");
            feed.over.cancel();
        }
        let abandoned = CancellationToken::new();
        let feed = Arc::new(Feed {
            id: self.started.fetch_add(1, Ordering::Relaxed),
            ring: Mutex::new(Ring::new(latest, KEPT)),
            moved: watch::Sender::new(0),
            over: CancellationToken::new(),
            _abandoned: abandoned.clone().drop_guard(),
        });
        *slot = Arc::downgrade(&feed);
        let reader = Reader {
            state: state.clone(),
            feed: Arc::downgrade(&feed),
            wake: state.store.wake(Topic::Events),
            abandoned,
            delay: FIRST_LOOK,
            _over: feed.over.clone().drop_guard(),
        };
        tokio::spawn(reader.run());
        feed
    }
}

/// A page of the store, for a stream that the ring does not reach. It is read in a task of its own: a client that stops reading must not
/// keep others waiting for the permit.
pub(super) async fn page(state: &AppState, after: EventCursor) -> Result<Vec<Arc<Told>>, Problem> {
    let (state, permits) = (state.clone(), state.tail.catching_up.clone());
    let reading = tokio::spawn(async move {
        let _permit = permits.acquire_owned().await;
        read(&state, after, "stream").await
    });
    match reading.await {
        Ok(page) => Ok(page?),
        Err(_) => Err(Problem::new(Kind::Internal, "Reading events ended unexpectedly.")),
    }
}

async fn read(
    state: &AppState,
    after: EventCursor,
    reader: &'static str,
) -> Result<Vec<Arc<Told>>, Error> {
    metrics::counter!("holdfast_event_reads_total", "reader" => reader).increment(1);
    let events = state.store.events_after(after, PAGE).await?;
    Ok(events.into_iter().map(|event| Arc::new(Told::from(event))).collect())
}

/// The task behind a feed.
struct Reader {
    state: AppState,
    feed: Weak<Feed>,
    wake: watch::Receiver<u64>,
    abandoned: CancellationToken,
    delay: Duration,
    _over: DropGuard,
}

impl Reader {
    async fn run(mut self) {
        while self.look().await.is_some() {}
    }

    /// Reads a page, or waits for one; none when it is over.
    async fn look(&mut self) -> Option<()> {
        self.wake.mark_unchanged();
        let after = self.feed.upgrade()?.ring().head();
        match read(&self.state, after, "tail").await {
            Ok(page) if !page.is_empty() => {
                self.delay = FIRST_LOOK;
                self.feed.upgrade()?.push(page);
                Some(())
            }
            Ok(_) => self.rest().await,
            Err(error) => {
                Problem::from(error).log();
                None
            }
        }
    }

    async fn rest(&mut self) -> Option<()> {
        let delay = self.delay;
        self.delay = (delay * 2).min(SLOWEST_LOOK);
        tokio::select! {
            () = self.state.shutdown.cancelled() => return None,
            () = self.abandoned.cancelled() => return None,
            changed = self.wake.changed() => {
                changed.ok()?;
                self.delay = FIRST_LOOK;
            }
            () = tokio::time::sleep(delay) => {}
        }
        Some(())
    }
}
