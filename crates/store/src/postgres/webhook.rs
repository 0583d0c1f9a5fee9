//! Webhooks and their messages. Whoever puts messages down or ends one holds the webhook's row: so a message that is put down behind
//! an open one is always seen by who ends that one.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use holdfast_model::DomainId;
use sqlx::Postgres;
use uuid::Uuid;

use super::{PostgresStore, event::settled, marks::Look, maybe_time, micros, sql};
use crate::{
    Attempt, ClaimedDelivery, Delivery, Error, EventCursor, Fence, NewDelivery, NewWebhook, Page,
    Paged, Result, Secret, Then, Topic, Webhook, WebhookId, Webhooks,
    page::{number_before, paged},
    pool::{Statement, Transaction},
    row::{Fields as _, claimed_delivery, delivery, webhook},
    seal::Place,
    webhook::firsts,
};

/// In the order of an index each: without it, another index of open deliveries may be read whole.
const ALL: &str = "
    SELECT w.*, clock_timestamp() AS now,
        (SELECT d.due_at FROM delivery d WHERE d.webhook_id = w.id AND d.due_at IS NOT NULL
            AND d.due_at >= coalesce(m.due, '-infinity') ORDER BY d.due_at LIMIT 1) AS next_due_at,
        (SELECT d.created_at FROM delivery d WHERE d.webhook_id = w.id AND d.ended_at IS NULL
            AND d.created_at >= coalesce(m.open, '-infinity') ORDER BY d.created_at LIMIT 1) AS open_since
    FROM webhook w LEFT JOIN unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS m (id, due, open) ON m.id = w.id
    ORDER BY w.created_at, w.id";

/// Begins where the log ends for readers: a webhook hears of everything that commits after it.
const KEEP: &str = concat!(
    "WITH latest AS (SELECT xid, id FROM event WHERE xid < ",
    settled!(),
    "   ORDER BY xid DESC, id DESC LIMIT 1),
    sealed AS (INSERT INTO sealed (owner, id, sealing_key, value) VALUES ('webhook', $1, $4, $5))
    INSERT INTO webhook (id, url, events, created_at, after_xid, after_id)
    SELECT $1, $2, $3, clock_timestamp(), coalesce((SELECT xid FROM latest), 0), coalesce((SELECT id FROM latest), 0)
    RETURNING *, NULL::timestamptz AS next_due_at, NULL::timestamptz AS open_since"
);
const SECRET: &str = "SELECT value FROM sealed WHERE owner = 'webhook' AND id = $1";

const LOCK: &str = "SELECT id FROM webhook WHERE id = $1 FOR NO KEY UPDATE";
const REMOVE: &str = "
    WITH messages AS (DELETE FROM delivery WHERE webhook_id = $1),
    secret AS (DELETE FROM sealed WHERE owner = 'webhook' AND id = $1)
    DELETE FROM webhook WHERE id = $1";

const MOVE: &str = "
    UPDATE webhook SET after_xid = $4, after_id = $5 WHERE id = $1 AND after_xid = $2 AND after_id = $3";
const PUT_DOWN: &str = "
    INSERT INTO delivery (id, webhook_id, lane, kind, body, created_at, due_at)
    SELECT n.id, $1, n.lane, n.kind, n.body, clock_timestamp(), CASE WHEN n.first AND NOT EXISTS (
        SELECT 1 FROM delivery d WHERE d.webhook_id = $1 AND d.lane = n.lane AND d.ended_at IS NULL) THEN clock_timestamp() END
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::bool[]) WITH ORDINALITY AS n (id, lane, kind, body, first, place)
    ORDER BY n.place";

/// The clock's row is always there; where nothing is due it stands alone.
const CLAIM: &str = "
    WITH due AS (SELECT number, due_at FROM delivery WHERE webhook_id = $1 AND due_at <= statement_timestamp()
        AND due_at >= coalesce($4::timestamptz, '-infinity') ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED),
    claimed AS (
        UPDATE delivery d SET due_at = clock_timestamp() + $3 * interval '1 microsecond', claim = claim + 1, attempt = attempt + 1
        FROM due WHERE d.number = due.number RETURNING d.*, due.due_at AS was_due)
    SELECT clock.now, c.* FROM (SELECT clock_timestamp() AS now) clock LEFT JOIN claimed c ON true ORDER BY c.was_due";

const AGAIN: &str = "
    UPDATE delivery SET due_at = clock_timestamp() + $3 * interval '1 microsecond', status = $4, error = $5
    WHERE id = $1 AND claim = $2 AND ended_at IS NULL";
const END: &str = "
    UPDATE delivery SET due_at = NULL, ended_at = clock_timestamp(), delivered = $3, status = $4, error = $5
    WHERE id = $1 AND claim = $2 AND ended_at IS NULL RETURNING webhook_id, lane";
const NEXT: &str = "
    UPDATE delivery SET due_at = clock_timestamp() WHERE number = (
        SELECT number FROM delivery WHERE webhook_id = $1 AND lane = $2 AND ended_at IS NULL ORDER BY number LIMIT 1)";

const LIST: &str = "
    SELECT * FROM delivery WHERE webhook_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
const PRUNE: &str = "
    DELETE FROM delivery WHERE number IN (SELECT number FROM delivery
        WHERE ended_at < statement_timestamp() - $1 * interval '1 day' ORDER BY ended_at LIMIT $2)";
/// By its arrival, or its leaving: of a long history the beginning is forgotten.
const WAS_ACTIVE: &str = "
    SELECT EXISTS (SELECT 1 FROM event WHERE domain_id = $1 AND id < $2 
        AND (to_state = 'Active') <> (from_state = 'Active')) AS was";

#[async_trait]
impl Webhooks for PostgresStore {
    async fn keep_webhook(&self, new: &NewWebhook) -> Result<Webhook> {
        let mut tries = self.tries();
        loop {
            match self.try_keep(new).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>> {
        let (looks, whole) = (self.marks.webhooks.begin_all(), Look::whole());
        let rows = self.pool.rows("list webhooks", all(&looks)).await?;
        let listed = rows.iter().map(webhook).collect::<Result<Vec<_>>>()?;
        for (row, webhook) in rows.iter().zip(&listed) {
            let (id, now) = (webhook.id.0, row.at("now")?);
            let done = [webhook.next_due_at, webhook.open_since].map(|first| first.or(Some(now)));
            self.marks.webhooks.looked(id, looks.get(&id).copied().unwrap_or(whole), now, done);
        }
        let is_listed = |id: &Uuid| listed.iter().any(|webhook| webhook.id.0 == *id);
        self.marks.webhooks.keep(is_listed);
        self.marks.deliveries.keep(is_listed);
        Ok(listed)
    }

    async fn webhook_secret(&self, id: WebhookId) -> Result<Secret> {
        let mut tries = self.tries();
        loop {
            let row = self.pool.row("read a webhook's secret", sql(SECRET).bind(id.0)).await?;
            let value = row.ok_or(Error::NotFound("webhook"))?.bytes("value")?;
            match self.unseal(Place::webhook(id.0), &value).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }

    async fn remove_webhook(&self, id: WebhookId) -> Result<bool> {
        let mut transaction = self.pool.begin("remove a webhook").await?;
        transaction.row(sql(LOCK).bind(id.0)).await?;
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
        let mut transaction = self.pool.begin("put messages down").await?;
        let (id, after) = (webhook.id.0, webhook.after);
        let moved =
            sql(MOVE).bind(id).bind(after.xid).bind(after.id).bind(up_to.xid).bind(up_to.id);
        if transaction.execute(moved).await?.rows_affected() == 0 {
            transaction.abandon().await?;
            return Ok(false);
        }
        transaction.execute(down(id, messages)).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn claim_deliveries(
        &self,
        webhook: WebhookId,
        limit: u32,
        hold: Duration,
    ) -> Result<Vec<ClaimedDelivery>> {
        let look = self.marks.deliveries.begin(&webhook.0);
        let [from] = look.from.map(maybe_time);
        let claim = sql(CLAIM).bind(webhook.0).bind(i64::from(limit)).bind(micros(hold));
        let rows = self.pool.rows("claim messages", claim.bind(from)).await?;
        let now = rows.first().ok_or(Error::NotFound("clock"))?.at("now")?;
        let due: Vec<_> =
            rows.iter().filter(|row| matches!(row.maybe_id("id"), Ok(Some(_)))).collect();
        // Of a full batch, what was due before its last is taken.
        let done = match (due.last(), u32::try_from(due.len()).is_ok_and(|got| got < limit)) {
            (Some(last), false) => last.maybe_at("was_due")?,
            _ => Some(now),
        };
        self.marks.deliveries.looked(webhook.0, look, now, [done]);
        due.iter().map(|row| claimed_delivery(*row, now)).collect()
    }

    async fn delivery_tried(&self, delivery: &ClaimedDelivery, attempt: &Attempt) -> Result<bool> {
        let (status, error) = (attempt.status.map(i64::from), attempt.error.clone());
        let delivered = match attempt.then {
            Then::Delivered => true,
            Then::GivenUp => false,
            Then::Again(delay) => {
                let again = sql(AGAIN).bind(delivery.id).bind(delivery.claim).bind(micros(delay));
                let again = again.bind(status).bind(error);
                let noted = self.pool.execute("put a message off", again).await?;
                return Ok(noted.rows_affected() > 0);
            }
        };
        let end = sql(END).bind(delivery.id).bind(delivery.claim).bind(delivered);
        let mut transaction = self.pool.begin("end a message").await?;
        transaction.row(sql(LOCK).bind(delivery.webhook.0)).await?;
        let ended = ended(&mut transaction, end.bind(status).bind(error)).await?;
        transaction.commit().await?;
        Ok(ended)
    }

    async fn deliveries(&self, webhook: WebhookId, page: &Page) -> Result<Paged<Delivery>> {
        let list = sql(LIST).bind(webhook.0).bind(number_before(page)?).bind(page.rows());
        let rows = self.pool.rows("list messages", list).await?;
        paged(&rows, page, |row| Ok((Some(delivery(row)?), row.number("number")?.to_string())))
    }

    async fn prune_deliveries(&self, fence: Option<&Fence>, days: u32, limit: u32) -> Result<u64> {
        let mut transaction = self.fenced("prune messages", fence).await?;
        let prune = sql(PRUNE).bind(i64::from(days)).bind(i64::from(limit));
        let pruned = transaction.execute(prune).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn was_active_before(&self, domain: DomainId, at: EventCursor) -> Result<bool> {
        let was = sql(WAS_ACTIVE).bind(domain.0).bind(at.id);
        self.pool.one("look into a history", was).await?.flag("was")
    }
}

impl PostgresStore {
    async fn try_keep(&self, new: &NewWebhook) -> Result<Webhook> {
        let id = Uuid::now_v7();
        let sealed = self.keyring.seal(Place::webhook(id), &new.secret)?;
        let keep = sql(KEEP)
            .bind(id)
            .bind(new.url.as_str())
            .bind(serde_json::json!(new.events).to_string())
            .bind(sealed.key)
            .bind(sealed.value);
        let kept = webhook(&self.pool.one("keep a webhook", keep).await?);
        self.herald.tell(&[Topic::Events]);
        kept
    }
}

/// With where the looks at their deliveries begin.
fn all(looks: &HashMap<Uuid, Look<2>>) -> Statement<Postgres> {
    let from = |look: &Look<2>| look.from.map(maybe_time);
    let (due, open): (Vec<_>, Vec<_>) =
        looks.values().map(from).map(|[due, open]| (due, open)).unzip();
    sql(ALL).bind(looks.keys().copied().collect::<Vec<_>>()).bind(due).bind(open)
}

fn down(webhook: Uuid, messages: &[NewDelivery]) -> Statement<Postgres> {
    let texts =
        |of: fn(&NewDelivery) -> &String| messages.iter().map(of).cloned().collect::<Vec<_>>();
    sql(PUT_DOWN)
        .bind(webhook)
        .bind(messages.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>())
        .bind(texts(|message| &message.lane))
        .bind(texts(|message| &message.kind))
        .bind(texts(|message| &message.body))
        .bind(firsts(messages))
}

/// Ends a message and lets the next of its lane go; false when the claim was another's.
async fn ended(
    transaction: &mut Transaction<'_, Postgres>,
    end: Statement<Postgres>,
) -> Result<bool> {
    let Some(row) = transaction.row(end).await? else { return Ok(false) };
    let next = sql(NEXT).bind(row.id("webhook_id")?).bind(row.text("lane")?);
    transaction.execute(next).await?;
    Ok(true)
}
