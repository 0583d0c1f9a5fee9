//! Speaking only now and then of what anybody outside can cause at any rate.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What repeats is logged at most this often.
const QUIET: Duration = Duration::from_secs(60);

/// Keeps count between two times of speaking.
#[derive(Debug, Default)]
pub(super) struct Quiet(Mutex<Option<(Instant, u64)>>);

impl Quiet {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// How often it happened since it was last spoken of, this time included, if it may be spoken of now.
    pub(super) fn may_speak(&self) -> Option<u64> {
        let mut spoke = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match spoke.as_mut() {
            Some((at, unspoken)) if now.duration_since(*at) < QUIET => {
                *unspoken += 1;
                None
            }
            _ => Some(spoke.replace((now, 0)).map_or(0, |(_, unspoken)| unspoken) + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn once_a_minute_with_a_count() {
        let quiet = Quiet::new();
        assert_eq!(quiet.may_speak(), Some(1));
        assert_eq!((quiet.may_speak(), quiet.may_speak()), (None, None));
        tokio::time::advance(QUIET).await;
        assert_eq!(quiet.may_speak(), Some(3));
    }
}
