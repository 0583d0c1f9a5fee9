//! An outage: told once when it begins and once when it is over, with growing rests in between.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::error::{Error, chain};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// No longer than this is anybody left alone, whatever they ask for: an edge counts as live for thirty seconds.
const LONGEST_ASKED: Duration = Duration::from_secs(20);

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
        // Who asks for a rest gets all of it, and a little more, so that not everybody is back at once.
        let asked = error.asked_rest().map(|asked| asked.min(LONGEST_ASKED) + scattered(FIRST));
        let rest = scattered(rest);
        tokio::time::sleep(asked.map_or(rest, |asked| asked.max(rest))).await;
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

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_a_rest_gets_it_up_to_a_limit() {
        let rested = async |asked: u64| {
            let error = Error::Busy { after: Duration::from_secs(asked), source: "test".into() };
            let (begun, mut trouble) = (Instant::now(), Trouble::new("a test"));
            trouble.rest_after(&error).await;
            begun.elapsed()
        };
        let within = |seconds| Duration::from_secs(seconds)..Duration::from_secs(seconds + 1);
        for (asked, rest) in [(0, 0), (1, 1), (7, 7), (20, 20), (86_400, 20)] {
            assert!(within(rest).contains(&rested(asked).await), "{asked} s were asked for");
        }
        // Where nobody asks, the first rest is short.
        let (begun, mut trouble) = (Instant::now(), Trouble::new("a test"));
        trouble.rest_after(&Error::Unavailable { source: "test".into() }).await;
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}
