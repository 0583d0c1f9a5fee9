//! ACME accounts: one per directory, made once, its key sealed before the CA hears of it.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use crate::{Halt, Result, Secret};

/// Identifies one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccountId(pub Uuid);

/// An account to be journaled before it is made.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// The ACME directory.
    pub directory: String,
    /// The account key, PKCS #8 DER.
    pub key: Secret,
    /// Whom the CA may write to.
    pub email: Option<String>,
}

/// An account.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// The ACME directory.
    pub directory: String,
    /// The account key, PKCS #8 DER.
    pub key: Secret,
    /// A key that a key change is under way to, PKCS #8 DER.
    pub next_key: Option<Secret>,
    /// Whom the CA may write to.
    pub email: Option<String>,
    /// The CA's URL of it; none until the CA has answered.
    pub url: Option<String>,
    /// The CA asked to be left alone until then.
    pub paused_until: Option<Timestamp>,
    /// In the CA's words.
    pub pause_reason: Option<String>,
    /// A pause that a person set.
    pub halt: Option<Halt>,
    /// Why the CA does not accept it, until it is registered anew or the CA accepts it again: waiting mends nothing meanwhile.
    pub unusable: Option<String>,
    /// Who issued the topmost certificate of its first chain, where the roots of what the CA issues are not known.
    pub pin: Option<String>,
    /// Since when the CA has failed the replica that it has failed longest, whatever that asked for; none when it answers all.
    pub failing_since: Option<Timestamp>,
    /// How, as a note's text in the words of that replica.
    pub failure: Option<String>,
    /// When that replica asks again.
    pub asked_again_at: Option<Timestamp>,
    /// When the order budget allows the next order; none when it does now.
    pub next_slot_at: Option<Timestamp>,
    /// How many orders the budget allows now; none when no limits were named.
    pub orders_left: Option<u32>,
}

impl Account {
    /// Until when nothing is ordered with it, where something keeps it from ordering; the inner none: until a person lifts that.
    #[must_use]
    pub fn closed_until(&self) -> Option<Option<Timestamp>> {
        match (&self.halt, self.paused_until) {
            (Some(Halt { until: None, .. }), _) => Some(None),
            (Some(Halt { until, .. }), paused) => Some((*until).max(paused)),
            (None, paused) => paused.map(Some),
        }
    }
}

/// How many orders an account may make and have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderLimits {
    /// New orders per three hours, as a bucket that holds that many and refills evenly.
    pub per_3h: u32,
    /// Open at once, over all replicas.
    pub in_flight: u32,
}

/// A CA's terms of service, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The ACME directory.
    pub directory: String,
    /// Where the terms are.
    pub url: String,
    /// When they were seen.
    pub seen_at: Timestamp,
    /// When they were agreed to.
    pub agreed_at: Option<Timestamp>,
    /// The terms that were agreed to before these.
    pub replaced: Option<String>,
}

impl Terms {
    /// Changed terms are told for this long.
    const NEWS: Duration = Duration::from_secs(30 * 24 * 3600);

    /// The terms that these replaced, for as long as that is news.
    #[must_use]
    pub fn newly_replaced(&self, now: Timestamp) -> Option<&str> {
        self.replaced.as_deref().filter(|_| now.since(self.seen_at) <= Self::NEWS)
    }
}

/// Accounts, their pause and their budget, and the terms they agreed to.
#[async_trait]
pub trait Accounts: Send + Sync {
    /// The account at a directory.
    async fn account(&self, directory: &str, limits: OrderLimits) -> Result<Option<Account>>;

    /// Seals and stores a new account, unless there is one: then that one. Whoever asks, all get the same.
    async fn journal_account(&self, new: &NewAccount) -> Result<Account>;

    /// The CA has answered: this is its URL.
    async fn account_registered(&self, id: AccountId, url: &str, email: Option<&str>)
    -> Result<()>;

    /// The CA does not know it any more: register anew with the same key.
    async fn account_forgotten(&self, id: AccountId) -> Result<()>;

    /// Seals the key that a key change will lead to; the one already journaled wins.
    async fn journal_next_key(&self, id: AccountId, key: &Secret) -> Result<Secret>;

    /// The CA took the next key: it is the key now.
    async fn account_key_changed(&self, id: AccountId) -> Result<()>;

    /// Leaves the account alone for so long, on every replica; never shortens a pause.
    async fn pause_account(&self, id: AccountId, wait: Duration, reason: &str) -> Result<()>;

    /// Notes why the CA does not accept the account, or that it does.
    async fn mark_account(&self, id: AccountId, unusable: Option<&str>) -> Result<()>;

    /// Remembers who issues what the CA gives, unless that is remembered already; gives what is. A new account has none.
    async fn pin_issuer(&self, id: AccountId, pin: &str) -> Result<String>;

    /// Forgets who issues what the CA gives: the next chain decides again.
    async fn unpin_issuer(&self, id: AccountId) -> Result<()>;

    /// The terms as last seen.
    async fn terms(&self, directory: &str) -> Result<Option<Terms>>;

    /// Remembers the terms; `agreed` notes the agreement too.
    async fn keep_terms(&self, directory: &str, url: &str, agreed: bool) -> Result<()>;
}
