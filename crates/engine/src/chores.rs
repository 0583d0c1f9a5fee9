//! Chores: singleton work of the engine, as small tasks. Who runs them, when and under which lease is the cluster's business.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use holdfast_cluster::{MAINTENANCE, RENEWAL_SWEEP, Task};
use holdfast_model::State;
use holdfast_store::{Actor, DomainFilter, Error, Fence, Page, SharedStore, SweepCursor};

/// How many domains may wait in the queue before more are asked to move to another CA.
const QUEUE_KEPT_FULL: u32 = 20;
const NOTICE_DAYS: u32 = 90;
const PRUNE_ROWS: u32 = 5_000;
/// How many certificates the sweep looks at in one go.
const SWEEP_ROWS: u32 = 1_000;

/// How many observations are passed in one commit in search of those of edges that are gone, and in how many commits of one run.
const SEEN_ROWS: u32 = 5_000;
const SEEN_PARTS: u32 = 200;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// All of them. `sweep` is how often renewals are swept; `instance` stands in the history.
#[must_use]
pub fn chores(store: &SharedStore, instance: &str, sweep: Duration) -> Vec<Task> {
    let actor = Actor { instance: instance.to_owned(), name: "worker".to_owned() };
    let place: Arc<Mutex<Option<SweepCursor>>> = Arc::default();
    let s = || store.clone();
    let (folded, challenges, events, edges, moved, renewals) = (s(), s(), s(), s(), s(), s());
    vec![
        Task::new("fold-counts", MAINTENANCE, 10 * SECOND, move |fence| {
            let store = folded.clone();
            async move { store.fold_counts(fence.as_ref()).await }
        }),
        Task::new("sweep-challenges", MAINTENANCE, HOUR, move |fence| {
            let store = challenges.clone();
            async move { store.sweep_challenges(fence.as_ref()).await }
        }),
        Task::new("prune-history", MAINTENANCE, HOUR, move |fence| {
            let store = events.clone();
            async move { store.prune_events(fence.as_ref(), NOTICE_DAYS, PRUNE_ROWS).await }
        }),
        Task::new("forget-edges", MAINTENANCE, 10 * MINUTE, move |fence| {
            let store = edges.clone();
            async move { forget_some(&store, fence.as_ref()).await }
        }),
        Task::new("move-certificates", MAINTENANCE, 5 * SECOND, move |fence| {
            let (store, actor) = (moved.clone(), actor.clone());
            async move { move_some(&store, fence.as_ref(), &actor).await }
        }),
        Task::new("sweep-renewals", RENEWAL_SWEEP, sweep, move |fence| {
            let (store, place) = (renewals.clone(), place.clone());
            async move { sweep_some(&store, fence.as_ref(), &place).await }
        }),
    ]
}

/// Moves certificates from an old CA a few at a time, so that new customers never wait behind all of them.
async fn move_some(
    store: &SharedStore,
    fence: Option<&Fence>,
    actor: &Actor,
) -> Result<u64, Error> {
    let Some(directory) = store.moving_from().await? else { return Ok(0) };
    let filter = DomainFilter { state: Some(State::AcmeOrdering), ..DomainFilter::default() };
    let page = Page { limit: QUEUE_KEPT_FULL, after: None };
    let queued = store.domains(&filter, &page).await?.items.len();
    let room = QUEUE_KEPT_FULL.saturating_sub(u32::try_from(queued).unwrap_or(u32::MAX));
    if room == 0 {
        return Ok(0);
    }
    let asked = store.want_moved(fence, &directory, room, actor).await?;
    if asked == 0 && queued == 0 {
        store.move_from(fence, None).await?;
    }
    Ok(asked)
}

/// Part by part, so that none holds the lease's row for long; what one run leaves is the next one's.
async fn forget_some(store: &SharedStore, fence: Option<&Fence>) -> Result<u64, Error> {
    let mut forgotten = 0;
    for _ in 0..SEEN_PARTS {
        match store.forget_departed(fence, SEEN_ROWS).await? {
            Some(part) => forgotten += part,
            None => break,
        }
    }
    Ok(forgotten)
}

/// One part of a round over the certificates that end soonest: the net under what is due by itself.
async fn sweep_some(
    store: &SharedStore,
    fence: Option<&Fence>,
    place: &Mutex<Option<SweepCursor>>,
) -> Result<u64, Error> {
    let after = *place.lock().unwrap_or_else(PoisonError::into_inner);
    let swept = store.sweep_renewals(fence, after, SWEEP_ROWS).await?;
    *place.lock().unwrap_or_else(PoisonError::into_inner) = swept.next;
    if swept.nudged > 0 {
        tracing::warn!(domains = swept.nudged, "nobody would have looked at these in time");
    }
    Ok(swept.nudged)
}
