//! How a CA fails replicas. What one replica meets (no route, a limit of its address) says nothing of what the others meet, so each
//! has a row of its own, which no other replica's success ends.

use std::time::Duration;

use async_trait::async_trait;

use crate::{AccountId, Result};

/// How long after it was to be asked again a CA counts as failing, if the replica says nothing more: it may be gone, or have
/// nothing left to ask.
pub(crate) const FAILURE_COUNTS: Duration = Duration::from_secs(10 * 60);

/// The same where the CA answers another replica since: one that the CA still fails says so again soon.
pub(crate) const DOUBTED_COUNTS: Duration = Duration::from_secs(30);

/// The longest that a replica stays away from a CA that fails, and more.
pub(crate) const LONGEST_AWAY: Duration = Duration::from_secs(3600);

/// Failures of a CA, by replica.
#[async_trait]
pub trait CaFailures: Send + Sync {
    /// Notes how the CA fails this replica, which asks again after so long. It counts until the CA answers this replica, a person
    /// resumes the account, or the replica has not repeated it for ten minutes; for half a minute where the CA answers others.
    async fn note_failure(
        &self,
        account: AccountId,
        instance: &str,
        failure: &str,
        wait: Duration,
    ) -> Result<()>;

    /// Notes that the CA answers this replica.
    async fn end_failure(&self, account: AccountId, instance: &str) -> Result<()>;

    /// Has a person resumed the account since this replica noted a failure?
    async fn is_failure_lifted(&self, account: AccountId, instance: &str) -> Result<bool>;
}
