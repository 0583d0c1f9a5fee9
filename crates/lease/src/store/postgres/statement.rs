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
    MICROS(since) AS since, priority, step_down, successor, beacon";

fn expand(text: &str) -> SqlStr {
    let text = text.replace("COLUMNS", COLUMNS);
    let mut sql = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("MICROS(") {
        // The argument is a name, or a call without arguments.
        let end = after.find("())").map_or_else(
            || after.find(')'),
            |call| after.find(')').map(|first| if first > call { call + 2 } else { first }),
        );
        let (argument, tail) = after.split_at(end.unwrap_or_default());
        sql += before;
        sql += &format!("(extract(epoch FROM {argument}) * 1000000)::bigint");
        rest = tail.strip_prefix(')').unwrap_or(tail);
    }
    sql += rest;
    AssertSqlSafe(sql).into_sql_str()
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) fn $name() -> SqlStr {
            static TEXT: LazyLock<SqlStr> = LazyLock::new(|| expand(include_str!($file)));
            TEXT.clone()
        })*
    };
}

statements! {
    look = "look.sql";
    acquire = "acquire.sql";
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
