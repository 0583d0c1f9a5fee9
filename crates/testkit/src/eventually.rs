//! Waiting for a level: asks again and again until the answer is right, or time is up.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// Asks until there is an answer, and panics with the last reason when there is none in time.
///
/// `what` completes the sentence "waited for …".
#[expect(clippy::panic, reason = "a test that waits in vain has failed")]
#[track_caller]
pub fn eventually<T, E: Display>(
    within: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + within;
        let mut last = String::from("nothing yet");
        let mut pause = Duration::from_millis(2);
        loop {
            match timeout_at(deadline, ask()).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(reason)) => last = reason.to_string(),
                Err(_) => panic!("{caller}: waited {within:?} for {what}; at last: {last}"),
            }
            if Instant::now() + pause > deadline {
                panic!("{caller}: waited {within:?} for {what}; at last: {last}");
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}
