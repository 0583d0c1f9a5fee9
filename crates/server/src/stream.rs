//! One client's view of the event log: pulled by the client's reading, woken by the store, and polled.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::Event as Sse;
use futures_util::stream;
use holdfast_model::DomainId;
use holdfast_store::{Event, EventBody, EventCursor, Topic};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use crate::auth::Caller;
use crate::view::EventView;
use crate::{AppState, Kind, Problem};

/// How often a quiet stream shows that it is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events read at once.
const PAGE: u32 = 200;

/// A hint can come before what it hints at is visible, so the first look after one is soon.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// The slowest look at a quiet log.
const SLOWEST_LOOK: Duration = Duration::from_secs(5);

/// How often it is asked whether the token still counts.
const TOKEN_LOOK: Duration = Duration::from_secs(30);

/// How soon a client comes back after a break.
const RETRY: Duration = Duration::from_secs(1);

/// One client's stream.
pub(crate) struct Stream {
    state: AppState,
    hash: [u8; 32],
    token_seen: Instant,
    wake: watch::Receiver<u64>,
    cursor: EventCursor,
    only: Option<DomainId>,
    ready: VecDeque<Sse>,
    delay: Duration,
    _permit: OwnedSemaphorePermit,
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
        // Registered before the first look, so that nothing falls between.
        let wake = state.store.wake(Topic::Events);
        let latest = state.store.latest_event().await?;
        let cursor = after.unwrap_or(latest);
        if cursor > latest {
            let detail = format!(
                "`{cursor}` lies after all that ever happened here: the database was restored from a backup; list what you follow anew, then begin without Last-Event-ID."
            );
            return Err(Problem::new(Kind::InvalidCursor, detail));
        }
        // Who breaks off before the first event knows where to resume.
        let first = place(cursor).retry(RETRY);
        Ok(Self {
            hash: caller.hash,
            token_seen: Instant::now(),
            wake,
            cursor,
            only,
            ready: VecDeque::from([first]),
            delay: FIRST_LOOK,
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
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.wake.mark_unchanged();
            match self.state.store.events_after(self.cursor, PAGE).await {
                Ok(events) if !events.is_empty() => self.take(events),
                Ok(_) => self.rest().await?,
                // The client comes back, with what it saw last.
                Err(error) => {
                    Problem::from(error).log();
                    return None;
                }
            }
        }
    }

    fn take(&mut self, events: Vec<Event>) {
        self.delay = FIRST_LOOK;
        let mut skipped = false;
        for event in events {
            self.cursor = event.cursor;
            skipped = !self.concerns(&event);
            if !skipped {
                self.ready.extend(shown(event));
            }
        }
        // A place without data moves a client on past what it did not ask for.
        if skipped {
            self.ready.push_back(place(self.cursor));
        }
    }

    fn concerns(&self, event: &Event) -> bool {
        match (&self.only, &event.body) {
            (None, _) => true,
            (Some(only), EventBody::Transition { domain, .. }) => only == domain,
            (Some(_), EventBody::Notice { .. }) => false,
        }
    }

    /// Waits for a hint or for the next look; none when the stream is over.
    async fn rest(&mut self) -> Option<()> {
        let delay = self.delay;
        self.delay = (delay * 2).min(SLOWEST_LOOK);
        tokio::select! {
            () = self.state.shutdown.cancelled() => return None,
            changed = self.wake.changed() => {
                changed.ok()?;
                self.delay = FIRST_LOOK;
            }
            () = tokio::time::sleep(delay) => {}
        }
        self.is_welcome().await.then_some(())
    }

    async fn is_welcome(&mut self) -> bool {
        if self.token_seen.elapsed() < TOKEN_LOOK {
            return true;
        }
        self.token_seen = Instant::now();
        matches!(self.state.store.token(&self.hash).await, Ok(Some(_)))
    }
}

fn place(cursor: EventCursor) -> Sse {
    Sse::default().id(cursor.to_string())
}

fn shown(event: Event) -> Option<Sse> {
    let cursor = event.cursor;
    let view = EventView::from(event);
    // A view of strings and numbers always serializes.
    place(cursor).event(view.name()).json_data(&view).ok()
}
