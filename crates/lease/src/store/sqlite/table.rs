//! Rows of the tables, read and written.

use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use uuid::Uuid;

use crate::identity::{Holder, Incarnation, Name, Priority, Term};
use crate::row::{Change, Entry, Owner, Row, StoreTime};
use crate::rules::Changed;

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn decode(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

pub(super) async fn read(
    connection: &mut SqliteConnection,
    name: &Name,
) -> Result<Option<Row>, sqlx::Error> {
    let query = sqlx::query("SELECT * FROM lease WHERE name = ?").bind(name.as_str());
    query.fetch_optional(connection).await?.as_ref().map(lease).transpose()
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    after: Option<&Name>,
    limit: u32,
) -> Result<Vec<(Name, Row)>, sqlx::Error> {
    let rows = sqlx::query("SELECT * FROM lease WHERE name > ? ORDER BY name LIMIT ?")
        .bind(after.map_or("", Name::as_str))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let named = |row: &SqliteRow| {
        Ok((Name::new(row.try_get::<&str, _>("name")?).map_err(decode)?, lease(row)?))
    };
    rows.iter().map(named).collect()
}

pub(super) async fn write(
    connection: &mut SqliteConnection,
    name: &Name,
    row: &Row,
) -> Result<(), sqlx::Error> {
    let owner = row.owner.as_ref();
    let query = sqlx::query(
        "INSERT INTO lease (name, holder, incarnation, term, beat, ttl_us, expires_us, since_us, priority, step_down, \
         successor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, \
         incarnation = excluded.incarnation, term = excluded.term, beat = excluded.beat, ttl_us = excluded.ttl_us, \
         expires_us = excluded.expires_us, since_us = excluded.since_us, priority = excluded.priority, \
         step_down = excluded.step_down, successor = excluded.successor",
    );
    query
        .bind(name.as_str())
        .bind(owner.map(|owner| owner.holder.as_str()))
        .bind(owner.map(|owner| owner.incarnation.to_string()))
        .bind(row.term.number())
        .bind(row.beat)
        .bind(micros(row.ttl))
        .bind(row.expires_at.as_micros())
        .bind(row.since.as_micros())
        .bind(row.priority.0)
        .bind(row.step_down)
        .bind(row.successor.as_ref().map(Holder::as_str))
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn record(
    connection: &mut SqliteConnection,
    name: &Name,
    at: StoreTime,
    changed: &Changed,
    note: Option<&str>,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(
        "INSERT INTO lease_history (name, at_us, reason, term, from_holder, to_holder, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    query
        .bind(name.as_str())
        .bind(at.as_micros())
        .bind(changed.change.as_str())
        .bind(changed.term.number())
        .bind(changed.from.as_ref().map(Holder::as_str))
        .bind(changed.to.as_ref().map(Holder::as_str))
        .bind(note)
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn history(
    connection: &mut SqliteConnection,
    name: &Name,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Entry>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT * FROM lease_history WHERE name = ? AND id < ? ORDER BY id DESC LIMIT ?",
    )
    .bind(name.as_str())
    .bind(before.unwrap_or(i64::MAX))
    .bind(limit)
    .fetch_all(connection)
    .await?;
    rows.iter().map(entry).filter_map(Result::transpose).collect()
}

pub(super) async fn prune(
    connection: &mut SqliteConnection,
    oldest_us: i64,
) -> Result<u64, sqlx::Error> {
    let query = sqlx::query(
        "DELETE FROM lease_history WHERE id IN (SELECT id FROM lease_history WHERE at_us < ? ORDER BY at_us LIMIT 10000)",
    );
    Ok(query.bind(oldest_us).execute(connection).await?.rows_affected())
}

fn holder(row: &SqliteRow, column: &str) -> Result<Option<Holder>, sqlx::Error> {
    let text = row.try_get::<Option<&str>, _>(column)?;
    text.map(|text| Holder::new(text).map_err(decode)).transpose()
}

fn lease(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    let incarnation = row.try_get::<Option<&str>, _>("incarnation")?;
    let incarnation = incarnation.map(|text| text.parse::<Uuid>().map_err(decode)).transpose()?;
    let owner = holder(row, "holder")?.zip(incarnation.map(Incarnation::from_uuid));
    let ttl = u64::try_from(row.try_get::<i64, _>("ttl_us")?).unwrap_or_default();
    Ok(Row {
        owner: owner.map(|(holder, incarnation)| Owner { holder, incarnation }),
        term: Term::new(row.try_get("term")?),
        beat: row.try_get("beat")?,
        ttl: Duration::from_micros(ttl),
        expires_at: StoreTime::from_micros(row.try_get("expires_us")?),
        since: StoreTime::from_micros(row.try_get("since_us")?),
        priority: Priority(row.try_get("priority")?),
        step_down: row.try_get("step_down")?,
        successor: holder(row, "successor")?,
        beacon: false,
    })
}

fn entry(row: &SqliteRow) -> Result<Option<Entry>, sqlx::Error> {
    let Some(change) = Change::parse(row.try_get("reason")?) else { return Ok(None) };
    Ok(Some(Entry {
        id: row.try_get("id")?,
        name: Name::new(row.try_get::<&str, _>("name")?).map_err(decode)?,
        at: StoreTime::from_micros(row.try_get("at_us")?),
        change,
        term: Term::new(row.try_get("term")?),
        from: holder(row, "from_holder")?,
        to: holder(row, "to_holder")?,
        note: row.try_get("note")?,
    }))
}
