//! Work done under one term.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Moment};
use crate::fence::Token;

/// What work under a lease is given: its right to write, the sign to stop, and a way to show progress.
#[derive(Clone)]
pub struct Work {
    pub(super) token: Token,
    pub(super) cancelled: CancellationToken,
    pub(super) progress: Arc<Progress>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Work {
    /// The right to write under this term: hand it to whatever must not happen late.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Completes when the work must stop. It is dropped a little later if it has not.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Whether the work must stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Promises a [`Work::beat`] at least this often: without one the elector's health is `Unhealthy`.
    pub fn promise(&self, every: Duration) {
        self.beat();
        let nanos = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        self.progress.every.store(nanos, Ordering::Relaxed);
    }

    /// Shows progress.
    pub fn beat(&self) {
        self.progress.last.store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }
}

/// When work last showed progress, and how often it promised to; zero: it promised nothing.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last: AtomicU64,
    every: AtomicU64,
}

impl Progress {
    /// For how long the promise has been broken.
    pub(super) fn overdue(&self, now: Moment) -> Option<Duration> {
        let every = Duration::from_nanos(self.every.load(Ordering::Relaxed));
        let since = now.since(Moment::from_nanos(self.last.load(Ordering::Relaxed)));
        (!every.is_zero() && since > every).then(|| since.saturating_sub(every))
    }
}
