//! The account to order with. It is made when first needed; a CA that cannot be reached, or refuses us,
//! pauses the account with the cause, so that `explain` can tell it for every domain in the queue.

use std::time::Duration;

use holdfast_acme::Class;
use holdfast_model::Note;
use holdfast_store::AccountId;
use tokio::time::Instant;

use crate::dispatch::Shared;

/// First wait after a refusal; doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

#[derive(Default)]
pub(crate) struct AccountDesk {
    known: Option<AccountId>,
    refusals: u32,
    again_at: Option<Instant>,
}

impl AccountDesk {
    /// The account, or when to ask again.
    pub(crate) async fn account(&mut self, shared: &Shared) -> Result<AccountId, Instant> {
        if let Some(id) = self.known {
            return Ok(id);
        }
        if let Some(at) = self.again_at.filter(|at| *at > Instant::now()) {
            return Err(at);
        }
        match shared.ca.account().await {
            Ok(id) => {
                self.known = Some(id);
                Ok(id)
            }
            Err(error) => Err(self.refused(shared, &error).await),
        }
    }

    async fn refused(&mut self, shared: &Shared, error: &holdfast_acme::Error) -> Instant {
        let (asked, note) = match error.class() {
            Class::Wait { after, note } => (after, note),
            Class::Trouble(note)
            | Class::Hopeless(note)
            | Class::OrderGone(note)
            | Class::AccountGone(note) => (None, note),
        };
        let own = FIRST_WAIT.saturating_mul(1 << self.refusals.min(16)).min(LONGEST_WAIT);
        let wait = asked.unwrap_or(own);
        self.refusals = self.refusals.saturating_add(1);
        tracing::warn!(code = %note.code, detail = %note.detail, wait_s = wait.as_secs(), "no account at the CA yet");
        pause(shared, wait, &note).await;
        let again_at = Instant::now() + wait;
        self.again_at = Some(again_at);
        again_at
    }
}

/// Leaves the account alone on every replica, and says why.
pub(crate) async fn pause(shared: &Shared, wait: Duration, note: &Note) {
    let until = shared.clock.now().plus(wait);
    let paused = async {
        let Some(account) = shared.store.account(shared.ca.directory(), shared.ca.limits()).await?
        else {
            return Ok(());
        };
        shared.store.pause_account(account.id, until, &note.to_string()).await
    };
    if let Err(error) = paused.await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the account's pause was not kept"
        );
    }
}
