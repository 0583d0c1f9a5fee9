//! The statements, from their files, and rows read back.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _, SqlSafeStr as _, SqlStr};
use uuid::Uuid;

use crate::identity::{Holder, Incarnation, Name, Priority, Term};
use crate::row::{Owner, Row, StoreTime};

/// The words that stand for repeated pieces of SQL in the files beside this one.
const COLUMNS: &str = "name, holder, incarnation, term, beat, ttl_us, MICROS(expires_at) AS expires_at, \
    MICROS(since) AS since, priority, step_down, successor, beacon IS NOT NULL AS beacon";

/// A lock on this key is held by some session.
const LOCKED: &str = "EXISTS (SELECT FROM pg_locks AS held WHERE held.locktype = 'advisory' AND held.granted \
    AND held.objsubid = 1 AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND (held.classid::bigint << 32) | held.objid::bigint = KEY)";

/// The session of a row's beacon has ended, and the server has not: it is the same server, and some session that can be seen from
/// here has lived since before the last sign of life. So neither a restart, nor the recovery after a crash, which ends every session,
/// nor a failover counts as a death. Whose sessions are seen is the role's matter: its own always are.
const GONE: &str = "(lease.beacon IS NOT NULL AND lease.server_up = pg_postmaster_start_time() AND lease.renewed_at > \
    (SELECT min(seen.backend_start) FROM pg_stat_get_activity(NULL) AS seen) AND NOT LOCKED)";

/// Whether a statement looks for beacons: those who keep none need not pay for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Beacons {
    Ignored,
    Minded,
}

fn expand(text: &str, beacons: Beacons) -> SqlStr {
    let locked = |key: &str| LOCKED.replace("KEY", key);
    let (gone, lit) = match beacons {
        Beacons::Ignored => ("false".to_owned(), "CASE WHEN false THEN $11::bigint END".to_owned()),
        Beacons::Minded => (
            GONE.replace("LOCKED", &locked("lease.beacon")),
            format!("CASE WHEN {} THEN $11::bigint END", locked("$11::bigint")),
        ),
    };
    let text = text.replace("COLUMNS", COLUMNS).replace("LIT($11)", &lit).replace("GONE", &gone);
    AssertSqlSafe(micros(&text)).into_sql_str()
}

/// Writes out `MICROS(…)`: the argument is a name, or a call without arguments.
fn micros(text: &str) -> String {
    let mut sql = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("MICROS(") {
        let end = after.find("())").map_or_else(
            || after.find(')'),
            |call| after.find(')').map(|first| if first > call { call + 2 } else { first }),
        );
        let (argument, tail) = after.split_at(end.unwrap_or_default());
        sql += before;
        sql += &format!("(extract(epoch FROM {argument}) * 1000000)::bigint");
        rest = tail.strip_prefix(')').unwrap_or(tail);
    }
    sql + rest
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) fn $name(beacons: Beacons) -> SqlStr {
            static PLAIN: LazyLock<SqlStr> =
                LazyLock::new(|| expand(include_str!($file), Beacons::Ignored));
            static MINDED: LazyLock<SqlStr> =
                LazyLock::new(|| expand(include_str!($file), Beacons::Minded));
            if beacons == Beacons::Minded { MINDED.clone() } else { PLAIN.clone() }
        })*
    };
}

/// Statements that have nothing to do with beacons.
macro_rules! plain_statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) fn $name() -> SqlStr {
            static TEXT: LazyLock<SqlStr> =
                LazyLock::new(|| expand(include_str!($file), Beacons::Ignored));
            TEXT.clone()
        })*
    };
}

statements! {
    look = "look.sql";
    acquire = "acquire.sql";
}

plain_statements! {
    expire = "expire.sql";
    renew = "renew.sql";
    release = "release.sql";
    ask = "ask.sql";
    force = "force.sql";
    list = "list.sql";
    history = "history.sql";
    prune = "prune.sql";
}

pub(super) fn at(row: &PgRow) -> Result<StoreTime, sqlx::Error> {
    row.try_get("at").map(StoreTime::from_micros)
}

/// The lease in a result row; none where a left join found nothing.
pub(super) fn lease(row: &PgRow) -> Result<Option<(Name, Row)>, sqlx::Error> {
    let Some(name) = row.try_get::<Option<String>, _>("name")? else { return Ok(None) };
    let holder = row.try_get::<Option<String>, _>("holder")?.map(holder_of).transpose()?;
    let incarnation = row.try_get::<Option<Uuid>, _>("incarnation")?.map(Incarnation::from_uuid);
    let owner = holder.zip(incarnation);
    let ttl = u64::try_from(row.try_get::<i64, _>("ttl_us")?).unwrap_or_default();
    let lease = Row {
        owner: owner.map(|(holder, incarnation)| Owner { holder, incarnation }),
        term: Term::new(row.try_get("term")?),
        beat: row.try_get("beat")?,
        ttl: Duration::from_micros(ttl),
        expires_at: StoreTime::from_micros(row.try_get("expires_at")?),
        since: StoreTime::from_micros(row.try_get("since")?),
        priority: Priority(row.try_get("priority")?),
        step_down: row.try_get("step_down")?,
        successor: row.try_get::<Option<String>, _>("successor")?.map(holder_of).transpose()?,
        beacon: row.try_get("beacon")?,
    };
    Ok(Some((Name::new(name).map_err(decode)?, lease)))
}

fn holder_of(text: String) -> Result<Holder, sqlx::Error> {
    Holder::new(text).map_err(decode)
}

pub(super) fn decode(error: crate::Error) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
