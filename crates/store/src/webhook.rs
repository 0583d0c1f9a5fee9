//! Webhooks: who is told of what, and every message on its way. What a message says is not known here.
//!
//! A webhook reads the event log by a cursor of its own. Moving the cursor and putting down the messages is one transaction, so a
//! message is put down once; it is sent by whoever claims it, and again by another when the claim lapses: at least once. All
//! messages of a *lane* arrive in their order: only the first that is open is ever due.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{DomainId, Timestamp};
use uuid::Uuid;

use crate::{EventCursor, Fence, Page, Paged, Result, Secret};

/// Identifies a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WebhookId(pub Uuid);

/// A webhook to be kept.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    /// Where messages go.
    pub url: String,
    /// The kinds it wants.
    pub events: Vec<String>,
    /// What messages are signed with.
    pub secret: Secret,
}

/// A webhook, less its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Where messages go.
    pub url: String,
    /// The kinds it wants.
    pub events: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// How far the event log was read for it.
    pub after: EventCursor,
    /// When its next message is to be sent, if one waits.
    pub next_due_at: Option<Timestamp>,
    /// When the oldest message that is still open was put down.
    pub open_since: Option<Timestamp>,
}

/// A message to be put down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// What must arrive in order.
    pub lane: String,
    /// Of what kind it is.
    pub kind: String,
    /// What is sent, to the letter.
    pub body: String,
}

/// A message that is to be sent now, by whoever claimed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The message's id, the same at every try.
    pub id: Uuid,
    /// Where it goes.
    pub webhook: WebhookId,
    /// Which claim this is.
    pub claim: i64,
    /// Which try, from one.
    pub attempt: u32,
    /// How long ago it was put down.
    pub age: Duration,
    /// The store's clock.
    pub now: Timestamp,
    /// Of what kind it is.
    pub kind: String,
    /// What is sent.
    pub body: String,
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The answer's status, if there was one.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
    /// What now.
    pub then: Then,
}

/// What becomes of a message after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It arrived.
    Delivered,
    /// It is tried again after this long.
    Again(Duration),
    /// It is given up, and the next of its lane goes on.
    GivenUp,
}

/// A message, as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: Uuid,
    /// Of what kind it is.
    pub kind: String,
    /// What it is ordered with.
    pub lane: String,
    /// When it was put down.
    pub created_at: Timestamp,
    /// Tries so far.
    pub attempts: u32,
    /// The last answer's status.
    pub status: Option<u16>,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it is tried next; none while an earlier one of its lane is open, and when it is over.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Did it arrive?
    pub delivered: bool,
}

/// Webhooks and their messages.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Keeps a webhook, which hears of what happens from now on.
    async fn keep_webhook(&self, new: &NewWebhook) -> Result<Webhook>;

    /// All webhooks, oldest first.
    async fn webhooks(&self) -> Result<Vec<Webhook>>;

    /// What its messages are signed with.
    async fn webhook_secret(&self, id: WebhookId) -> Result<Secret>;

    /// Forgets a webhook and its messages; false when there is none.
    async fn remove_webhook(&self, id: WebhookId) -> Result<bool>;

    /// Puts messages down and moves the cursor, or does neither: false when another moved it first.
    async fn put_down(
        &self,
        webhook: &Webhook,
        up_to: EventCursor,
        messages: &[NewDelivery],
    ) -> Result<bool>;

    /// Claims messages of one webhook that are due.
    async fn claim_deliveries(
        &self,
        webhook: WebhookId,
        limit: u32,
        hold: Duration,
    ) -> Result<Vec<ClaimedDelivery>>;

    /// Notes what came of a try; false when the claim was another's by then.
    async fn delivery_tried(&self, delivery: &ClaimedDelivery, attempt: &Attempt) -> Result<bool>;

    /// A webhook's messages, newest first.
    async fn deliveries(&self, webhook: WebhookId, page: &Page) -> Result<Paged<Delivery>>;

    /// Drops messages that were over longer ago than `days`; at most `limit`.
    async fn prune_deliveries(&self, fence: Option<&Fence>, days: u32, limit: u32) -> Result<u64>;

    /// Was this domain Active at some time before this place in its history?
    async fn was_active_before(&self, domain: DomainId, at: EventCursor) -> Result<bool>;
}

/// Which of these messages may be due: the first of each lane.
pub(crate) fn firsts(messages: &[NewDelivery]) -> Vec<bool> {
    let mut seen = std::collections::HashSet::new();
    messages.iter().map(|message| seen.insert(message.lane.as_str())).collect()
}
