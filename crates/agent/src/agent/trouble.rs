//! An outage: told once when it begins and once when it is over, with growing rests in between.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::error::{Error, chain};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Trouble {
    what: &'static str,
    rest: Option<Duration>,
}

impl Trouble {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, rest: None }
    }

    /// Waits before the next try.
    pub(super) async fn rest_after(&mut self, error: &Error) {
        if self.rest.is_none() {
            tracing::warn!(error = chain(error), "{}; trying again", self.what);
        } else {
            tracing::debug!(error = chain(error), "{}", self.what);
        }
        let rest = self.rest.unwrap_or(FIRST);
        self.rest = Some((rest * 2).min(LONGEST));
        tokio::time::sleep(scattered(rest)).await;
    }

    pub(super) fn is_over(&mut self) {
        if self.rest.take().is_some() {
            tracing::info!("over: {}", self.what);
        }
    }
}

/// Between a half and one and a half of it, so that many agents do not come back at once.
fn scattered(rest: Duration) -> Duration {
    let random = RandomState::new().hash_one(std::process::id()) % 1_001;
    rest.mul_f64(0.5 + f64::from(u32::try_from(random).unwrap_or(500)) / 1_000.0)
}
