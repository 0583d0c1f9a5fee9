//! Replicas: of one process there is one, but it is known in the same way.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{SqliteStore, now, sql, time};
use crate::{
    Beat, Fence, NewReplica, Replica, Replicas, Result,
    moment::TOLERANCE,
    query::ca_failure,
    row::{Fields as _, replica},
};

const BEFORE: &str = "
    SELECT left_at IS NULL AND incarnation <> $2 AND beat_at > $3 AND beat_at <= $4 AS alive FROM replica WHERE instance = $1";
const REGISTER: &str = "
    INSERT INTO replica (instance, incarnation, url, role, version, registered_at, started_at, beat_at)
    VALUES ($1, $2, $3, $4, $5, $6, $6, $6)
    ON CONFLICT (instance) DO UPDATE SET incarnation = excluded.incarnation, url = excluded.url, role = excluded.role,
        version = excluded.version, started_at = excluded.started_at, beat_at = excluded.beat_at, draining = 0, left_at = NULL";
const BEAT: &str = "
    UPDATE replica SET beat_at = $3, draining = $4 WHERE instance = $1 AND incarnation = $2 AND left_at IS NULL";
const KNOWN: &str = "SELECT incarnation FROM replica WHERE instance = $1 AND incarnation <> $2";
const ALL: &str = "
    SELECT *, beat_at > $1 AND beat_at <= $2 AS healthy FROM replica WHERE left_at IS NULL ORDER BY registered_at, instance";
const LEAVE: &str = "UPDATE replica SET left_at = $3 WHERE instance = $1 AND incarnation = $2";
const PRUNE: &str = "DELETE FROM replica WHERE beat_at < $1";
const PRUNE_DIRECTORIES: &str =
    "DELETE FROM replica_directory WHERE instance NOT IN (SELECT instance FROM replica)";

/// Between when and when a sign of life counts: one in the future is none.
pub(super) fn signs_of_life(stale: Duration) -> (i64, i64) {
    let now = now();
    (time(now.minus(stale)), time(now.plus(TOLERANCE)))
}

#[async_trait]
impl Replicas for SqliteStore {
    async fn register_replica(&self, new: &NewReplica, stale: Duration) -> Result<bool> {
        let mut transaction = self.writer.begin("register a replica").await?;
        let (since, until) = signs_of_life(stale);
        let before = sql(BEFORE).bind(&*new.instance).bind(new.incarnation);
        let before = transaction.row(before.bind(since).bind(until)).await?;
        let register = sql(REGISTER)
            .bind(&*new.instance)
            .bind(new.incarnation)
            .bind(&*new.url)
            .bind(&*new.role)
            .bind(&*new.version)
            .bind(time(now()));
        transaction.execute(register).await?;
        transaction.commit().await?;
        before.map_or(Ok(false), |row| row.flag("alive"))
    }

    async fn beat(
        &self,
        instance: &str,
        incarnation: Uuid,
        draining: bool,
        stale: Duration,
    ) -> Result<Beat> {
        let beat = sql(BEAT).bind(instance).bind(incarnation).bind(time(now())).bind(draining);
        if self.writer.execute("beat", beat).await?.rows_affected() > 0 {
            return Ok(Beat::Heard(self.replicas(stale).await?));
        }
        let known = sql(KNOWN).bind(instance).bind(incarnation);
        let other = self.readers.row("find who bears a name", known).await?;
        Ok(if other.is_some() { Beat::Replaced } else { Beat::Unknown })
    }

    async fn replicas(&self, stale: Duration) -> Result<Vec<Replica>> {
        let (since, until) = signs_of_life(stale);
        let all = sql(ALL).bind(since).bind(until);
        self.readers.rows("list replicas", all).await?.iter().map(replica).collect()
    }

    async fn deregister_replica(&self, instance: &str, incarnation: Uuid) -> Result<()> {
        let leave = sql(LEAVE).bind(instance).bind(incarnation).bind(time(now()));
        self.writer.execute("let a replica leave", leave).await?;
        Ok(())
    }

    async fn prune_replicas(&self, fence: Option<&Fence>, silent: Duration) -> Result<u64> {
        let mut transaction = self.fenced("prune replicas", fence).await?;
        let prune = sql(PRUNE).bind(time(now().minus(silent)));
        let pruned = transaction.execute(prune).await?.rows_affected();
        transaction.execute(sql(PRUNE_DIRECTORIES)).await?;
        transaction.execute(sql(ca_failure::PRUNE)).await?;
        transaction.commit().await?;
        Ok(pruned)
    }
}
