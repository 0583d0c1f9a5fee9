//! The accounts at CAs as a whole: what each may order, what keeps it from ordering, and which replicas order with which.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use crate::{AccountId, Actor, OrderLimits, Result};

/// A pause of an account that a person set. Only a person, or its end, lifts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    /// When it was set.
    pub since: Timestamp,
    /// When it ends; none: when a person lifts it.
    pub until: Option<Timestamp>,
    /// Who set it.
    pub by: String,
}

/// How many wait for an order, up to [`COUNTED`](crate::COUNTED) of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Those that the order budget is charged for.
    pub charged: u64,
    /// Renewals, which it is not.
    pub renewals: u64,
}

/// An account at a CA, without its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaAccount {
    /// Its id.
    pub id: AccountId,
    /// The ACME directory.
    pub directory: String,
    /// The CA's URL of it; none until the CA has answered.
    pub url: Option<String>,
    /// Since when, and until when, it is left alone because of what the CA said.
    pub paused: Option<(Option<Timestamp>, Timestamp)>,
    /// Why: a note's text.
    pub pause_reason: Option<String>,
    /// Why the CA does not accept it.
    pub unusable: Option<String>,
    /// What a person set.
    pub halt: Option<Halt>,
    /// When a pause was last lifted by hand, and who did.
    pub resumed: Option<(Timestamp, String)>,
    /// Since when the CA has failed the replica that it has failed longest, and how, in the words of that replica.
    pub failing: Option<(Timestamp, String)>,
    /// How many orders the budget allows now.
    pub orders_left: u32,
    /// When the budget allows the next order; none when it does now.
    pub next_slot_at: Option<Timestamp>,
    /// When the budget is whole again; none when it is.
    pub full_at: Option<Timestamp>,
    /// Orders that are open at the CA, up to [`COUNTED`](crate::COUNTED).
    pub in_flight: u32,
    /// The store's clock.
    pub now: Timestamp,
}

impl CaAccount {
    /// When the budget has room for so many orders; at once where it has it now.
    #[must_use]
    pub fn room_for(&self, orders: u64, limits: OrderLimits) -> Timestamp {
        crate::budget::Budget::new(self.full_at, limits.per_3h).room_for(self.now, orders)
    }
}

/// Another account that there is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherAccount {
    /// Its id.
    pub id: AccountId,
    /// Does a live replica order with it?
    pub is_served: bool,
}

/// Accounts at CAs, their pauses by hand, and who orders with them.
#[async_trait]
pub trait CaAccounts: Send + Sync {
    /// Every account; the limits are those of this release's configuration, whatever the directory.
    async fn ca_accounts(&self, limits: OrderLimits) -> Result<Vec<CaAccount>>;

    /// How many wait for an order.
    async fn queue_counts(&self) -> Result<QueueCounts>;

    /// Sets a pause by hand, in place of one that was set by hand before; none: without an end. The notice is about `subject`.
    async fn halt_account(
        &self,
        id: AccountId,
        wait: Option<Duration>,
        actor: &Actor,
        subject: &str,
    ) -> Result<()>;

    /// Lifts every pause of the account, also one that the CA asked for. Gives whether there was one.
    async fn resume_account(&self, id: AccountId, actor: &Actor, subject: &str) -> Result<bool>;

    /// This start of a replica orders at this directory.
    async fn serve_directory(
        &self,
        instance: &str,
        incarnation: Uuid,
        directory: &str,
    ) -> Result<()>;

    /// The accounts of other directories than this one.
    async fn other_accounts(&self, directory: &str, stale: Duration) -> Result<Vec<OtherAccount>>;
}

/// A pause by hand, as its notice tells it.
pub(crate) fn told(wait: Option<Duration>) -> String {
    match wait {
        Some(wait) => format!("nothing is ordered for {} s", wait.as_secs()),
        None => "nothing is ordered until it is resumed".to_owned(),
    }
}
