//! The store's clock, carried forward between answers by this machine's monotonic one, so that replicas
//! with different wall clocks decide alike.

use std::{sync::Mutex, time::Duration};

use holdfast_model::Timestamp;
use tokio::time::Instant;

/// What time the store would say it is.
#[derive(Debug)]
pub(crate) struct StoreClock(Mutex<(Timestamp, Instant)>);

impl StoreClock {
    pub(crate) fn new(store_now: Timestamp) -> Self {
        Self(Mutex::new((store_now, Instant::now())))
    }

    /// The store said its time.
    pub(crate) fn set(&self, store_now: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            (store_now, Instant::now());
    }

    pub(crate) fn now(&self) -> Timestamp {
        let (store_now, then) = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        store_now.plus(then.elapsed())
    }

    /// How long until `at`; zero when it has passed.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        at.since(self.now())
    }
}
