//! What opening a store waits for: told to the log, and to whoever started it and must not wait in silence.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

tokio::task_local! {
    static LISTENER: watch::Sender<Option<String>>;
}

/// Nothing is said of a wait that is shorter.
const QUIET: Duration = Duration::from_secs(3);

/// How often it is said again.
const AGAIN: Duration = Duration::from_secs(30);

/// How often whoever is waited for is looked up.
const LOOK: Duration = Duration::from_secs(1);

/// Runs what opens a store, or migrates it, and tells `listener` what it waits for, while it waits for something.
pub async fn tell_waits<T>(
    listener: watch::Sender<Option<String>>,
    opening: impl Future<Output = T>,
) -> T {
    LISTENER.scope(listener, opening).await
}

/// Tells the listener of this task, if there is one, what is waited for; none when that is over.
pub fn waits_for(what: Option<String>) {
    // Without a listener the log alone says it.
    LISTENER
        .try_with(|listener| {
            listener.send_if_modified(|told| {
                let changed = *told != what;
                *told = what;
                changed
            })
        })
        .ok();
}

/// One wait: says after a while what for, and again in intervals.
pub(crate) struct Wait {
    began: Instant,
    looked: Option<Instant>,
    said: Option<Instant>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now(), looked: None, said: None }
    }

    /// Is it time to look what is waited for?
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.began.elapsed() >= QUIET
            && self.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        if due {
            self.looked = Some(Instant::now());
        }
        due
    }

    /// Says what is waited for.
    pub(crate) fn say(&mut self, what: String) {
        if self.said.is_none_or(|said| said.elapsed() >= AGAIN) {
            self.said = Some(Instant::now());
            tracing::warn!(waited_seconds = self.began.elapsed().as_secs(), "{what}");
        }
        waits_for(Some(what));
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.said.is_some() {
            waits_for(None);
        }
    }
}
