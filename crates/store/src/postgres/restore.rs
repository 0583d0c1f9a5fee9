//! After a restore: what other processes hold is of a future that is gone, and must not be taken for the past of this one.

use sqlx::{AssertSqlSafe, Postgres};

use super::{PostgresStore, collision_free, replica::ALL, sql, wake};
use crate::{
    Error, Replica, Restored, Result,
    pool::Transaction,
    row::{Fields as _, replica},
};

/// Does the log hold transactions that this server has not made yet?
const AHEAD: &str = "
    SELECT coalesce((SELECT max(xid) FROM event), 0) > base + pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ahead
    FROM event_log";

/// Every deployment is written anew, and there may be a million of them.
/// A session of another name: it is given up on later than those of requests.
const UNHURRIED: &str = "
    SELECT set_config('statement_timeout', '45min', true), set_config('enable_seqscan', 'on', true),
        set_config('application_name', 'holdfast-restore', true)";
/// The log's row first, as who folds the counts does: the other way round, each would wait for the other.
const LOCK_LOG: &str = "SELECT base FROM event_log FOR UPDATE";
/// Nobody writes events between here and the commit.
const LOCK_EVENTS: &str = "LOCK TABLE event IN ACCESS EXCLUSIVE MODE";
/// Signs of life wait from here to the commit: who gives one then finds the database as it is restored.
const LOCK_REPLICAS: &str = "LOCK TABLE replica IN SHARE ROW EXCLUSIVE MODE";
/// The log goes on at a place made of the clock's seconds, so that a backup restored twice does not repeat places that clients
/// remember from its first restore. 2^31 places a second are more than transactions can use up. `epoch` is for the release
/// before: it puts every event below what that release takes for settled.
const NEXT_BASE: &str = "
    UPDATE event_log SET base = n.base, epoch = (n.base >> 48) + 1, folded_xid = n.newest + 1, folded_id = 0
    FROM (SELECT p.newest, greatest(greatest(extract(epoch FROM clock_timestamp())::bigint, $1) << 31, p.newest + (1::bigint << 31))
                 + floor(random() * 32768)::bigint - pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS base
          FROM (SELECT coalesce((SELECT max(xid) FROM event), 0) AS newest) p) n
    RETURNING event_log.base";
const FORGET_COUNTS: &str = "DELETE FROM state_count";
const COUNT: &str = "
    INSERT INTO state_count (state, count) SELECT state, count(*) FROM domain WHERE removed_at IS NULL GROUP BY state";

/// Above everything given out before the backup, and another number each time the same backup is restored: seconds in the
/// high part, no less than `$1`, chance in the low one. It stays below 2^53, which is as far as a JSON number is exact.
macro_rules! raised {
    ($number:literal) => {
        concat!(
            "greatest(",
            $number,
            " + 1000000, greatest(extract(epoch FROM clock_timestamp())::bigint, $1) << 15) + floor(random() * 32768)::bigint"
        )
    };
}

const EPOCH: &str = concat!("UPDATE revision SET epoch = ", raised!("epoch"), " RETURNING epoch");
const VOID_CLAIMS: &str = "
    UPDATE domain SET claimed_by = NULL, incarnation = NULL, claimed_until = NULL, claim_epoch = claim_epoch + 1,
        updated_at = clock_timestamp(),
        due_at = CASE WHEN queued_at IS NOT NULL AND order_id IS NULL AND wanted IS NULL AND removing_since IS NULL
                      THEN NULL ELSE clock_timestamp() END
    WHERE claimed_until IS NOT NULL";
const ORDERS_ANEW: &str = "
    UPDATE domain SET due_at = clock_timestamp(), updated_at = clock_timestamp() WHERE order_id IS NOT NULL AND removed_at IS NULL";
const DEPLOY_ANEW: &str = "
    WITH numbered AS (SELECT name, edge_group, row_number() OVER (ORDER BY revision, name, edge_group) AS n FROM deployment),
    again AS (UPDATE deployment p SET revision = r.number + numbered.n, updated_at = clock_timestamp()
        FROM numbered, revision r WHERE p.name = numbered.name AND p.edge_group = numbered.edge_group RETURNING p.certificate_id),
    bumped AS (UPDATE revision SET number = number + (SELECT count(*) FROM again))
    SELECT count(certificate_id) AS n FROM again";
const FORGET_SEEN: &str = "DELETE FROM observation";
const DEPLOYING: &str = "
    UPDATE domain SET nudged = true, due_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE state = 'CertificateDeploying' AND removed_at IS NULL";
/// What was revoked since the backup was made is only known to the CA: it is asked about every certificate, twenty a second.
const ASK_ANEW: &str = "
    WITH numbered AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM domain
        WHERE state = 'Active' AND removed_at IS NULL AND removing_since IS NULL)
    UPDATE domain d SET due_at = least(d.due_at, clock_timestamp() + numbered.n * interval '50 milliseconds'),
        updated_at = clock_timestamp()
    FROM numbered WHERE d.id = numbered.id";
/// What is not served yet is asked about as soon as it is.
const ASK_LATER: &str = "
    UPDATE domain SET ask_anew = true WHERE certificate_id IS NOT NULL AND removed_at IS NULL AND removing_since IS NULL
        AND state IN ('Initial', 'CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed')";

/// No term that was given out since the backup may be given to another holder; whoever holds a lease wins it anew. First of
/// all locks, as in every guarded transaction.
const RAISE_TERMS: &str = concat!(
    "UPDATE lease SET term = ",
    raised!("term"),
    ", previous = holder, holder = NULL, incarnation = NULL, beat = 0, ttl_us = 0,
        since = clock_timestamp(), expires_at = clock_timestamp(), renewed_at = clock_timestamp(), step_down = false,
        successor = NULL, beacon = NULL, reason = 'forced'"
);
const RAISE_REGISTERED: &str = concat!(
    "UPDATE lease_fence f SET term = r.raised, wanted = r.raised
     FROM (SELECT name, ",
    raised!("greatest(term, wanted)"),
    " AS raised FROM lease_fence) r WHERE f.name = r.name"
);

impl PostgresStore {
    /// A dump that was loaded into another server brings events of transactions that this one has yet to count to: they would stay
    /// unseen, and newer ones would sort before them. A new epoch of the log puts everything that comes behind.
    pub(super) async fn reckon_with_restored_clock(&self) -> Result<()> {
        if self.pool.one("look at the log's epoch", sql(AHEAD)).await?.flag("ahead")?
            && collision_free(|| self.begin_log_epoch()).await?
        {
            tracing::warn!("this database was restored from a dump; run `holdfast restored`");
        }
        Ok(())
    }

    /// Begins a new stretch of the log, unless another replica was first.
    async fn begin_log_epoch(&self) -> Result<bool> {
        let mut transaction = self.pool.begin("begin a new epoch of the log").await?.unhurried();
        transaction.execute(sql(UNHURRIED)).await?;
        lock_log(&mut transaction).await?;
        let ahead = transaction.one(sql(AHEAD)).await?.flag("ahead")?;
        if ahead {
            next_log_base(&mut transaction, 0).await?;
        }
        transaction.commit().await?;
        Ok(ahead)
    }

    /// With numbers made of this second, or a later one.
    pub(super) async fn restore(
        &self,
        second: i64,
        before: Option<&[Replica]>,
    ) -> Result<Restored> {
        collision_free(|| self.try_restore(second, before)).await
    }

    async fn try_restore(&self, second: i64, before: Option<&[Replica]>) -> Result<Restored> {
        let mut transaction = self.pool.begin("reckon with a restore").await?.unhurried();
        transaction.execute(sql(UNHURRIED)).await?;
        transaction.execute(sql(RAISE_TERMS).bind(second)).await?;
        transaction.execute(sql(RAISE_REGISTERED).bind(second)).await?;
        lock_log(&mut transaction).await?;
        next_log_base(&mut transaction, second).await?;
        transaction.execute(sql(VOID_CLAIMS)).await?;
        let orders = transaction.execute(sql(ORDERS_ANEW)).await?.rows_affected();
        let epoch = transaction.one(sql(EPOCH).bind(second)).await?.number("epoch")?;
        let deployments = transaction.one(sql(DEPLOY_ANEW)).await?.count("n")?;
        transaction.execute(sql(FORGET_SEEN)).await?;
        transaction.execute(sql(DEPLOYING)).await?;
        transaction.execute(sql(ASK_ANEW)).await?;
        transaction.execute(sql(ASK_LATER)).await?;
        if let Some(running) = heard_since(&mut transaction, before).await? {
            transaction.abandon().await?;
            return Err(Error::ReplicaRuns(running));
        }
        // With the commit, not after it: who runs this is gone before it could tell anybody.
        transaction.execute(wake::tell_all()).await?;
        transaction.commit().await?;
        Ok(Restored { epoch, orders, deployments: u64::from(deployments) })
    }
}

/// A replica that gave a sign of life since these were read, where any were.
async fn heard_since(
    transaction: &mut Transaction<'_, Postgres>,
    before: Option<&[Replica]>,
) -> Result<Option<String>> {
    let Some(before) = before else { return Ok(None) };
    transaction.execute(sql(LOCK_REPLICAS)).await?;
    let rows = transaction.rows(sql(ALL).bind(0_i64)).await?;
    let now = rows.iter().map(replica).collect::<Result<Vec<_>>>()?;
    Ok(Replica::heard_since(before, &now).map(|running| running.instance.clone()))
}

async fn lock_log(transaction: &mut Transaction<'_, Postgres>) -> Result<()> {
    transaction.execute(sql(LOCK_LOG)).await?;
    transaction.execute(sql(LOCK_EVENTS)).await?;
    Ok(())
}

/// With the log locked.
async fn next_log_base(transaction: &mut Transaction<'_, Postgres>, second: i64) -> Result<()> {
    let base = transaction.one(sql(NEXT_BASE).bind(second)).await?.number("base")?;
    // A default takes no parameters; the number is ours.
    let default = format!(
        "ALTER TABLE event ALTER COLUMN xid SET DEFAULT {base}::bigint + pg_current_xact_id()::text::bigint"
    );
    transaction.execute(sqlx::query(AssertSqlSafe(default))).await?;
    transaction.execute(sql(FORGET_COUNTS)).await?;
    transaction.execute(sql(COUNT)).await?;
    Ok(())
}
