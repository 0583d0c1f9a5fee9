//! An outage: told once when it begins, again when its cause is another, and once when it is over, with growing rests in between.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::time::Duration;

use crate::error::{Error, chain};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

pub(super) struct Trouble {
    what: &'static str,
    rest: Option<Duration>,
    /// The cause that was told.
    told: Option<&'static str>,
}

impl Trouble {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, rest: None, told: None }
    }

    /// Waits before the next try.
    pub(super) async fn rest_after(&mut self, error: &Error) {
        // A server that was away and answers again, but not as it should, is another matter.
        if self.is_news(error) {
            self.told = Some(error.code());
            tracing::warn!(error = chain(error), "{}; trying again", self.what);
        } else {
            tracing::debug!(error = chain(error), "{}", self.what);
        }
        let rest = self.rest.unwrap_or(FIRST);
        self.rest = Some((rest * 2).min(LONGEST));
        // Who asks for a rest gets all of it.
        let asked = error.asked_rest().map(|asked| scattered(asked..asked.mul_f64(1.25)));
        let own = scattered(rest.mul_f64(0.5)..rest.mul_f64(1.5));
        tokio::time::sleep(asked.map_or(own, |asked| asked.max(own))).await;
    }

    fn is_news(&self, error: &Error) -> bool {
        self.told != Some(error.code())
    }

    pub(super) fn is_over(&mut self) {
        self.told = None;
        if self.rest.take().is_some() {
            tracing::info!("over: {}", self.what);
        }
    }
}

/// Anything in between, so that many agents do not come back at once.
fn scattered(between: Range<Duration>) -> Duration {
    let random = RandomState::new().hash_one(std::process::id()) % 1_001;
    let share = f64::from(u32::try_from(random).unwrap_or(500)) / 1_000.0;
    between.start + (between.end - between.start).mul_f64(share)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    async fn rested(error: Error) -> Duration {
        let (begun, mut trouble) = (Instant::now(), Trouble::new("a test"));
        trouble.rest_after(&error).await;
        begun.elapsed()
    }

    fn busy(seconds: u64) -> Error {
        Error::Busy { after: Duration::from_secs(seconds), source: "test".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_a_rest_gets_it_up_to_a_limit() {
        // Paused time sleeps whole milliseconds.
        let within = |from: f64, to: f64| {
            Duration::from_secs_f64(from)..=Duration::from_secs_f64(to) + Duration::from_millis(2)
        };
        for (asked, from, to) in
            [(0, 0.0, 0.15), (1, 1.0, 1.25), (8, 8.0, 10.0), (86_400, 12.0, 15.0)]
        {
            let rested = rested(busy(asked)).await;
            assert!(within(from, to).contains(&rested), "{asked} s were asked for: {rested:?}");
        }
        // Where nobody asks, the first rest is short.
        let unasked = rested(Error::Unavailable { source: "test".into() }).await;
        assert!(within(0.05, 0.15).contains(&unasked), "{unasked:?}");
    }

    /// `connection refused` says nothing true about a server that answers meanwhile.
    #[tokio::test(start_paused = true)]
    async fn another_cause_is_told_and_the_same_is_not() {
        let mut trouble = Trouble::new("a test");
        let away = || Error::Unavailable { source: "connection refused".into() };
        let refused = || Error::TokenRefused { said: "unknown".to_owned() };
        let mut told = Vec::new();
        for error in [away(), away(), refused(), refused(), away()] {
            told.push(trouble.is_news(&error));
            trouble.rest_after(&error).await;
        }
        assert_eq!(told, [true, false, true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn not_everybody_is_back_at_once() {
        let mut rests = Vec::new();
        for _ in 0..100 {
            rests.push(rested(busy(12)).await);
        }
        let (first, last) = (rests.iter().min().unwrap(), rests.iter().max().unwrap());
        assert!(*last - *first > Duration::from_secs(2), "{first:?} to {last:?}");
    }
}
