//! A webhook's row, and those of its messages.

use holdfast_model::Timestamp;

use super::{Fields, corrupt};
use crate::{ClaimedDelivery, Delivery, EventCursor, Result, Webhook, WebhookId};

pub(crate) fn webhook(row: &impl Fields) -> Result<Webhook> {
    let events = row.text("events")?;
    Ok(Webhook {
        id: WebhookId(row.id("id")?),
        url: row.text("url")?,
        events: serde_json::from_str(&events).map_err(|_| corrupt("webhook's events", events))?,
        created_at: row.at("created_at")?,
        after: EventCursor { xid: row.number("after_xid")?, id: row.number("after_id")? },
        next_due_at: row.maybe_at("next_due_at")?,
        open_since: row.maybe_at("open_since")?,
    })
}

pub(crate) fn claimed_delivery(row: &impl Fields, now: Timestamp) -> Result<ClaimedDelivery> {
    Ok(ClaimedDelivery {
        id: row.id("id")?,
        webhook: WebhookId(row.id("webhook_id")?),
        claim: row.number("claim")?,
        attempt: row.count("attempt")?,
        age: now.since(row.at("created_at")?),
        now,
        kind: row.text("kind")?,
        body: row.text("body")?,
    })
}

pub(crate) fn delivery(row: &impl Fields) -> Result<Delivery> {
    Ok(Delivery {
        id: row.id("id")?,
        kind: row.text("kind")?,
        lane: row.text("lane")?,
        created_at: row.at("created_at")?,
        attempts: row.count("attempt")?,
        status: row.maybe_number("status")?.and_then(|status| u16::try_from(status).ok()),
        error: row.maybe_text("error")?,
        next_attempt_at: row.maybe_at("due_at")?,
        ended_at: row.maybe_at("ended_at")?,
        delivered: row.flag("delivered")?,
    })
}
