//! Chores: bounded and repeatable.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::{SqliteStore, now, sql, time};
use crate::{
    Fence, Maintenance, Restored, Result, SweepCursor, Swept, Topic,
    migration::{SQLITE, newest},
    row::Fields as _,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const PING: &str = "SELECT count(*) FROM setting";
const SCHEMA: &str = "SELECT coalesce(max(version), 0) AS version FROM holdfast_migration";

const TAIL: &str = "
    SELECT count(*) AS n, max(id) AS last FROM (
        SELECT id FROM event WHERE id > (SELECT folded_id FROM event_log) ORDER BY id LIMIT 10000)";
const FOLD: &str = "
    INSERT INTO state_count (state, count)
    SELECT state, sum(n) FROM (
        SELECT to_state AS state, 1 AS n FROM event
            WHERE id > (SELECT folded_id FROM event_log) AND id <= $1 AND kind = 'transition'
        UNION ALL
        SELECT from_state, -1 FROM event
            WHERE id > (SELECT folded_id FROM event_log) AND id <= $1 AND kind = 'transition'
    ) WHERE state IS NOT NULL GROUP BY state
    ON CONFLICT (state) DO UPDATE SET count = count + excluded.count";
const FOLDED: &str = "UPDATE event_log SET folded_id = $1";

const SWEEP: &str = "DELETE FROM challenge WHERE created_at < $1";

/// Only what the counts have taken in may go.
const PRUNE_NOTICES: &str = "
    DELETE FROM event WHERE id IN (
        SELECT id FROM event WHERE domain_id IS NULL AND at < $1 AND id <= (SELECT folded_id FROM event_log)
        ORDER BY at LIMIT $2)";
const REMOVED: &str = "
    SELECT id FROM domain WHERE removed_at IS NOT NULL AND NOT pruned AND removed_at < $1 ORDER BY removed_at LIMIT $2";
const PRUNE_HISTORY: &str = "
    DELETE FROM event WHERE domain_id = $1 AND id <= (SELECT folded_id FROM event_log)";
const PRUNED: &str = "
    UPDATE domain SET pruned = 1 WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM event WHERE domain_id = $1)";
const PRUNE_ORDERS: &str = "
    DELETE FROM acme_order WHERE id IN (SELECT id FROM acme_order WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)";

/// Nobody would look at them ever again.
const FORGOTTEN: &str = "
    UPDATE domain SET due_at = $1 WHERE id IN (
        SELECT id FROM domain WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY id LIMIT $2)";
const PAGE: &str = "
    SELECT id, domain_id, not_after, not_after - (not_after - not_before) / 10 AS renew_by FROM certificate
    WHERE superseded_at IS NULL AND (not_after, id) > ($1, $2) AND not_after < $3 ORDER BY not_after, id LIMIT $4";
/// A next look in the last tenth of a certificate's life, or later, comes too late to renew it.
const TOO_LATE: &str = "
    UPDATE domain SET due_at = $2 WHERE id = $4 AND certificate_id = $1 AND state = 'Active'
        AND removing_since IS NULL AND removed_at IS NULL AND (claimed_until IS NULL OR claimed_until < $2) AND due_at > $3";

const MOVING_FROM: &str = "SELECT value FROM setting WHERE key = 'moving_from'";
const MOVE_FROM: &str = "
    INSERT INTO setting (key, value) VALUES ('moving_from', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const STAY: &str = "DELETE FROM setting WHERE key = 'moving_from'";
const PRUNE_LEASES: &str = "
    DELETE FROM lease_history WHERE id IN (SELECT id FROM lease_history WHERE at_us < $1 ORDER BY at_us LIMIT $2)";

#[async_trait]
impl Maintenance for SqliteStore {
    async fn ping(&self) -> Result<Timestamp> {
        self.readers.one("ping", sql(PING)).await?;
        Ok(now())
    }

    async fn schema(&self) -> Result<(i64, i64)> {
        let applied = self.readers.one("read the schema's version", sql(SCHEMA)).await?;
        Ok((applied.number("version")?, newest(SQLITE)))
    }

    async fn fold_counts(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("fold counts", fence).await?;
        let tail = transaction.one(sql(TAIL)).await?;
        let Some(last) = tail.maybe_number("last")? else {
            transaction.abandon().await?;
            return Ok(0);
        };
        transaction.execute(sql(FOLD).bind(last)).await?;
        transaction.execute(sql(FOLDED).bind(last)).await?;
        transaction.commit().await?;
        Ok(u64::try_from(tail.number("n")?).unwrap_or(0))
    }

    async fn sweep_challenges(&self, fence: Option<&Fence>) -> Result<u64> {
        let sweep = sql(SWEEP).bind(time(now().minus(10 * DAY)));
        let mut transaction = self.fenced("sweep challenges", fence).await?;
        let swept = transaction.execute(sweep).await?.rows_affected();
        around(Point::STORE_CHALLENGE_DROP, transaction.commit()).await?;
        Ok(swept)
    }

    async fn prune_lease_history(
        &self,
        fence: Option<&Fence>,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64> {
        let mut transaction = self.fenced("prune the history of leases", fence).await?;
        let prune = sql(PRUNE_LEASES).bind(time(now().minus(older_than))).bind(i64::from(limit));
        let pruned = transaction.execute(prune).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn forget_departed(&self, fence: Option<&Fence>, limit: u32) -> Result<Option<u64>> {
        self.unsee(fence, limit).await
    }

    async fn check_fence(&self, fence: Option<&Fence>) -> Result<()> {
        self.fenced("look at a lease", fence).await?.commit().await
    }

    async fn sweep_renewals(
        &self,
        fence: Option<&Fence>,
        after: Option<SweepCursor>,
        limit: u32,
    ) -> Result<Swept> {
        let mut transaction = self.fenced("sweep renewals", fence).await?;
        let now = now();
        let forgotten = sql(FORGOTTEN).bind(time(now)).bind(i64::from(limit));
        let mut nudged = transaction.execute(forgotten).await?.rows_affected();
        let (from, id) =
            after.map_or((Timestamp::from_seconds(0), Uuid::nil()), |at| (at.not_after, at.id));
        let page = sql(PAGE)
            .bind(time(from))
            .bind(id)
            .bind(time(now.plus(30 * DAY)))
            .bind(i64::from(limit));
        let page = transaction.rows(page).await?;
        for row in &page {
            let late = sql(TOO_LATE)
                .bind(row.id("id")?)
                .bind(time(now))
                .bind(row.number("renew_by")?.max(time(now.plus(HOUR))));
            nudged += transaction.execute(late.bind(row.id("domain_id")?)).await?.rows_affected();
        }
        transaction.commit().await?;
        if nudged > 0 {
            self.tell(&[Topic::Work]);
        }
        let last = page.last().filter(|_| page.len() >= usize::try_from(limit).unwrap_or(0));
        let cursor = |row: &SqliteRow| {
            Ok(SweepCursor { not_after: row.at("not_after")?, id: row.id("id")? })
        };
        Ok(Swept { nudged, next: last.map(cursor).transpose()? })
    }

    async fn prune_events(&self, fence: Option<&Fence>, days: u32, limit: u32) -> Result<u64> {
        let (age, limit) = (time(now().minus(days * DAY)), i64::from(limit));
        let mut transaction = self.fenced("prune events", fence).await?;
        let notices = sql(PRUNE_NOTICES).bind(age).bind(limit);
        let mut pruned = transaction.execute(notices).await?.rows_affected();
        let orders = sql(PRUNE_ORDERS).bind(age).bind(limit);
        pruned += transaction.execute(orders).await?.rows_affected();
        for row in transaction.rows(sql(REMOVED).bind(age).bind(limit)).await? {
            if pruned >= u64::try_from(limit).unwrap_or(0) {
                break;
            }
            let id = row.id("id")?;
            pruned += transaction.execute(sql(PRUNE_HISTORY).bind(id)).await?.rows_affected();
            transaction.execute(sql(PRUNED).bind(id)).await?;
        }
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn moving_from(&self) -> Result<Option<String>> {
        let row = self.readers.row("read what is moved", sql(MOVING_FROM)).await?;
        row.map(|row| row.text("value")).transpose()
    }

    async fn move_from(&self, fence: Option<&Fence>, directory: Option<&str>) -> Result<()> {
        let statement = directory.map_or_else(|| sql(STAY), |from| sql(MOVE_FROM).bind(from));
        let mut transaction = self.fenced("note what is moved", fence).await?;
        transaction.execute(statement).await?;
        transaction.commit().await
    }

    async fn restored(&self) -> Result<Restored> {
        self.restore().await
    }
}
