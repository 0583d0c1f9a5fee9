//! Webhooks and their messages. One writer at a time: a message that is put down behind an open one is seen by who ends that one.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::DomainId;
use uuid::Uuid;

use super::{SqliteStore, Tx, now, sql, time};
use crate::{
    Attempt, ClaimedDelivery, Delivery, Error, EventCursor, Fence, NewDelivery, NewWebhook, Page,
    Paged, Result, Secret, Then, Topic, Webhook, WebhookId, Webhooks,
    page::{number_before, paged},
    row::{Fields as _, claimed_delivery, delivery, webhook},
    seal::Place,
    webhook::firsts,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

const ALL: &str = "
    SELECT w.*, (SELECT min(due_at) FROM delivery d WHERE d.webhook_id = w.id AND d.due_at IS NOT NULL) AS next_due_at,
        (SELECT min(created_at) FROM delivery d WHERE d.webhook_id = w.id AND d.ended_at IS NULL) AS open_since
    FROM webhook w ORDER BY w.created_at, w.id";
const KEEP: &str = "
    INSERT INTO webhook (id, url, events, created_at, after_xid, after_id)
    SELECT $1, $2, $3, $4, coalesce((SELECT xid FROM event ORDER BY id DESC LIMIT 1), 0), coalesce((SELECT max(id) FROM event), 0)
    RETURNING *, NULL AS next_due_at, NULL AS open_since";
const SEAL: &str =
    "INSERT INTO sealed (owner, id, sealing_key, value) VALUES ('webhook', $1, $2, $3)";
const SECRET: &str = "SELECT value FROM sealed WHERE owner = 'webhook' AND id = $1";
const REMOVE: &str = "DELETE FROM webhook WHERE id = $1";
const REMOVE_MESSAGES: &str = "DELETE FROM delivery WHERE webhook_id = $1";
const REMOVE_SECRET: &str = "DELETE FROM sealed WHERE owner = 'webhook' AND id = $1";

const MOVE: &str = "
    UPDATE webhook SET after_xid = $4, after_id = $5 WHERE id = $1 AND after_xid = $2 AND after_id = $3";
const PUT_DOWN: &str = "
    INSERT INTO delivery (id, webhook_id, lane, kind, body, created_at, due_at)
    SELECT $2, $1, $3, $4, $5, $7, CASE WHEN $6 AND NOT EXISTS (
        SELECT 1 FROM delivery d WHERE d.webhook_id = $1 AND d.lane = $3 AND d.ended_at IS NULL) THEN $7 END";
const CLAIM: &str = "
    UPDATE delivery SET due_at = $4, claim = claim + 1, attempt = attempt + 1 WHERE number IN (
        SELECT number FROM delivery WHERE webhook_id = $1 AND due_at <= $3 ORDER BY due_at LIMIT $2)
    RETURNING *";
const AGAIN: &str = "
    UPDATE delivery SET due_at = $3, status = $4, error = $5 WHERE id = $1 AND claim = $2 AND ended_at IS NULL";
const END: &str = "
    UPDATE delivery SET due_at = NULL, ended_at = $6, delivered = $3, status = $4, error = $5
    WHERE id = $1 AND claim = $2 AND ended_at IS NULL RETURNING webhook_id, lane";
const NEXT: &str = "
    UPDATE delivery SET due_at = $3 WHERE number = (
        SELECT number FROM delivery WHERE webhook_id = $1 AND lane = $2 AND ended_at IS NULL ORDER BY number LIMIT 1)";
const LIST: &str = "
    SELECT * FROM delivery WHERE webhook_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
const PRUNE: &str = "
    DELETE FROM delivery WHERE number IN (SELECT number FROM delivery WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)";
/// By its arrival, or its leaving: of a long history the beginning is forgotten.
const WAS_ACTIVE: &str = "
    SELECT EXISTS (SELECT 1 FROM event WHERE domain_id = $1 AND id < $2 
        AND (to_state = 'Active') <> (from_state = 'Active')) AS was";

#[async_trait]
impl Webhooks for SqliteStore {
    async fn keep_webhook(&self, new: &NewWebhook) -> Result<Webhook> {
        let id = Uuid::now_v7();
        let sealed = self.keyring.seal(Place::webhook(id), &new.secret)?;
        let events = serde_json::json!(new.events).to_string();
        let keep = sql(KEEP).bind(id).bind(new.url.as_str()).bind(events).bind(time(now()));
        let mut transaction = self.writer.begin("keep a webhook").await?;
        let kept = webhook(&transaction.one(keep).await?)?;
        transaction.execute(sql(SEAL).bind(id).bind(sealed.key).bind(sealed.value)).await?;
        transaction.commit().await?;
        self.tell(&[Topic::Events]);
        Ok(kept)
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>> {
        self.readers.rows("list webhooks", sql(ALL)).await?.iter().map(webhook).collect()
    }

    async fn webhook_secret(&self, id: WebhookId) -> Result<Secret> {
        let row = self.readers.row("read a webhook's secret", sql(SECRET).bind(id.0)).await?;
        self.unseal(Place::webhook(id.0), &row.ok_or(Error::NotFound("webhook"))?.bytes("value")?)
    }

    async fn remove_webhook(&self, id: WebhookId) -> Result<bool> {
        let mut transaction = self.writer.begin("remove a webhook").await?;
        transaction.execute(sql(REMOVE_MESSAGES).bind(id.0)).await?;
        transaction.execute(sql(REMOVE_SECRET).bind(id.0)).await?;
        let removed = transaction.execute(sql(REMOVE).bind(id.0)).await?.rows_affected();
        transaction.commit().await?;
        Ok(removed > 0)
    }

    async fn put_down(
        &self,
        webhook: &Webhook,
        up_to: EventCursor,
        messages: &[NewDelivery],
    ) -> Result<bool> {
        let mut transaction = self.writer.begin("put messages down").await?;
        let (id, after) = (webhook.id.0, webhook.after);
        let moved =
            sql(MOVE).bind(id).bind(after.xid).bind(after.id).bind(up_to.xid).bind(up_to.id);
        if transaction.execute(moved).await?.rows_affected() == 0 {
            transaction.abandon().await?;
            return Ok(false);
        }
        for (message, first) in messages.iter().zip(firsts(messages)) {
            let down = sql(PUT_DOWN)
                .bind(id)
                .bind(Uuid::now_v7())
                .bind(message.lane.clone())
                .bind(message.kind.clone())
                .bind(message.body.clone())
                .bind(first)
                .bind(time(now()));
            transaction.execute(down).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    async fn claim_deliveries(
        &self,
        webhook: WebhookId,
        limit: u32,
        hold: Duration,
    ) -> Result<Vec<ClaimedDelivery>> {
        let at = now();
        let claim = sql(CLAIM).bind(webhook.0).bind(i64::from(limit)).bind(time(at));
        let rows = self.writer.rows("claim messages", claim.bind(time(at.plus(hold)))).await?;
        rows.iter().map(|row| claimed_delivery(row, at)).collect()
    }

    async fn delivery_tried(&self, delivery: &ClaimedDelivery, attempt: &Attempt) -> Result<bool> {
        let (status, error) = (attempt.status.map(i64::from), attempt.error.clone());
        let delivered = match attempt.then {
            Then::Delivered => true,
            Then::GivenUp => false,
            Then::Again(delay) => {
                let at = time(now().plus(delay));
                let again = sql(AGAIN).bind(delivery.id).bind(delivery.claim).bind(at);
                let again = again.bind(status).bind(error);
                let noted = self.writer.execute("put a message off", again).await?;
                return Ok(noted.rows_affected() > 0);
            }
        };
        let end = sql(END).bind(delivery.id).bind(delivery.claim).bind(delivered).bind(status);
        let mut transaction = self.writer.begin("end a message").await?;
        let row = transaction.row(end.bind(error).bind(time(now()))).await?;
        let ended = row.is_some();
        if let Some(row) = row {
            next(&mut transaction, row.id("webhook_id")?, row.text("lane")?).await?;
        }
        transaction.commit().await?;
        Ok(ended)
    }

    async fn deliveries(&self, webhook: WebhookId, page: &Page) -> Result<Paged<Delivery>> {
        let list = sql(LIST).bind(webhook.0).bind(number_before(page)?).bind(page.rows());
        let rows = self.readers.rows("list messages", list).await?;
        paged(&rows, page, |row| Ok((Some(delivery(row)?), row.number("number")?.to_string())))
    }

    async fn prune_deliveries(&self, fence: Option<&Fence>, days: u32, limit: u32) -> Result<u64> {
        let mut transaction = self.fenced("prune messages", fence).await?;
        let prune = sql(PRUNE).bind(time(now().minus(days * DAY))).bind(i64::from(limit));
        let pruned = transaction.execute(prune).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn was_active_before(&self, domain: DomainId, at: EventCursor) -> Result<bool> {
        let was = sql(WAS_ACTIVE).bind(domain.0).bind(at.id);
        self.readers.one("look into a history", was).await?.flag("was")
    }
}

/// Lets the next message of a lane go.
async fn next(transaction: &mut Tx, webhook: Uuid, lane: String) -> Result<()> {
    transaction.execute(sql(NEXT).bind(webhook).bind(lane).bind(time(now()))).await?;
    Ok(())
}
