//! Chores: bounded, repeatable, safe on several replicas at once. One driver; adding a chore is one line.

use std::{sync::Arc, time::Duration};

use holdfast_model::State;
use holdfast_store::{DomainFilter, Error, Page};
use tokio::time::{MissedTickBehavior, interval};

use crate::dispatch::Shared;

/// How many domains may wait in the queue before more are asked to move to another CA.
const QUEUE_KEPT_FULL: u32 = 20;
const NOTICE_DAYS: u32 = 90;
const PRUNE_ROWS: u32 = 5_000;

/// Runs every chore at its own pace, for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    let minute = Duration::from_secs(60);
    tokio::join!(
        every(&shared, "fold counts", Duration::from_secs(10), |s| async move {
            s.store.fold_counts(None).await
        }),
        every(&shared, "sweep challenges", 60 * minute, |s| async move {
            s.store.sweep_challenges(None).await
        }),
        every(&shared, "prune events", 60 * minute, |s| async move {
            s.store.prune_events(None, NOTICE_DAYS, PRUNE_ROWS).await
        }),
        every(&shared, "move certificates", Duration::from_secs(5), |s| async move {
            move_some(&s).await
        }),
    );
}

async fn every<F, R>(shared: &Arc<Shared>, name: &'static str, period: Duration, chore: F)
where
    F: Fn(Arc<Shared>) -> R,
    R: Future<Output = Result<u64, Error>>,
{
    let mut tick = interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        match chore(shared.clone()).await {
            Ok(0) => {}
            Ok(done) => tracing::debug!(chore = name, done, "done"),
            Err(error) => {
                tracing::warn!(chore = name, error = &error as &dyn std::error::Error, "put off");
            }
        }
    }
}

/// Moves certificates from an old CA a few at a time, so that new customers never wait behind all of them.
async fn move_some(shared: &Shared) -> Result<u64, Error> {
    let Some(directory) = shared.store.moving_from().await? else { return Ok(0) };
    let filter = DomainFilter { state: Some(State::AcmeOrdering), ..DomainFilter::default() };
    let queued = shared
        .store
        .domains(&filter, &Page { limit: QUEUE_KEPT_FULL, after: None })
        .await?
        .items
        .len();
    let room = QUEUE_KEPT_FULL.saturating_sub(u32::try_from(queued).unwrap_or(u32::MAX));
    if room == 0 {
        return Ok(0);
    }
    let asked = shared.store.want_moved(None, &directory, room, &shared.config.actor()).await?;
    if asked == 0 && queued == 0 {
        shared.store.move_from(None, None).await?;
    }
    Ok(asked)
}
