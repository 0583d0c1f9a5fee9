//! One client's view of the event log: pulled by the client's reading. What is new comes from the reader that all streams share; a
//! client that is further back, or did not read for long, gets pages of the store first.

mod ring;
mod tail;
mod welcome;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event as Sse;
use futures_util::stream;
use holdfast_model::DomainId;
use holdfast_store::EventCursor;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use self::ring::{Next, Told, passed, place};
use self::tail::Feed;
pub(crate) use self::tail::Tail;
use self::welcome::TOKEN_LOOK;
pub(crate) use self::welcome::Welcomes;
use crate::auth::Caller;
use crate::{AppState, Kind, Problem};

/// How often a quiet stream shows that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How soon a client comes back after a break.
const RETRY: Duration = Duration::from_secs(1);

/// One client's stream.
pub(crate) struct Stream {
    state: AppState,
    hash: [u8; 32],
    token_seen: Instant,
    feed: Arc<Feed>,
    moved: watch::Receiver<u64>,
    cursor: EventCursor,
    only: Option<DomainId>,
    ready: VecDeque<Ready>,
    _permit: OwnedSemaphorePermit,
}

/// What a client gets next.
enum Ready {
    /// Where it begins: who breaks off before the first event knows where to resume.
    Begin(EventCursor),
    Event(Arc<Told>),
    /// A place without data, past what it did not ask for.
    Place(EventCursor),
}

impl Ready {
    fn shown(self) -> Sse {
        match self {
            Self::Begin(cursor) => place(cursor).retry(RETRY),
            Self::Event(told) => told.shown(),
            Self::Place(cursor) => place(cursor),
        }
    }
}

impl Stream {
    /// Opens a stream after a place in the log; after what there is now if none is named.
    pub(crate) async fn open(
        state: AppState,
        caller: &Caller,
        after: Option<EventCursor>,
        only: Option<DomainId>,
    ) -> Result<Self, Problem> {
        let Ok(permit) = state.streams.clone().try_acquire_owned() else {
            let detail = "Close a stream, or ask another replica.";
            return Err(Problem::new(Kind::TooManyStreams, detail));
        };
        let before = state.tail.before();
        let latest = state.store.latest_event().await?;
        let cursor = after.unwrap_or(latest);
        if cursor > latest {
            let detail = format!(
                "`{cursor}` lies after all that ever happened here: the database was restored from a backup; list what you follow anew, then begin without Last-Event-ID."
            );
            return Err(Problem::new(Kind::InvalidCursor, detail));
        }
        let feed = state.tail.join(&state, latest, before);
        Ok(Self {
            hash: caller.hash,
            token_seen: Instant::now(),
            moved: feed.moved(),
            feed,
            cursor,
            only,
            ready: VecDeque::from([Ready::Begin(cursor)]),
            state,
            _permit: permit,
        })
    }

    /// The events, for as long as the client reads, the token counts and this replica stays.
    pub(crate) fn events(self) -> impl stream::Stream<Item = Result<Sse, Infallible>> {
        stream::unfold(self, |mut stream| async move {
            let event = stream.next().await?;
            Some((Ok(event), stream))
        })
    }

    async fn next(&mut self) -> Option<Sse> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready.shown());
            }
            self.check_token().await?;
            self.moved.mark_unchanged();
            match self.feed.next(self.cursor) {
                Next::Take(events) => self.take(events),
                Next::Read { covered } => self.catch_up(covered).await?,
                Next::Wait => self.rest().await?,
            }
        }
    }

    fn take(&mut self, events: Vec<Arc<Told>>) {
        let mut skipped = false;
        for told in events {
            self.cursor = told.cursor;
            skipped = !told.concerns(self.only);
            if !skipped {
                self.ready.push_back(Ready::Event(told));
            }
        }
        if skipped {
            self.ready.push_back(Ready::Place(self.cursor));
        }
    }

    /// Reads on from the store. After a failure the client comes back, with what it saw last.
    async fn catch_up(&mut self, covered: EventCursor) -> Option<()> {
        if self.state.shutdown.is_cancelled() {
            return None;
        }
        match tail::page(&self.state, self.cursor).await {
            Ok(page) if page.is_empty() => self.cursor = passed(self.cursor, covered),
            Ok(page) => self.take(page),
            Err(problem) => {
                problem.log();
                return None;
            }
        }
        Some(())
    }

    /// Waits for what is new, or for the next look at the token; none when the stream is over.
    async fn rest(&mut self) -> Option<()> {
        tokio::select! {
            () = self.state.shutdown.cancelled() => None,
            () = self.feed.over() => None,
            changed = self.moved.changed() => changed.ok(),
            () = tokio::time::sleep_until(self.token_seen + TOKEN_LOOK) => Some(()),
        }
    }

    /// Looks in intervals whether the token still counts; none when it does not.
    async fn check_token(&mut self) -> Option<()> {
        if self.token_seen.elapsed() < TOKEN_LOOK {
            return Some(());
        }
        self.token_seen = Instant::now();
        welcome::is_welcome(&self.state, self.hash).await.then_some(())
    }
}
