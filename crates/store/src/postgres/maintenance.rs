//! Chores: bounded, repeatable, for any replica to do.

use std::{sync::PoisonError, time::Duration};

use async_trait::async_trait;
use holdfast_model::Timestamp;
use uuid::Uuid;

use super::{PostgresStore, collision_free, event::settled, micros, sql, time};
use crate::{
    Fence, Maintenance, Replica, Restored, Result, SweepCursor, Swept, Topic,
    maintenance::{FOLDED, second_above},
    migration::{POSTGRES, newest},
    row::Fields as _,
};

/// Asked with every ping: a session that began before a failover may still answer reads.
macro_rules! takes_writes {
    () => {
        "pg_is_in_recovery() AS standby, current_setting('transaction_read_only')::bool AS read_only"
    };
}

const PING: &str = concat!("SELECT clock_timestamp() AS now, ", takes_writes!());
/// A server says when it began: another one, or the same after a restart, says something else.
const SERVER: &str = concat!("SELECT pg_postmaster_start_time() AS began, ", takes_writes!());
const SCHEMA: &str = concat!(
    "SELECT coalesce(max(version), 0) AS version, ",
    takes_writes!(),
    " FROM holdfast_migration"
);

/// What keeps a write waiting is told before whoever asks gives up: a lock that somebody else holds, a standby that is lost.
const ANSWERED_WITHIN: Duration = Duration::from_millis(2_500);
const SOON: &str = "SELECT set_config('lock_timeout', '2s', true)";
/// One row, of which no index knows the value: an update in place.
const WRITTEN: &str = "
    INSERT INTO setting (key, value) VALUES ('written_at', clock_timestamp()::text)
    ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";

const LOCK_LOG: &str = "SELECT folded_xid, folded_id FROM event_log FOR UPDATE SKIP LOCKED";
const FOLD: &str = concat!(
    "WITH tail AS (
        SELECT xid, id, kind, from_state, to_state FROM event WHERE (xid, id) > ($1, $2) AND xid < ",
    settled!(),
    "   ORDER BY xid, id LIMIT $3),
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

/// Sessions of ours that are older than this one: a process that has only just connected has none. Or replicas that never left.
const OTHERS: &str = "
    SELECT EXISTS (SELECT FROM pg_stat_activity o JOIN pg_stat_activity own ON own.pid = pg_backend_pid()
        WHERE o.datname = current_database() AND o.application_name LIKE 'holdfast%' AND o.pid <> own.pid
            AND (o.application_name <> 'holdfast' OR o.backend_start < own.backend_start))
        OR EXISTS (SELECT FROM replica WHERE left_at IS NULL) AS others";
/// Nobody would look at them ever again.
const FORGOTTEN: &str = "
    UPDATE domain SET due_at = clock_timestamp(), updated_at = clock_timestamp() WHERE id IN (
        SELECT id FROM domain WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)";
/// A next look in the last tenth of a certificate's life, or later, comes too late to renew it.
const TOO_LATE: &str = "
    WITH page AS (
        SELECT id, domain_id, not_after, not_after - (not_after - not_before) / 10 AS renew_by FROM certificate
        WHERE superseded_at IS NULL AND (not_after, id) > ($1, $2) AND not_after < statement_timestamp() + interval '30 days'
        ORDER BY not_after, id LIMIT $3),
    wrong AS (
        SELECT d.id FROM page p JOIN domain d ON d.id = p.domain_id AND d.certificate_id = p.id
        WHERE d.state = 'Active' AND d.removing_since IS NULL AND d.removed_at IS NULL
          AND (d.claimed_until IS NULL OR d.claimed_until < clock_timestamp())
          AND d.due_at > greatest(p.renew_by, clock_timestamp() + interval '1 hour')
        FOR UPDATE OF d SKIP LOCKED),
    nudged AS (UPDATE domain d SET due_at = clock_timestamp(), updated_at = clock_timestamp() FROM wrong WHERE d.id = wrong.id RETURNING d.id)
    SELECT (SELECT count(*) FROM nudged) AS nudged, (SELECT count(*) FROM page) AS seen, last.not_after, last.id
    FROM (VALUES (1)) one (one) LEFT JOIN LATERAL (SELECT not_after, id FROM page ORDER BY not_after DESC, id DESC LIMIT 1) last ON true";

/// Nothing at rest is looked at later than this, but for what the release before or a wrong clock wrote. They are spread over some
/// hours, and none of them is in a hurry.
const NEARER: &str = "
    UPDATE domain d SET due_at = clock_timestamp() + random() * interval '6 hours', updated_at = clock_timestamp() FROM (
        SELECT id FROM domain WHERE due_at > statement_timestamp() + interval '8 days'
            AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY due_at DESC LIMIT $1 FOR UPDATE SKIP LOCKED) far
    WHERE d.id = far.id";

const MOVING_FROM: &str = "SELECT value FROM setting WHERE key = 'moving_from'";
const MOVE_FROM: &str = "
    INSERT INTO setting (key, value) VALUES ('moving_from', $1), ('moving_since', clock_timestamp()::text) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
const STAY: &str = "DELETE FROM setting WHERE key = 'moving_from'";
const PRUNE_LEASES: &str = "
    DELETE FROM lease_history WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM lease_history WHERE at < statement_timestamp() - $1 * interval '1 microsecond' ORDER BY at LIMIT $2))";

#[async_trait]
impl Maintenance for PostgresStore {
    async fn ping(&self) -> Result<Timestamp> {
        let row = self.pool.one("ping", sql(PING)).await?;
        self.see_that_it_takes_writes(&row)?;
        row.at("now")
    }

    fn shortage(&self) -> Option<String> {
        self.pool.shortage()
    }

    async fn schema(&self) -> Result<(i64, i64)> {
        let applied = self.pool.one("read the schema's version", sql(SCHEMA)).await?;
        self.see_that_it_takes_writes(&applied)?;
        Ok((applied.number("version")?, newest(POSTGRES)))
    }

    async fn check_writes(&self) -> Result<()> {
        const AT: &str = "check that the database can be written";
        let server = self.pool.one(AT, sql(SERVER)).await?;
        self.see_that_it_takes_writes(&server)?;
        self.forget_damage_of_another(server.at("began")?);
        self.pool.damage().check()?;
        self.pool.damage().check_disk()?;
        let mut transaction = self.pool.begin(AT).await?.hurried(ANSWERED_WITHIN);
        transaction.execute(sql(SOON)).await?;
        transaction.execute(sql(WRITTEN)).await?;
        transaction.commit().await
    }

    async fn count_edges(&self, fence: Option<&Fence>) -> Result<u64> {
        collision_free(|| self.count_all_edges(fence)).await
    }

    async fn fold_counts(&self, fence: Option<&Fence>) -> Result<u64> {
        collision_free(|| self.fold_tail(fence)).await
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
        let nearer = sql(NEARER).bind(i64::from(limit));
        let nearer = transaction.execute(nearer).await?.rows_affected();
        transaction.commit().await?;
        let nudged = forgotten + u64::try_from(late.number("nudged")?).unwrap_or(0);
        if nudged > 0 {
            self.herald.tell(&[Topic::Work]);
        }
        let more = late.number("seen")? >= i64::from(limit);
        let last = late.maybe_at("not_after")?.zip(late.maybe_id("id")?).filter(|_| more);
        let next = last.map(|(not_after, id)| SweepCursor { not_after, id });
        Ok(Swept { nudged, nearer, next })
    }

    /// Autovacuum does.
    async fn refresh_statistics(&self, _: Option<&Fence>) -> Result<u64> {
        Ok(0)
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

    async fn may_be_used_by_others(&self) -> Result<bool> {
        self.pool.one("look for other processes", sql(OTHERS)).await?.flag("others")
    }

    async fn restored_above(&self, epoch: i64, before: Option<&[Replica]>) -> Result<Restored> {
        self.restore(second_above(epoch), before).await
    }
}

impl PostgresStore {
    /// Damage is of the server that was met with it.
    fn forget_damage_of_another(&self, began: Timestamp) {
        let mut known = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if known.replace(began).is_some_and(|known| known != began) {
            self.pool.damage().forget();
        }
    }

    async fn fold_tail(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("fold counts", fence).await?;
        // Somebody else is at it: that will do.
        let Some(log) = transaction.row(sql(LOCK_LOG)).await? else {
            transaction.abandon().await?;
            return Ok(0);
        };
        let fold = sql(FOLD).bind(log.number("folded_xid")?).bind(log.number("folded_id")?);
        let fold = fold.bind(i64::from(FOLDED));
        let folded = transaction.one(fold).await?.number("n")?;
        transaction.commit().await?;
        Ok(u64::try_from(folded).unwrap_or(0))
    }
}
