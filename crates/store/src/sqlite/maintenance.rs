//! Chores: bounded and repeatable.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::{SqliteStore, now, sql, time};
use crate::{
    Fence, Maintenance, Replica, Restored, Result, SweepCursor, Swept, Topic,
    maintenance::{FOLDED, second_above},
    migration::{SQLITE, newest},
    row::Fields as _,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const PING: &str = "SELECT count(*) FROM setting";
const SCHEMA: &str = "SELECT coalesce(max(version), 0) AS version FROM holdfast_migration";

const WRITTEN: &str = "
    INSERT INTO setting (key, value) VALUES ('written_at', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

const TAIL: &str = "
    SELECT count(*) AS n, max(id) AS last FROM (
        SELECT id FROM event WHERE id > (SELECT folded_id FROM event_log) ORDER BY id LIMIT $1)";
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
const FOLDED_TO: &str = "UPDATE event_log SET folded_id = $1";

/// Nobody would look at them ever again.
const FORGOTTEN: &str = "
    UPDATE domain SET due_at = $1, updated_at = $1 WHERE id IN (
        SELECT id FROM domain INDEXED BY domain_forgotten WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY id LIMIT $2)";
const PAGE: &str = "
    SELECT id, domain_id, not_after, not_after - (not_after - not_before) / 10 AS renew_by FROM certificate
    WHERE superseded_at IS NULL AND (not_after, id) > ($1, $2) AND not_after < $3 ORDER BY not_after, id LIMIT $4";
/// A next look in the last tenth of a certificate's life, or later, comes too late to renew it.
const TOO_LATE: &str = "
    UPDATE domain SET due_at = $2, updated_at = $2 WHERE id = $4 AND certificate_id = $1 AND state = 'Active'
        AND removing_since IS NULL AND removed_at IS NULL AND (claimed_until IS NULL OR claimed_until < $2) AND due_at > $3";

/// Nothing at rest is looked at later than this, but for what the release before or a wrong clock wrote. They are spread over some
/// hours, and none of them is in a hurry.
const NEARER: &str = "
    UPDATE domain SET due_at = $1 + abs(random() % $2), updated_at = $1 WHERE id IN (
        SELECT id FROM domain INDEXED BY domain_due WHERE due_at > $3 AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL
        ORDER BY due_at DESC LIMIT $4)";

const MOVING_FROM: &str = "SELECT value FROM setting WHERE key = 'moving_from'";
const MOVE_FROM: &str = "
    INSERT INTO setting (key, value) VALUES ('moving_from', $1), ('moving_since', $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const STAY: &str = "DELETE FROM setting WHERE key = 'moving_from'";
const PRUNE_LEASES: &str = "
    DELETE FROM lease_history WHERE id IN (SELECT id FROM lease_history WHERE at_us < $1 ORDER BY at_us LIMIT $2)";

#[async_trait]
impl Maintenance for SqliteStore {
    async fn ping(&self) -> Result<Timestamp> {
        self.readers.one("ping", sql(PING)).await?;
        Ok(now())
    }

    fn shortage(&self) -> Option<String> {
        None
    }

    async fn schema(&self) -> Result<(i64, i64)> {
        let applied = self.readers.one("read the schema's version", sql(SCHEMA)).await?;
        Ok((applied.number("version")?, newest(SQLITE)))
    }

    async fn check_writes(&self) -> Result<()> {
        self.readers.damage().check()?;
        self.readers.damage().check_disk()?;
        self.room.check()?;
        let check = sql(WRITTEN).bind(time(now()).to_string());
        self.writer.execute_soon("check that the database can be written", check).await
    }

    async fn close(&self) -> Result<()> {
        // A log that is damaged would be written into the file.
        self.readers.damage().check()?;
        self.readers.close().await;
        self.writer.close().await
    }

    async fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |metadata| metadata.len())
    }

    async fn count_edges(&self, fence: Option<&Fence>) -> Result<u64> {
        self.count_all_edges(fence).await
    }

    async fn fold_counts(&self, fence: Option<&Fence>) -> Result<u64> {
        let mut transaction = self.fenced("fold counts", fence).await?;
        let tail = transaction.one(sql(TAIL).bind(i64::from(FOLDED))).await?;
        let Some(last) = tail.maybe_number("last")? else {
            transaction.abandon().await?;
            return Ok(0);
        };
        transaction.execute(sql(FOLD).bind(last)).await?;
        transaction.execute(sql(FOLDED_TO).bind(last)).await?;
        transaction.commit().await?;
        Ok(u64::try_from(tail.number("n")?).unwrap_or(0))
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
        let nearer = sql(NEARER)
            .bind(time(now))
            .bind(time(now.plus(6 * HOUR)) - time(now))
            .bind(time(now.plus(8 * DAY)))
            .bind(i64::from(limit));
        let nearer = transaction.execute(nearer).await?.rows_affected();
        transaction.commit().await?;
        if nudged > 0 {
            self.tell(&[Topic::Work]);
        }
        let last = page.last().filter(|_| page.len() >= usize::try_from(limit).unwrap_or(0));
        let cursor = |row: &SqliteRow| {
            Ok(SweepCursor { not_after: row.at("not_after")?, id: row.id("id")? })
        };
        Ok(Swept { nudged, nearer, next: last.map(cursor).transpose()? })
    }

    async fn refresh_statistics(&self, fence: Option<&Fence>) -> Result<u64> {
        self.optimize(fence).await.map(u64::from)
    }

    async fn moving_from(&self) -> Result<Option<String>> {
        let row = self.readers.row("read what is moved", sql(MOVING_FROM)).await?;
        row.map(|row| row.text("value")).transpose()
    }

    async fn move_from(&self, fence: Option<&Fence>, directory: Option<&str>) -> Result<()> {
        let since = time(now()).to_string();
        let begin = |from| sql(MOVE_FROM).bind(from).bind(since);
        let statement = directory.map_or_else(|| sql(STAY), begin);
        let mut transaction = self.fenced("note what is moved", fence).await?;
        transaction.execute(statement).await?;
        transaction.commit().await
    }

    /// The file's lock keeps them out.
    async fn may_be_used_by_others(&self) -> Result<bool> {
        Ok(false)
    }

    /// The file is locked: no replica can be running.
    async fn restored_above(&self, epoch: i64, _: Option<&[Replica]>) -> Result<Restored> {
        self.restore(second_above(epoch)).await
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::Scratch;

    use super::*;
    use crate::{MasterKey, OpenOptions, Outage};

    /// What a quota or a nearly full disk refuses is told although the next small row finds room, and no longer than it is news.
    #[tokio::test]
    async fn a_disk_that_refused_a_write_is_told_for_a_while() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("holdfast.db").display().to_string();
        crate::sqlite::migrate(&file).await.unwrap();
        let key = Some(MasterKey::generate().unwrap());
        let store = SqliteStore::open(&file, key, &OpenOptions::default()).await.unwrap();
        store.check_writes().await.unwrap();
        store.writer.rows("test", sqlx::query("PRAGMA max_page_count = 1")).await.unwrap();
        let large = "INSERT INTO setting (key, value) VALUES ('test', hex(zeroblob(500000)))";
        let refused = store.writer.execute("test", sqlx::query(large)).await.unwrap_err();
        assert_eq!(refused.outage(), Some(Outage::DiskFull));
        let told = store.check_writes().await.unwrap_err();
        assert_eq!(told.outage(), Some(Outage::DiskFull));
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        store.check_writes().await.unwrap();
    }
}
