//! The lag of the event log. Only transactions that have a number of their own hold readers back: not those that read, however
//! long, and neither replication slots nor standbys, whose horizon bounds vacuum alone.

use std::time::Duration;

use holdfast_model::Timestamp;

use super::{PostgresStore, event::settled, sql};
use crate::{EventLag, Result, event_lag::OpenTransaction, row::Fields as _};

/// A lag below this is the ordinary overlap of transactions: nobody need know whose.
const ORDINARY: Duration = Duration::from_secs(10);

/// Whatever a clock that was ahead wrote among the oldest unread events does not say since when they wait; the others do.
const UNREAD: &str = concat!(
    "SELECT clock_timestamp() AS now, e.since, e.first - l.base AS transaction FROM event_log l CROSS JOIN LATERAL (
        SELECT min(u.at) FILTER (WHERE u.at <= clock_timestamp()) AS since, min(u.xid) AS first FROM (
            SELECT at, xid FROM event WHERE xid >= ",
    settled!(),
    "       ORDER BY xid, id LIMIT 100) u) e"
);

/// The server's views are small, however large the database is. `$1` is the transaction that wrote the event, and its lower half
/// what the server knows it by.
const HELD_BY: &str = "
    WITH unread AS (SELECT age((($1 & 4294967295)::text)::xid) AS age)
    SELECT t.* FROM (
        SELECT age(backend_xid) AS age, pid::bigint AS pid, NULL AS prepared_as, datname::text AS database, usename::text AS owner,
            application_name AS application, state, xact_start AS since, query AS statement
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL
        UNION ALL
        SELECT age(transaction), NULL, gid, database::text, owner::text, NULL, NULL, prepared, NULL FROM pg_prepared_xacts) t, unread
    WHERE t.age > unread.age ORDER BY t.age DESC LIMIT 3";

impl PostgresStore {
    pub(super) async fn lag_of_events(&self) -> Result<EventLag> {
        let row = self.pool.one("look at the lag of the event log", sql(UNREAD)).await?;
        let Some(transaction) = row.maybe_number("transaction")? else {
            return Ok(EventLag::default());
        };
        let (now, since) = (row.at("now")?, row.maybe_at("since")?);
        let mut held_by = Vec::new();
        if since.is_none_or(|since| now.since(since) >= ORDINARY) {
            let rows = sql(HELD_BY).bind(transaction);
            let rows = self.pool.rows("find what holds the event log", rows).await?;
            held_by = rows.iter().map(OpenTransaction::read).collect::<Result<_>>()?;
        }
        let unread_since = since.or_else(|| opened(&held_by, now)).unwrap_or(now);
        Ok(EventLag { unread_since: Some(unread_since), held_by })
    }
}

/// When the first of these began: no event waits for longer than that.
fn opened(held_by: &[OpenTransaction], now: Timestamp) -> Option<Timestamp> {
    held_by.iter().filter_map(|one| one.since).filter(|since| *since <= now).min()
}
