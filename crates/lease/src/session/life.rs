//! How long a session may live.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// The end of a session's life. Sessions that began together do not end together.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    until: Instant,
}

impl Life {
    /// The longest life of a session, unless its owner says otherwise.
    pub const LONGEST: Duration = Duration::from_secs(30 * 60);

    /// A life that begins now and lasts between two thirds of `longest` and all of it.
    pub fn begin(longest: Duration) -> Self {
        let [random, ..] = Uuid::new_v4().into_bytes();
        let less = longest / 3 * u32::from(random) / u32::from(u8::MAX);
        Self { until: Instant::now() + (longest - less) }
    }

    /// Has it ended?
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lives_end_apart() {
        let lives: Vec<Life> = (0..64).map(|_| Life::begin(Life::LONGEST)).collect();
        let over = || lives.iter().filter(|life| life.is_over()).count();
        tokio::time::advance(Life::LONGEST * 2 / 3 - Duration::from_secs(1)).await;
        assert_eq!(over(), 0);
        tokio::time::advance(Life::LONGEST / 6).await;
        assert!((1..64).contains(&over()), "{}", over());
        tokio::time::advance(Life::LONGEST / 6 + Duration::from_secs(1)).await;
        assert_eq!(over(), 64);
    }
}
