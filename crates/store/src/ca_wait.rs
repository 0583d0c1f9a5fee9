//! What the CA wants left alone beyond one request: a name, or all names below a registered domain. What waits is kept by its key,
//! so that of ten thousand names below one registered domain each costs one look here, and no request there.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Hostname, Timestamp, WaitScope};

use crate::{AccountId, Result};

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaWait {
    /// What kind of thing.
    pub scope: WaitScope,
    /// Which one.
    pub key: String,
    /// Until then nothing is asked for it.
    pub until: Timestamp,
    /// In the CA's words.
    pub reason: String,
    /// When the CA said so.
    pub noted_at: Timestamp,
}

/// What waits for a CA.
#[async_trait]
pub trait CaWaits: Send + Sync {
    /// Notes that the CA wants this name's share of `scope` left alone for so long, and gives until when. What was noted before gives
    /// way to it.
    async fn note_wait(
        &self,
        account: AccountId,
        scope: WaitScope,
        name: &Hostname,
        wait: Duration,
        reason: &str,
    ) -> Result<Timestamp>;

    /// What keeps this name from being ordered for now: of several, what lasts longest.
    async fn waiting_for(&self, account: AccountId, name: &Hostname) -> Result<Option<CaWait>>;

    /// What waits in this scope, the first to end first; at most `limit`.
    async fn waits(&self, account: AccountId, scope: WaitScope, limit: u32) -> Result<Vec<CaWait>>;

    /// What was noted in this scope within so long, the newest first; at most `limit`. What is over by now is left out.
    async fn waits_noted(
        &self,
        account: AccountId,
        scope: WaitScope,
        within: Duration,
        limit: u32,
    ) -> Result<Vec<CaWait>>;

    /// Forgets whatever holds this name, also its registered domain; gives how many waits that were.
    async fn lift_waits(&self, account: AccountId, name: &Hostname) -> Result<u64>;
}

/// Of the waits under a name's keys, the longest that is about this name. A name may be spelt like another's registered domain.
pub(crate) fn longest(waits: Vec<Option<CaWait>>, name: &Hostname) -> Option<CaWait> {
    let holds = |wait: &CaWait| wait.scope.key(name) == wait.key;
    waits.into_iter().flatten().filter(holds).max_by_key(|wait| wait.until)
}
