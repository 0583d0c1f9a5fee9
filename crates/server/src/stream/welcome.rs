//! Whether the tokens of open streams still count: looked at in intervals, a few at a time, and once for all streams of one token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::AppState;

/// How often it is asked whether the token of a stream still counts.
pub(super) const TOKEN_LOOK: Duration = Duration::from_secs(30);

/// How long an answer counts for other streams of the same token.
const FRESH: Duration = Duration::from_secs(10);

/// Questions at once.
const AT_ONCE: usize = 4;

/// Tokens that were found good lately.
pub(crate) struct Welcomes {
    good: Mutex<HashMap<[u8; 32], Instant>>,
    permits: Arc<Semaphore>,
}

impl Default for Welcomes {
    fn default() -> Self {
        Self { good: Mutex::default(), permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Welcomes {
    fn is_fresh(&self, hash: &[u8; 32]) -> bool {
        let good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.get(hash).is_some_and(|at| at.elapsed() < FRESH)
    }

    fn keep(&self, hash: [u8; 32]) {
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.retain(|_, at| at.elapsed() < FRESH);
        good.insert(hash, Instant::now());
    }
}

/// Does the token still count? Asked in a task of its own: a client that stops reading must not keep others waiting for the permit.
pub(super) async fn is_welcome(state: &AppState, hash: [u8; 32]) -> bool {
    let state = state.clone();
    let asking = tokio::spawn(async move {
        let _permit = state.welcomes.permits.clone().acquire_owned().await;
        if state.welcomes.is_fresh(&hash) {
            return true;
        }
        let counts = matches!(state.store.token(&hash).await, Ok(Some(_)));
        if counts {
            state.welcomes.keep(hash);
        }
        counts
    });
    asking.await.unwrap_or(false)
}
