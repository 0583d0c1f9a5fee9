//! An outage: told once when it begins and once when it is over, with growing rests in between.

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
        tokio::time::sleep(rest).await;
    }

    pub(super) fn is_over(&mut self) {
        if self.rest.take().is_some() {
            tracing::info!("over: {}", self.what);
        }
    }
}
