//! A webhook, less its secret; a fresh one with it, once; and its messages.

use holdfast_model::Timestamp;
use holdfast_store::{Delivery, Webhook};
use serde::Serialize;
use utoipa::ToSchema;

/// A webhook, less its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(crate) struct WebhookView {
    /// Identifies it.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    /// Where messages go.
    url: String,
    /// The kinds it wants.
    events: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the oldest message that has not arrived yet was put down; null when all have.
    #[schema(value_type = Option<String>, format = DateTime)]
    undelivered_since: Option<Timestamp>,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        Self {
            id: webhook.id.0.to_string(),
            url: webhook.url,
            events: webhook.events,
            created_at: webhook.created_at,
            undelivered_since: webhook.open_since,
        }
    }
}

/// A webhook just made; the secret is shown here and never again.
#[derive(Serialize, ToSchema)]
pub(crate) struct FreshWebhook {
    /// What is kept of it.
    #[serde(flatten)]
    pub(crate) kept: WebhookView,
    /// What its messages are signed with.
    pub(crate) secret: String,
}

/// One message of a webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryView {
    /// Its id, as sent in `webhook-id`.
    id: String,
    /// Of what kind it is.
    r#type: String,
    /// What it is ordered with: the name of a domain.
    subject: String,
    /// `waiting` (for its turn or its time), `delivered` or `given-up`.
    status: &'static str,
    /// When it was put down.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Tries so far.
    attempts: u32,
    /// The status of the last answer.
    answer: Option<u16>,
    /// What went wrong last.
    error: Option<String>,
    /// When it is tried next; null while an earlier one of its subject waits, and when it is over.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// When it was over.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: format!("msg_{}", delivery.id.simple()),
            r#type: delivery.kind,
            subject: delivery.lane,
            status: match (delivery.ended_at, delivery.delivered) {
                (None, _) => "waiting",
                (Some(_), true) => "delivered",
                (Some(_), false) => "given-up",
            },
            created_at: delivery.created_at,
            attempts: delivery.attempts,
            answer: delivery.status,
            error: delivery.error,
            next_attempt_at: delivery.next_attempt_at,
            ended_at: delivery.ended_at,
        }
    }
}
