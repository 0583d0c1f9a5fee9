//! What sessions of ours wait for. Asked on a session of its own, because those of the pool may all be waiting.

use sqlx::{Connection as _, PgConnection};

use super::sql;
use crate::{Result, event_lag::OpenTransaction, hindrance::Hindrance, row::Fields as _};

/// In good order a commit waits for its standby as well, but not for this long.
const STANDBY: &str = "
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'holdfast%'
        AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '500 milliseconds') AS standby";

/// Whoever is waited for, by one who waits himself or not, and waits for nobody. A prepared transaction has no process: its is 0.
const LOCKS: &str = "
    WITH RECURSIVE chain (pid) AS (
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'holdfast%'
            AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '500 milliseconds'
        UNION
        SELECT b.pid FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b (pid) WHERE c.pid <> 0)
    SELECT * FROM (
        SELECT a.pid::bigint AS pid, NULL AS prepared_as, a.datname::text AS database, a.usename::text AS owner,
            a.application_name AS application, a.state, a.xact_start AS since, a.query AS statement
        FROM chain c JOIN pg_stat_activity a ON a.pid = c.pid WHERE cardinality(pg_blocking_pids(c.pid)) = 0
        UNION ALL
        SELECT NULL, gid, database::text, owner::text, NULL, NULL, prepared, NULL FROM pg_prepared_xacts
        WHERE database = current_database() AND EXISTS (SELECT FROM chain WHERE pid = 0)) t
    ORDER BY t.since LIMIT 3";

/// What keeps sessions of ours waiting, if anything does.
pub(super) async fn look(mut session: PgConnection) -> Result<Option<Hindrance>> {
    const AT: &str = "find what statements wait for";
    let failed = |source| crate::Error::Database { at: AT, source };
    let standby = sql(STANDBY).fetch_one(&mut session).await.map_err(failed)?;
    if standby.flag("standby")? {
        return Ok(Some(Hindrance::Standby));
    }
    let holders = sql(LOCKS).fetch_all(&mut session).await.map_err(failed)?;
    session.close().await.ok();
    let holders = holders.iter().map(OpenTransaction::read).collect::<Result<Vec<_>>>()?;
    Ok((!holders.is_empty()).then_some(Hindrance::Locks(holders)))
}
