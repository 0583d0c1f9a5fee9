//! Chores: bounded, repeatable, for any replica to do.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::Timestamp;
use uuid::Uuid;

use super::{PostgresStore, collision_free, event::settled, micros, sql, time};
use crate::{
    Fence, Maintenance, Restored, Result, SweepCursor, Swept, Topic,
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

/// Nobody would look at them ever again.
const FORGOTTEN: &str = "
    UPDATE domain SET due_at = clock_timestamp() WHERE id IN (
        SELECT id FROM domain WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)";
/// A next look in the last tenth of a certificate's life, or later, comes too late to renew it.
const TOO_LATE: &str = "
    WITH page AS (
        SELECT id, domain_id, not_after, not_after - (not_after - not_before) / 10 AS renew_by FROM certificate
        WHERE superseded_at IS NULL AND (not_after, id) > ($1, $2) AND not_after < clock_timestamp() + interval '30 days'
        ORDER BY not_after, id LIMIT $3),
    wrong AS (
        SELECT d.id FROM page p JOIN domain d ON d.id = p.domain_id AND d.certificate_id = p.id
        WHERE d.state = 'Active' AND d.removing_since IS NULL AND d.removed_at IS NULL
          AND (d.claimed_until IS NULL OR d.claimed_until < clock_timestamp())
          AND d.due_at > greatest(p.renew_by, clock_timestamp() + interval '1 hour')
        FOR UPDATE OF d SKIP LOCKED),
    nudged AS (UPDATE domain d SET due_at = clock_timestamp() FROM wrong WHERE d.id = wrong.id RETURNING d.id)
    SELECT (SELECT count(*) FROM nudged) AS nudged, (SELECT count(*) FROM page) AS seen, last.not_after, last.id
    FROM (VALUES (1)) one (one) LEFT JOIN LATERAL (SELECT not_after, id FROM page ORDER BY not_after DESC, id DESC LIMIT 1) last ON true";

const MOVING_FROM: &str = "SELECT value FROM setting WHERE key = 'moving_from'";
const MOVE_FROM: &str = "
    INSERT INTO setting (key, value) VALUES ('moving_from', $1) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
const STAY: &str = "DELETE FROM setting WHERE key = 'moving_from'";
const PRUNE_LEASES: &str = "
    DELETE FROM lease_history WHERE id IN (
        SELECT id FROM lease_history WHERE at < clock_timestamp() - $1 * interval '1 microsecond' ORDER BY at LIMIT $2)";

#[async_trait]
impl Maintenance for PostgresStore {
    async fn ping(&self) -> Result<Timestamp> {
        self.pool.one("ping", sql(PING)).await?.at("now")
    }

    async fn schema(&self) -> Result<(i64, i64)> {
        let applied = self.pool.one("read the schema's version", sql(SCHEMA)).await?;
        Ok((applied.number("version")?, newest(POSTGRES)))
    }

    async fn fold_counts(&self, fence: Option<&Fence>) -> Result<u64> {
        collision_free(|| self.fold_tail(fence)).await
    }

    async fn sweep_challenges(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("sweep challenges", fence).await?;
        let swept = transaction.execute(sql(SWEEP)).await?.rows_affected();
        around(Point::STORE_CHALLENGE_DROP, transaction.commit()).await?;
        Ok(swept)
    }

    async fn prune_events(&self, fence: Option<&Fence>, days: u32, limit: u32) -> Result<u64> {
        let (age, limit) = (i64::from(days), i64::from(limit));
        let mut transaction = self.fenced("prune events", fence).await?;
        let notices = sql(PRUNE_NOTICES).bind(age).bind(limit);
        let mut pruned = transaction.execute(notices).await?.rows_affected();
        let orders = sql(PRUNE_ORDERS).bind(age).bind(limit);
        pruned += transaction.execute(orders).await?.rows_affected();
        let removed = transaction.rows(sql(REMOVED).bind(age).bind(limit)).await?;
        transaction.commit().await?;
        for row in removed {
            if pruned >= u64::try_from(limit).unwrap_or(0) {
                break;
            }
            // One at a time: a guard must not stay open for longer than a third of a lease.
            let mut transaction = self.fenced("prune a history", fence).await?;
            let history = sql(PRUNE_HISTORY).bind(row.id("id")?);
            let gone = transaction.one(history).await?.number("n")?;
            transaction.commit().await?;
            pruned += u64::try_from(gone).unwrap_or(0);
        }
        Ok(pruned)
    }

    async fn prune_lease_history(
        &self,
        fence: Option<&Fence>,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64> {
        let mut transaction = self.fenced("prune the history of leases", fence).await?;
        let prune = sql(PRUNE_LEASES).bind(micros(older_than)).bind(i64::from(limit));
        let pruned = transaction.execute(prune).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn forget_departed(&self, fence: Option<&Fence>, limit: u32) -> Result<Option<u64>> {
        collision_free(|| self.unsee(fence, limit)).await
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
        let forgotten = sql(FORGOTTEN).bind(i64::from(limit));
        let forgotten = transaction.execute(forgotten).await?.rows_affected();
        let (not_after, id) =
            after.map_or((Timestamp::from_seconds(0), Uuid::nil()), |at| (at.not_after, at.id));
        let late = sql(TOO_LATE).bind(time(not_after)).bind(id).bind(i64::from(limit));
        let late = transaction.one(late).await?;
        transaction.commit().await?;
        let nudged = forgotten + u64::try_from(late.number("nudged")?).unwrap_or(0);
        if nudged > 0 {
            self.herald.tell(&[Topic::Work]);
        }
        let more = late.number("seen")? >= i64::from(limit);
        let last = late.maybe_at("not_after")?.zip(late.maybe_id("id")?).filter(|_| more);
        Ok(Swept { nudged, next: last.map(|(not_after, id)| SweepCursor { not_after, id }) })
    }

    async fn moving_from(&self) -> Result<Option<String>> {
        let row = self.pool.row("read what is moved", sql(MOVING_FROM)).await?;
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

impl PostgresStore {
    async fn fold_tail(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("fold counts", fence).await?;
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
}
