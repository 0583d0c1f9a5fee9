//! The loop beside each edge: what changed is applied, *then looked at by a handshake*, and what was seen is reported.
//!
//! ```text
//!            changes after r            apply, withdraw          handshake per name
//!   Feed ---------------------> Follower ------------> Target <---------------------+
//!    ^                             |   `-- what failed is tried again alone --> Retries
//!    |   report, at least          | seen
//!    |   every heartbeat           v
//!    +------- Reporter <------- Outbox (bounded: a control plane that is away slows the follower down)
//! ```
//!
//! At its start, and whenever the control plane or the proxy lost its place, the follower compares what the target holds with
//! a whole listing, and does only what differs. A tender beside it fills a proxy that was restarted, and a watch looks at every
//! heartbeat whether the proxy answers, and in turn at a few of the names that were served as desired.
//!
//! The reported revision passes a name only when it was seen as desired, or was refused often enough; so an
//! agent that dies resumes from the edge's row and forgets nothing. Applying twice is harmless. The loop knows no
//! proxy and no transport.

mod follow;
mod kept;
mod notice;
mod outbox;
mod progress;
mod report;
mod retry;
mod tend;
mod trouble;
mod unlisted;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast_store::Revision;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::follow::Follower;
use self::outbox::Outbox;
use self::trouble::Trouble;
use self::watch::Watch;
use crate::{Error, Feed, Result, Status, Target};

/// How an agent goes about it.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// At most this many changes are applied at once.
    pub batch: u32,
    /// At most this many handshakes are under way at once.
    pub probes: usize,
    /// At most this many observations go into one report.
    pub observations: usize,
    /// The longest time between two reports, and between two looks whether the proxy answers. An edge is live for three times the default
    /// after its last report.
    pub heartbeat: Duration,
    /// The longest time the control plane may take for an answer, beyond waiting on purpose.
    pub answer_limit: Duration,
    /// The longest time a whole listing may take.
    pub listing_limit: Duration,
    /// Where the newest revision ever heard of is kept, so that nothing goes back across a restart.
    pub revision_file: Option<PathBuf>,
    /// The file by which an operator confirms that names go although most of what is served is not listed any more.
    pub confirm_file: Option<PathBuf>,
    /// Where names are kept that a restored control plane does not know and that are served on.
    pub kept_file: Option<PathBuf>,
    /// Told how it goes.
    pub status: Arc<Status>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            batch: 1_000,
            probes: 32,
            observations: 500,
            heartbeat: Duration::from_secs(10),
            answer_limit: Duration::from_secs(20),
            listing_limit: Duration::from_secs(120),
            revision_file: None,
            confirm_file: None,
            kept_file: None,
            status: Arc::default(),
        }
    }
}

/// How long to rest before starting over.
const REST: Duration = Duration::from_secs(1);

/// How long the change at hand may still take once it is to end.
const END_LIMIT: Duration = Duration::from_secs(20);

/// How long the last report may take.
const LAST_REPORT_LIMIT: Duration = Duration::from_secs(2);

/// Keeps `target` as `feed` wants it, until `stop`; then it ends after the change it is at, and a last report. It does not end
/// before, whatever happens: what fails is tried again, and a panic is logged and starts it over.
pub async fn run_agent(
    feed: Arc<dyn Feed>,
    target: Arc<dyn Target>,
    config: AgentConfig,
    stop: CancellationToken,
) {
    let supervised = async {
        while !stop.is_cancelled() {
            // A set, because dropping it ends the task.
            let mut one = JoinSet::new();
            one.spawn(session(feed.clone(), target.clone(), config.clone(), stop.clone()));
            match one.join_next().await {
                Some(Ok(Error::Stopped)) if stop.is_cancelled() => return,
                Some(Ok(reason)) => tracing::info!(%reason, "the edge agent starts over"),
                Some(Err(panic)) => {
                    tracing::error!(error = %panic, "the edge agent broke down and starts over");
                }
                None => {}
            }
            tokio::time::timeout(REST, stop.cancelled()).await.ok();
        }
    };
    let too_late = async {
        stop.cancelled().await;
        tokio::time::sleep(END_LIMIT).await;
    };
    tokio::select! {
        () = supervised => {}
        () = too_late => tracing::warn!("the edge agent did not end in time and is cut off"),
    }
}

/// From a registration to the reason for another, or for the end.
async fn session(
    feed: Arc<dyn Feed>,
    target: Arc<dyn Target>,
    config: AgentConfig,
    stop: CancellationToken,
) -> Error {
    let revision = tokio::select! {
        revision = registered(feed.as_ref(), &config) => revision,
        () = stop.cancelled() => return Error::Stopped,
    };
    tracing::info!(epoch = revision.epoch, number = revision.number, "the edge is registered");
    let outbox = Outbox::new(revision);
    let watch = Watch::default();
    let follower =
        Follower::new(feed.clone(), target.clone(), &config, (&outbox, &watch), revision);
    let reason = tokio::select! {
        reason = follower.run(&stop) => reason,
        reason = report::run(feed.as_ref(), &config, &outbox) => reason,
        reason = tend::run(target.as_ref(), &outbox) => reason,
        reason = watch::run(target.as_ref(), &config, &outbox, &watch) => reason,
        reason = notice::run(target.as_ref(), &outbox) => reason,
    };
    if matches!(reason, Error::Stopped) {
        let report = outbox.draft(config.observations);
        within(LAST_REPORT_LIMIT, feed.report(&report)).await.ok();
    }
    reason
}

async fn registered(feed: &dyn Feed, config: &AgentConfig) -> Revision {
    let mut trouble = Trouble::new("the edge cannot register");
    loop {
        match within(config.answer_limit, feed.register()).await {
            Ok(revision) => {
                trouble.is_over();
                return revision;
            }
            Err(error) => {
                config.status.failed(&error);
                trouble.rest_after(&error).await;
            }
        }
    }
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, call).await.unwrap_or(Err(Error::Timeout(limit)))
}
