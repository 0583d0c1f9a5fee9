//! Refusals worth a line in the event log: somebody with a valid token asked for what is not theirs.
//!
//! A client that asks again and again writes one line a minute for each thing it asks for, not one per request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::AppState;
use crate::auth::Caller;

/// The same refusal is written at most this often.
const PACE: Duration = Duration::from_secs(60);

/// Refusals remembered at once; beyond, new ones are logged but not written.
const REMEMBERED: usize = 1024;

type Refused = ([u8; 32], &'static str, String);

/// Which refusals were written lately.
#[derive(Debug, Default)]
pub(crate) struct Audit(Mutex<HashMap<Refused, Instant>>);

impl Audit {
    fn is_new(&self, refused: Refused) -> bool {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if written.len() >= REMEMBERED {
            written.retain(|_, at| now.duration_since(*at) < PACE);
        }
        if written.len() >= REMEMBERED
            || written.get(&refused).is_some_and(|at| now.duration_since(*at) < PACE)
        {
            return false;
        }
        written.insert(refused, now);
        true
    }
}

/// Writes that `caller` was refused something. The refusal stands whether it could be written or not.
pub(crate) async fn refused(
    state: &AppState,
    caller: &Caller,
    kind: &'static str,
    subject: &str,
    detail: &str,
) {
    tracing::warn!(token = caller.name, kind, subject, detail, "refused");
    if !state.audit.is_new((caller.hash, kind, subject.to_owned())) {
        return;
    }
    let written = state.store.notice(&state.actor(caller), kind, subject, detail).await;
    if let Err(error) = written {
        tracing::error!(error = &error as &dyn std::error::Error, "a refusal was not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_refusal_is_new_once_a_minute() {
        let audit = Audit::default();
        let refused = |subject: &str| ([0; 32], "edge-refused", subject.to_owned());
        assert!(audit.is_new(refused("a")));
        assert!(!audit.is_new(refused("a")));
        assert!(audit.is_new(refused("b")));
        tokio::time::advance(PACE).await;
        assert!(audit.is_new(refused("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_has_a_bound() {
        let audit = Audit::default();
        let new = (0..2 * REMEMBERED).filter(|n| audit.is_new(([0; 32], "x", n.to_string())));
        assert_eq!(new.count(), REMEMBERED);
        tokio::time::advance(PACE).await;
        assert!(audit.is_new(([0; 32], "x", "later".to_owned())));
    }
}
