//! Whether an engine goes on: it looks for work again and again, and what it holds comes to an end. Whoever asks decides what follows.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// An engine looks for work every few seconds; a CA or a store that keeps silent may hold up a look for as long as their limits.
const ROUND: Duration = Duration::from_secs(90);

/// Every step has a limit of its own, and all of them together stay below this.
const STEP: Duration = Duration::from_secs(600);

/// The pulse of one engine. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pulse(Arc<Mutex<Beats>>);

#[derive(Debug)]
struct Beats {
    round: Instant,
    /// Since when there has been no room for more, and nothing ended.
    full_since: Option<Instant>,
}

/// What is wrong with an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stall {
    /// It does not look for work.
    #[error("no look for work for {} s", .0.as_secs())]
    NoRound(Duration),
    /// It has all it can hold, and none of it ends.
    #[error("all work under way has stood still for {} s", .0.as_secs())]
    Full(Duration),
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Beats { round: Instant::now(), full_since: None })))
    }
}

impl Pulse {
    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look for work was made, and there is room for more or not.
    pub(crate) fn round(&self, full: bool) {
        let mut beats = self.beats();
        beats.round = Instant::now();
        beats.full_since = match (full, beats.full_since) {
            (true, None) => Some(beats.round),
            (true, since) => since,
            (false, _) => None,
        };
    }

    /// Something that was under way has ended.
    pub(crate) fn ended(&self) {
        self.beats().full_since = None;
    }

    /// What is wrong, if anything is.
    ///
    /// # Errors
    /// When the engine does not go on.
    pub fn check(&self) -> Result<(), Stall> {
        let beats = self.beats();
        let quiet = beats.round.elapsed();
        let full = beats.full_since.map(|since| since.elapsed()).unwrap_or_default();
        match () {
            () if quiet > ROUND => Err(Stall::NoRound(quiet)),
            () if full > STEP => Err(Stall::Full(full)),
            () => Ok(()),
        }
    }

    /// How long ago it last looked for work.
    #[must_use]
    pub fn last_round(&self) -> Duration {
        self.beats().round.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_does_not_look_has_stalled() {
        let pulse = Pulse::default();
        advance(ROUND).await;
        assert_eq!(pulse.check(), Ok(()));
        advance(Duration::from_secs(1)).await;
        assert!(matches!(pulse.check(), Err(Stall::NoRound(_))));
        pulse.round(false);
        assert_eq!(pulse.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_full_of_what_does_not_end_has_stalled() {
        let pulse = Pulse::default();
        let look_for = async |seconds: u64| {
            for _ in 0..seconds / 5 {
                advance(Duration::from_secs(5)).await;
                pulse.round(true);
            }
        };
        look_for(590).await;
        assert_eq!(pulse.check(), Ok(()));
        pulse.ended();
        look_for(590).await;
        assert_eq!(pulse.check(), Ok(()));
        look_for(30).await;
        assert!(matches!(pulse.check(), Err(Stall::Full(_))));
    }
}
