//! Chores: bounded, repeatable, for any replica to do.

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::Timestamp;

use super::{PostgresStore, event::settled, sql};
use crate::{
    Maintenance, Restored, Result,
    migration::{POSTGRES, newest},
    row::Fields as _,
};

const PING: &str = "SELECT clock_timestamp() AS now";
const SCHEMA: &str = "SELECT coalesce(max(version), 0) AS version FROM holdfast_migration";

const LOCK_LOG: &str = "SELECT folded_xid, folded_id FROM event_log FOR UPDATE SKIP LOCKED";
const FOLD: &str = concat!(
    "WITH tail AS (
        SELECT xid, id, kind, from_state, to_state FROM event WHERE (xid, id) > ($1, $2) AND xid < ",
    settled!(),
    "   ORDER BY xid, id LIMIT 10000),
    folded AS (
        INSERT INTO state_count AS s (state, count)
        SELECT state, sum(n)::bigint FROM tail
            CROSS JOIN LATERAL (VALUES (to_state, 1), (from_state, -1)) delta (state, n)
        WHERE kind = 'transition' AND state IS NOT NULL GROUP BY state
        ON CONFLICT (state) DO UPDATE SET count = s.count + EXCLUDED.count),
    last AS (SELECT xid, id FROM tail ORDER BY xid DESC, id DESC LIMIT 1),
    moved AS (UPDATE event_log SET folded_xid = last.xid, folded_id = last.id FROM last)
    SELECT count(*) AS n FROM tail"
);

const SWEEP: &str =
    "DELETE FROM challenge WHERE created_at < clock_timestamp() - interval '10 days'";

/// Only what the counts have taken in may go.
const PRUNE_NOTICES: &str = "
    DELETE FROM event WHERE (xid, id) IN (
        SELECT e.xid, e.id FROM event e, event_log l WHERE e.domain_id IS NULL
            AND e.at < clock_timestamp() - $1 * interval '1 day' AND (e.xid, e.id) <= (l.folded_xid, l.folded_id)
        ORDER BY e.at LIMIT $2)";
const REMOVED: &str = "
    SELECT id FROM domain WHERE removed_at IS NOT NULL AND NOT pruned AND removed_at < clock_timestamp() - $1 * interval '1 day'
    ORDER BY removed_at LIMIT $2";
const PRUNE_HISTORY: &str = "
    WITH gone AS (DELETE FROM event e USING event_log l
        WHERE e.domain_id = $1 AND (e.xid, e.id) <= (l.folded_xid, l.folded_id) RETURNING e.id),
    pruned AS (UPDATE domain SET pruned = true WHERE id = $1 AND NOT EXISTS (
        SELECT 1 FROM event e, event_log l WHERE e.domain_id = $1 AND (e.xid, e.id) > (l.folded_xid, l.folded_id)))
    SELECT count(*) AS n FROM gone";
const PRUNE_ORDERS: &str = "
    DELETE FROM acme_order WHERE id IN (
        SELECT id FROM acme_order WHERE ended_at < clock_timestamp() - $1 * interval '1 day' ORDER BY ended_at LIMIT $2)";

const MOVING_FROM: &str = "SELECT value FROM setting WHERE key = 'moving_from'";
const MOVE_FROM: &str = "
    INSERT INTO setting (key, value) VALUES ('moving_from', $1) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
const STAY: &str = "DELETE FROM setting WHERE key = 'moving_from'";

#[async_trait]
impl Maintenance for PostgresStore {
    async fn ping(&self) -> Result<Timestamp> {
        self.pool.one("ping", sql(PING)).await?.at("now")
    }

    async fn schema(&self) -> Result<(i64, i64)> {
        let applied = self.pool.one("read the schema's version", sql(SCHEMA)).await?;
        Ok((applied.number("version")?, newest(POSTGRES)))
    }

    async fn fold_counts(&self) -> Result<u64> {
        let mut transaction = self.pool.begin("fold counts").await?;
        // Somebody else is at it: that will do.
        let Some(log) = transaction.row(sql(LOCK_LOG)).await? else {
            transaction.abandon().await?;
            return Ok(0);
        };
        let fold = sql(FOLD).bind(log.number("folded_xid")?).bind(log.number("folded_id")?);
        let folded = transaction.one(fold).await?.number("n")?;
        transaction.commit().await?;
        Ok(u64::try_from(folded).unwrap_or(0))
    }

    async fn sweep_challenges(&self) -> Result<u64> {
        let sweep = self.pool.execute("sweep challenges", sql(SWEEP));
        Ok(around(Point::STORE_CHALLENGE_DROP, sweep).await?.rows_affected())
    }

    async fn prune_events(&self, days: u32, limit: u32) -> Result<u64> {
        let (age, limit) = (i64::from(days), i64::from(limit));
        let notices = sql(PRUNE_NOTICES).bind(age).bind(limit);
        let mut pruned = self.pool.execute("prune notices", notices).await?.rows_affected();
        let orders = sql(PRUNE_ORDERS).bind(age).bind(limit);
        pruned += self.pool.execute("prune orders", orders).await?.rows_affected();
        let removed = sql(REMOVED).bind(age).bind(limit);
        for row in self.pool.rows("find removed domains", removed).await? {
            if pruned >= u64::try_from(limit).unwrap_or(0) {
                break;
            }
            let history = sql(PRUNE_HISTORY).bind(row.id("id")?);
            let gone = self.pool.one("prune a history", history).await?.number("n")?;
            pruned += u64::try_from(gone).unwrap_or(0);
        }
        Ok(pruned)
    }

    async fn moving_from(&self) -> Result<Option<String>> {
        let row = self.pool.row("read what is moved", sql(MOVING_FROM)).await?;
        row.map(|row| row.text("value")).transpose()
    }

    async fn move_from(&self, directory: Option<&str>) -> Result<()> {
        let statement = directory.map_or_else(|| sql(STAY), |from| sql(MOVE_FROM).bind(from));
        self.pool.execute("note what is moved", statement).await?;
        Ok(())
    }

    async fn restored(&self) -> Result<Restored> {
        self.restore().await
    }
}
