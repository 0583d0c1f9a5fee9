//! Chores: singleton work of the engine, as small tasks. Who runs them, when and under which lease is the cluster's business.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use holdfast_cluster::{MAINTENANCE, RENEWAL_SWEEP, Task};
use holdfast_model::State;
use holdfast_store::{
    Actor, DomainFilter, Error, FOLDED, Fence, Outdated, Page, Progress, Resealing, SharedStore,
    SweepCursor,
};

/// How many domains may wait in the queue before more are asked to move to another CA.
const QUEUE_KEPT_FULL: u32 = 20;
/// How many certificates the sweep looks at in one commit.
const SWEEP_ROWS: u32 = 1_000;

/// How many observations are passed in one commit in search of those of edges that are gone.
const SEEN_ROWS: u32 = 5_000;

/// How many values are sealed anew in one commit.
const RESEALED: u32 = 500;

/// A rotation of the data key, as far as this process has come with it.
type Rotating = tokio::sync::Mutex<Option<Resealing>>;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long what users may choose is kept. The rest is in `KEPT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Transitions.
    pub history: Duration,
    /// Removed domains, and claims that were released and never became one.
    pub removed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { history: DAY * 400, removed: DAY * 400 }
    }
}

/// What is kept for how long, and how many rows at most go in one commit. Each is a task of its own, so that none waits for another.
/// docs/production.md says the same.
const KEPT: [(&str, Outdated, Duration, u32); 6] = [
    ("prune-notices", Outdated::Notices, DAY.saturating_mul(90), 5_000),
    ("prune-orders", Outdated::Orders, DAY.saturating_mul(30), 5_000),
    ("sweep-challenges", Outdated::Challenges, DAY.saturating_mul(10), 5_000),
    // After its end a certificate cannot be gone back to, but an edge may still be seen serving it.
    ("prune-certificates", Outdated::Certificates, DAY.saturating_mul(7), 1_000),
    // An edge that was away for longer lists everything anew.
    ("prune-tombstones", Outdated::Tombstones, DAY.saturating_mul(30), 1_000),
    ("prune-waits", Outdated::CaWaits, HOUR, 5_000),
];

/// Everything that is pruned: the task, what it deletes, after how long, and how much in one commit.
fn pruned(retention: Retention) -> impl Iterator<Item = (&'static str, Outdated, Duration, u32)> {
    let chosen = [
        ("prune-history", Outdated::History, retention.history, 5_000),
        ("prune-removed", Outdated::Removed, retention.removed, 1_000),
        ("prune-claims", Outdated::Claims, retention.removed, 5_000),
    ];
    KEPT.into_iter().chain(chosen)
}

/// All of them. `sweep` is how often renewals are swept; `instance` stands in the history.
#[must_use]
pub fn chores(
    store: &SharedStore,
    instance: &str,
    sweep: Duration,
    retention: Retention,
) -> Vec<Task> {
    let actor = Actor { instance: instance.to_owned(), name: "worker".to_owned() };
    let place: Arc<Mutex<Option<SweepCursor>>> = Arc::default();
    let s = || store.clone();
    let rotation: Arc<Rotating> = Arc::default();
    let rotator = Actor { instance: instance.to_owned(), name: "maintenance".to_owned() };
    let (folded, edges, moved, renewals, sealed) = (s(), s(), s(), s(), s());
    let (statistics, counted) = (s(), s());
    let mut tasks = vec![
        Task::new("fold-counts", MAINTENANCE, 10 * SECOND, move |fence| {
            let store = folded.clone();
            async move {
                let done = store.fold_counts(fence.as_ref()).await?;
                Ok::<_, Error>(Progress::of(done, FOLDED))
            }
        }),
        Task::new("count-edges", MAINTENANCE, 10 * SECOND, move |fence| {
            let store = counted.clone();
            async move { store.count_edges(fence.as_ref()).await }
        }),
        Task::new("forget-edges", MAINTENANCE, 10 * MINUTE, move |fence| {
            let store = edges.clone();
            async move { forget_some(&store, fence.as_ref()).await }
        }),
        Task::new("refresh-statistics", MAINTENANCE, DAY, move |fence| {
            let store = statistics.clone();
            async move { store.refresh_statistics(fence.as_ref()).await }
        }),
        Task::new("move-certificates", MAINTENANCE, 5 * SECOND, move |fence| {
            let (store, actor) = (moved.clone(), actor.clone());
            async move { move_some(&store, fence.as_ref(), &actor).await }
        }),
        Task::new("reseal-values", MAINTENANCE, MINUTE, move |_| {
            let (store, rotation, rotator) = (sealed.clone(), rotation.clone(), rotator.clone());
            async move { reseal_some(&store, &rotation, &rotator).await }
        }),
        Task::new("sweep-renewals", RENEWAL_SWEEP, sweep, move |fence| {
            let (store, place) = (renewals.clone(), place.clone());
            async move { sweep_some(&store, fence.as_ref(), &place, SWEEP_ROWS).await }
        }),
    ];
    tasks.extend(pruned(retention).map(|(name, what, age, limit)| {
        let store = s();
        Task::new(name, MAINTENANCE, HOUR, move |fence| {
            let store = store.clone();
            async move { store.prune(fence.as_ref(), what, age, limit).await }
        })
        .by_age()
    }));
    tasks
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

/// A step of a rotation of the data key that was cut short, or goes on elsewhere: sealing a value twice does no harm.
async fn reseal_some(
    store: &SharedStore,
    rotation: &Rotating,
    actor: &Actor,
) -> Result<Progress, Error> {
    let mut rotation = rotation.lock().await;
    let resealing = match rotation.as_mut() {
        Some(resealing) => resealing,
        None if store.is_rotating().await? => rotation.insert(Resealing::default()),
        None => return Ok(Progress::default()),
    };
    let before = resealing.so_far().resealed;
    let ended = resealing.step(store, RESEALED, actor).await?;
    let after = ended.as_ref().map_or_else(|| resealing.so_far().resealed, |ended| ended.resealed);
    if ended.is_some() {
        *rotation = None;
    }
    Ok(Progress { done: after.saturating_sub(before), more: ended.is_none() })
}

/// A part, so that none holds the lease's row for long.
async fn forget_some(store: &SharedStore, fence: Option<&Fence>) -> Result<Progress, Error> {
    let part = store.forget_departed(fence, SEEN_ROWS).await?;
    Ok(Progress { done: part.unwrap_or(0), more: part.is_some() })
}

/// One part of a round over the certificates that end soonest: the net under what is due by itself. A round goes on to its end.
async fn sweep_some(
    store: &SharedStore,
    fence: Option<&Fence>,
    place: &Mutex<Option<SweepCursor>>,
    rows: u32,
) -> Result<Progress, Error> {
    let after = *place.lock().unwrap_or_else(PoisonError::into_inner);
    let swept = store.sweep_renewals(fence, after, rows).await?;
    *place.lock().unwrap_or_else(PoisonError::into_inner) = swept.next;
    if swept.nudged > 0 {
        tracing::warn!(domains = swept.nudged, "nobody would have looked at these in time");
    }
    let full = swept.nudged.max(swept.nearer) >= u64::from(rows);
    let more = swept.next.is_some() || full;
    Ok(Progress { done: swept.nudged + swept.nearer, more })
}
