//! Replicas, by the database's clock.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{PostgresStore, micros, sql};
use crate::{
    Beat, Fence, NewReplica, Replica, Replicas, Result,
    query::ca_failure,
    row::{Fields as _, replica},
};

const BEFORE: &str = "
    SELECT left_at IS NULL AND incarnation <> $2 AND beat_at > clock_timestamp() - $3 * interval '1 microsecond'
        AND beat_at <= clock_timestamp() + interval '5 seconds' AS alive
    FROM replica WHERE instance = $1 FOR UPDATE";
const REGISTER: &str = "
    INSERT INTO replica (instance, incarnation, url, role, version, registered_at, started_at, beat_at)
    VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp(), clock_timestamp())
    ON CONFLICT (instance) DO UPDATE SET incarnation = EXCLUDED.incarnation, url = EXCLUDED.url, role = EXCLUDED.role,
        version = EXCLUDED.version, started_at = EXCLUDED.started_at, beat_at = EXCLUDED.beat_at, draining = false, left_at = NULL";
const BEAT: &str = "
    UPDATE replica SET beat_at = clock_timestamp(), draining = $3 WHERE instance = $1 AND incarnation = $2 AND left_at IS NULL";
const KNOWN: &str = "SELECT incarnation FROM replica WHERE instance = $1 AND incarnation <> $2";
/// A sign of life in the future is none.
pub(super) const ALL: &str = "
    SELECT *, beat_at > clock_timestamp() - $1 * interval '1 microsecond'
        AND beat_at <= clock_timestamp() + interval '5 seconds' AS healthy
    FROM replica WHERE left_at IS NULL ORDER BY registered_at, instance";
const LEAVE: &str = "
    UPDATE replica SET left_at = clock_timestamp() WHERE instance = $1 AND incarnation = $2";
const PRUNE: &str =
    "DELETE FROM replica WHERE beat_at < clock_timestamp() - $1 * interval '1 microsecond'";
const PRUNE_DIRECTORIES: &str =
    "DELETE FROM replica_directory WHERE instance NOT IN (SELECT instance FROM replica)";

#[async_trait]
impl Replicas for PostgresStore {
    async fn register_replica(&self, new: &NewReplica, stale: Duration) -> Result<bool> {
        let mut transaction = self.pool.begin("register a replica").await?;
        let before = sql(BEFORE).bind(&*new.instance).bind(new.incarnation).bind(micros(stale));
        let before = transaction.row(before).await?;
        let register = sql(REGISTER)
            .bind(&*new.instance)
            .bind(new.incarnation)
            .bind(&*new.url)
            .bind(&*new.role)
            .bind(&*new.version);
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
        let beat = sql(BEAT).bind(instance).bind(incarnation).bind(draining);
        if self.pool.execute("beat", beat).await?.rows_affected() > 0 {
            return Ok(Beat::Heard(self.replicas(stale).await?));
        }
        let known = sql(KNOWN).bind(instance).bind(incarnation);
        let other = self.pool.row("find who bears a name", known).await?;
        Ok(if other.is_some() { Beat::Replaced } else { Beat::Unknown })
    }

    async fn replicas(&self, stale: Duration) -> Result<Vec<Replica>> {
        let rows = self.pool.rows("list replicas", sql(ALL).bind(micros(stale))).await?;
        rows.iter().map(replica).collect()
    }

    async fn deregister_replica(&self, instance: &str, incarnation: Uuid) -> Result<()> {
        self.pool
            .execute("let a replica leave", sql(LEAVE).bind(instance).bind(incarnation))
            .await?;
        Ok(())
    }

    async fn prune_replicas(&self, fence: Option<&Fence>, silent: Duration) -> Result<u64> {
        let mut transaction = self.fenced("prune replicas", fence).await?;
        let pruned = transaction.execute(sql(PRUNE).bind(micros(silent))).await?.rows_affected();
        transaction.execute(sql(PRUNE_DIRECTORIES)).await?;
        transaction.execute(sql(ca_failure::PRUNE)).await?;
        transaction.commit().await?;
        Ok(pruned)
    }
}
