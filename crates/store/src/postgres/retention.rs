//! Retention: what is over is deleted. Rows are found by an index range and deleted by their place in the table, so that no plan
//! reads more than what goes. What must not go is asked for by itself for each row: as a join it would be read whole.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use sqlx::{Postgres, postgres::PgRow};
use uuid::Uuid;

use super::{PostgresStore, collision_free, micros, sql};
use crate::{
    Fence, Outdated, Progress, Result, Retention,
    pool::{Statement, Transaction},
    row::Fields as _,
};

/// Older than `$1` microseconds. The statement's time, because no index is searched for a time that changes while it is searched.
macro_rules! old {
    ($column:literal) => {
        concat!($column, " < statement_timestamp() - $1 * interval '1 microsecond'")
    };
}

/// What the counts have taken in.
macro_rules! folded {
    () => {
        "(e.xid, e.id) <= ((SELECT folded_xid FROM event_log), (SELECT folded_id FROM event_log))"
    };
}

const NOTICES: &str = concat!(
    "DELETE FROM event WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM event e WHERE e.domain_id IS NULL AND ",
    old!("e.at"),
    " AND ",
    folded!(),
    " ORDER BY e.at LIMIT $2))"
);
/// How far the history was pruned. What was spared before it is of removed domains, and goes with them.
const HISTORY_PRUNED_TO: &str = "
    SELECT split_part(value, ' ', 1)::bigint AS xid, split_part(value, ' ', 2)::bigint AS id
    FROM setting WHERE key = 'history_pruned_to'";
/// From there on the log is in the order of time: so many rows are looked at, and no more. The place moves on to before the first
/// that is not old yet. The history of a removed domain is kept for as long as the domain.
const HISTORY: &str = concat!(
    "WITH oldest AS MATERIALIZED (
        SELECT e.ctid AS place, e.xid, e.id, e.domain_id, ",
    old!("e.at"),
    " AS is_old FROM event e WHERE (e.xid, e.id) > ($3, $4) AND ",
    folded!(),
    " ORDER BY e.xid, e.id LIMIT $2),
    passed AS (
        SELECT xid, id FROM (SELECT xid, id, bool_and(is_old) OVER (ORDER BY xid, id) AS passed FROM oldest) o
        WHERE passed ORDER BY xid DESC, id DESC LIMIT 1),
    kept AS (
        INSERT INTO setting (key, value) SELECT 'history_pruned_to', xid || ' ' || id FROM passed
        ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value),
    gone AS (
        DELETE FROM event WHERE ctid = ANY (ARRAY(
            SELECT place FROM oldest o WHERE is_old
                AND (SELECT d.removed_at FROM domain d WHERE d.id = o.domain_id) IS NULL)) RETURNING 1)
    SELECT (SELECT count(*) FROM gone) AS n, (SELECT count(*) FROM oldest) AS seen, EXISTS (SELECT 1 FROM passed) AS moved"
);
const CLAIMS: &str = concat!(
    "DELETE FROM claim WHERE ctid = ANY (ARRAY(SELECT ctid FROM claim WHERE domain_id IS NULL AND ",
    old!("released_at"),
    " ORDER BY released_at LIMIT $2))"
);
const ORDERS: &str = concat!(
    "DELETE FROM acme_order WHERE ctid = ANY (ARRAY(SELECT ctid FROM acme_order WHERE ",
    old!("ended_at"),
    " ORDER BY ended_at LIMIT $2))"
);
const CHALLENGES: &str = concat!(
    "DELETE FROM challenge WHERE ctid = ANY (ARRAY(SELECT ctid FROM challenge WHERE ",
    old!("created_at"),
    " ORDER BY created_at LIMIT $2))"
);
const CA_WAITS: &str = concat!(
    "DELETE FROM ca_wait WHERE ctid = ANY (ARRAY(SELECT ctid FROM ca_wait WHERE ",
    old!("until"),
    " ORDER BY until LIMIT $2))"
);
/// Never one that a domain has or an edge is told to serve.
const CERTIFICATES: &str = concat!(
    "WITH gone AS (
        DELETE FROM certificate WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM certificate c WHERE c.superseded_at IS NOT NULL AND ",
    old!("c.not_after"),
    "       AND c.id IS DISTINCT FROM (SELECT d.certificate_id FROM domain d WHERE d.id = c.domain_id AND d.removed_at IS NULL)
            AND (SELECT 1 FROM deployment p WHERE p.domain_id = c.domain_id AND p.certificate_id = c.id LIMIT 1) IS NULL
            ORDER BY c.not_after LIMIT $2)) AND superseded_at IS NOT NULL
        RETURNING id),
    keys AS (DELETE FROM sealed s USING gone WHERE s.owner = 'certificate' AND s.id = gone.id)
    SELECT count(*) AS n FROM gone"
);

/// Whoever writes a deployment takes the counter first, and so do we: the other way round, each would wait for the other.
const LOCK_REVISION: &str = "SELECT floor FROM revision FOR UPDATE";
/// Not while the domain's removal waits for an edge. The floor rises above what is deleted: an edge behind it may not have heard of
/// all of that, and lists anew.
const TOMBSTONES: &str = concat!(
    "WITH gone AS (
        DELETE FROM deployment WHERE ctid = ANY (ARRAY(
            SELECT p.ctid FROM deployment p WHERE p.certificate_id IS NULL AND ",
    old!("p.updated_at"),
    "       AND p.edge_group IS DISTINCT FROM (
                SELECT d.edge_group FROM domain d WHERE d.id = p.domain_id AND d.removed_at IS NULL)
            ORDER BY p.updated_at LIMIT $2)) AND certificate_id IS NULL
        RETURNING revision),
    raised AS (
        UPDATE revision SET floor = greatest(floor, (SELECT max(revision) FROM gone)) WHERE EXISTS (SELECT 1 FROM gone))
    SELECT count(*) AS n FROM gone"
);

/// Under a clock that was set back, a removal is older than what it removed.
const REMOVED: &str = concat!(
    "SELECT id FROM domain WHERE ",
    old!("removed_at"),
    " AND ",
    old!("created_at"),
    " ORDER BY removed_at LIMIT $2"
);
const REMOVED_EVENTS: &str = concat!(
    "DELETE FROM event WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM event e WHERE e.domain_id = ANY ($1) AND ",
    folded!(),
    " LIMIT $2))"
);
const REMOVED_CERTIFICATES: &str = "
    WITH gone AS (DELETE FROM certificate WHERE domain_id = ANY ($1) RETURNING id)
    DELETE FROM sealed s USING gone WHERE s.owner = 'certificate' AND s.id = gone.id";
/// What is not folded yet keeps its domain a little longer.
const REMOVED_DOMAINS: &str = "
    DELETE FROM domain d WHERE d.id = ANY ($1) AND d.removed_at IS NOT NULL
        AND (SELECT e.id FROM event e WHERE e.domain_id = d.id LIMIT 1) IS NULL";

#[async_trait]
impl Retention for PostgresStore {
    async fn prune(
        &self,
        fence: Option<&Fence>,
        what: Outdated,
        age: Duration,
        limit: u32,
    ) -> Result<Progress> {
        collision_free(|| self.try_prune(fence, what, age, limit)).await
    }
}

impl PostgresStore {
    async fn try_prune(
        &self,
        fence: Option<&Fence>,
        what: Outdated,
        age: Duration,
        limit: u32,
    ) -> Result<Progress> {
        let mut transaction = self.fenced(what.at(), fence).await?;
        let old = |text| sql(text).bind(micros(age)).bind(i64::from(limit));
        let done = match what {
            Outdated::History => {
                let progress = history(&mut transaction, age, limit).await?;
                transaction.commit().await?;
                return Ok(progress);
            }
            Outdated::Notices => transaction.execute(old(NOTICES)).await?.rows_affected(),
            Outdated::Claims => transaction.execute(old(CLAIMS)).await?.rows_affected(),
            Outdated::Orders => transaction.execute(old(ORDERS)).await?.rows_affected(),
            Outdated::Challenges => transaction.execute(old(CHALLENGES)).await?.rows_affected(),
            Outdated::CaWaits => transaction.execute(old(CA_WAITS)).await?.rows_affected(),
            Outdated::Certificates => count(&mut transaction, old(CERTIFICATES)).await?,
            Outdated::Tombstones => {
                transaction.execute(sql(LOCK_REVISION)).await?;
                count(&mut transaction, old(TOMBSTONES)).await?
            }
            Outdated::Removed => {
                let ids = transaction.rows(old(REMOVED)).await?;
                let ids: Vec<Uuid> = ids.iter().map(|row| row.id("id")).collect::<Result<_>>()?;
                removed(&mut transaction, &ids, limit).await?
            }
        };
        if what == Outdated::Challenges {
            around(Point::STORE_CHALLENGE_DROP, transaction.commit()).await?;
        } else {
            transaction.commit().await?;
        }
        Ok(Progress::of(done, limit))
    }
}

/// There may be more as long as something goes or the place moves, also where much is spared.
async fn history(
    transaction: &mut Transaction<'_, Postgres>,
    age: Duration,
    limit: u32,
) -> Result<Progress> {
    let pruned = transaction.row(sql(HISTORY_PRUNED_TO)).await?;
    let place = |row: &PgRow| Ok((row.number("xid")?, row.number("id")?));
    let (xid, id) = pruned.as_ref().map(place).transpose()?.unwrap_or((-1, -1));
    let step = sql(HISTORY).bind(micros(age)).bind(i64::from(limit)).bind(xid).bind(id);
    let step = transaction.one(step).await?;
    let (done, moved) = (step.count("n")?.into(), step.flag("moved")?);
    Ok(Progress { done, more: step.count("seen")? >= limit && (moved || done > 0) })
}

async fn count(
    transaction: &mut Transaction<'_, Postgres>,
    statement: Statement<Postgres>,
) -> Result<u64> {
    Ok(transaction.one(statement).await?.count("n")?.into())
}

/// The history first, as much of it as may go in one step; then the rest. Gives how many rows went.
async fn removed(
    transaction: &mut Transaction<'_, Postgres>,
    ids: &[Uuid],
    limit: u32,
) -> Result<u64> {
    if ids.is_empty() {
        return Ok(0);
    }
    let events = sql(REMOVED_EVENTS).bind(ids.to_vec()).bind(i64::from(limit));
    let events = transaction.execute(events).await?.rows_affected();
    if events >= u64::from(limit) {
        return Ok(events);
    }
    transaction.execute(sql(REMOVED_CERTIFICATES).bind(ids.to_vec())).await?;
    let domains = sql(REMOVED_DOMAINS).bind(ids.to_vec());
    Ok(events + transaction.execute(domains).await?.rows_affected())
}
