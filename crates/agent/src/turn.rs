//! Whose turn it is to write: work that was given up on half-way must not write over what came after it.
//!
//! What blocks cannot be cut short. Whoever begins anew waits for what is being written, and what has not begun by then is
//! not begun any more.

use std::sync::{Arc, PoisonError, RwLock};

use crate::{Error, Result};

/// Runs what blocks where blocking is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Stopped)?
}

#[derive(Clone, Default)]
pub(crate) struct Turn {
    current: Arc<RwLock<u64>>,
    mine: u64,
}

impl Turn {
    /// Does this, if it is still our turn.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if *current == self.mine { work() } else { Err(Error::Stopped) }
    }

    /// Does this where blocking is allowed.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.clone();
        blocking(move || turn.run(work)).await
    }

    /// The next turn; this one is over.
    pub(crate) async fn next(&self) -> Result<Self> {
        let current = self.current.clone();
        blocking(move || {
            let mut now = current.write().unwrap_or_else(PoisonError::into_inner);
            *now += 1;
            let mine = *now;
            drop(now);
            Ok(Self { current, mine })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_given_up_on_ends_before_the_next_begins_or_does_not_begin() {
        let first = Turn::default();
        let (begun, wait) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let turn = first.clone();
        let old = tokio::spawn(async move {
            turn.blocking(move || {
                begun.send(()).unwrap();
                gate.recv().unwrap();
                Ok(())
            })
            .await
        });
        tokio::task::block_in_place(|| wait.recv().unwrap());
        let next = tokio::spawn({
            let first = first.clone();
            async move { first.next().await.unwrap() }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!next.is_finished());
        go.send(()).unwrap();
        old.await.unwrap().unwrap();
        let next = next.await.unwrap();
        assert!(matches!(first.run(|| Ok(())), Err(Error::Stopped)));
        next.run(|| Ok(())).unwrap();
    }
}
