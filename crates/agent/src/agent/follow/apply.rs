//! Applies changes in a task of its own: whoever talks to a proxy is not to wait until what was seen has been noted.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Error, Feed, Result, Target};

/// What was refused, and why.
type Refusals = HashMap<Hostname, Note>;

pub(super) struct Apply {
    // Dropped, it ends the task.
    work: JoinSet<Result<Refusals>>,
}

impl Apply {
    pub(super) fn begin(
        target: Arc<dyn Target>,
        feed: Arc<dyn Feed>,
        changes: Vec<Change>,
        ready: UnboundedSender<usize>,
    ) -> Self {
        let mut work = JoinSet::new();
        work.spawn(async move { apply(target.as_ref(), feed, changes, &ready).await });
        Self { work }
    }

    /// Dropping the call loses nothing.
    pub(super) async fn done(&mut self) -> Result<Refusals> {
        match self.work.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(broken)) if broken.is_panic() => {
                std::panic::resume_unwind(broken.into_panic())
            }
            _ => Err(Error::Stopped),
        }
    }
}

/// Puts in place what is to be served, and takes away what is not.
async fn apply(
    target: &dyn Target,
    feed: Arc<dyn Feed>,
    changes: Vec<Change>,
    ready: &UnboundedSender<usize>,
) -> Result<Refusals> {
    let began = Instant::now();
    let (gone, wanted): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.certificate.is_none());
    let mut refusals = HashMap::new();
    if !gone.is_empty() {
        let names: Vec<_> = gone.into_iter().map(|change| change.name).collect();
        let results = target.withdraw(&names).await?;
        let failed = names.into_iter().zip(results);
        refusals.extend(failed.filter_map(|(name, done)| Some((name, done.err()?))));
    }
    if !wanted.is_empty() {
        let results = target.apply(&wanted, feed, ready).await?;
        let failed = wanted.into_iter().zip(results);
        refusals.extend(failed.filter_map(|(change, done)| Some((change.name, done.err()?))));
    }
    metrics::histogram!("holdfast_agent_apply_seconds").record(began.elapsed());
    Ok(refusals)
}
