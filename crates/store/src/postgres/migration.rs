//! Brings the schema up to date, on a connection of its own. Five processes may start at once: one at a time holds the
//! advisory lock, the others ask for it again and again. Waiting inside the lock's own function would pin the
//! snapshot horizon of the whole server.

use std::time::Duration;

use holdfast_lease::session::Hosts;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::no_session;
use crate::{
    Error, Result,
    migration::{Migration, POSTGRES, note_newer, pending},
};

/// "holdfast" in ASCII: ours among all advisory locks of the database.
const LOCK: i64 = 0x686f_6c64_6661_7374;
const RETRY: Duration = Duration::from_millis(50);

/// Replicas of the release before work on meanwhile. Whoever waits for us in turn finds that out only after a second (PostgreSQL's
/// `deadlock_timeout`): it is nearly always us who gives way, and does it all again. Now and then we wait for longer than that,
/// because only then does PostgreSQL end an autovacuum that is in the way.
const PATIENCE: &str = "SET LOCAL lock_timeout = '500ms'";
const LONG_PATIENCE: &str = "SET LOCAL lock_timeout = '1500ms'";
const SELDOM: u32 = 10;
const TRIES: u32 = 200;

const BOOK: &str = "CREATE TABLE IF NOT EXISTS holdfast_migration (
    version    bigint      PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)";

pub(crate) async fn migrate(hosts: &Hosts) -> Result<()> {
    let connected = hosts.connect().await;
    let mut connection = connected.map_err(|source| no_session("migrate", source))?;
    let applied = applied(&mut connection).await?;
    note_newer(POSTGRES, applied);
    if pending(POSTGRES, applied).next().is_some() {
        lock(&mut connection).await?;
        bring_up(&mut connection).await?;
    }
    // The lock goes with the session.
    connection.close().await.map_err(failed)
}

fn failed(source: sqlx::Error) -> Error {
    Error::Database { at: "migrate", source }
}

/// The newest step applied; zero for an empty database.
async fn applied(connection: &mut PgConnection) -> Result<i64> {
    let kept = "SELECT to_regclass('holdfast_migration') IS NOT NULL AS kept";
    let row = connection.fetch_one(kept).await.map_err(failed)?;
    if !row.try_get::<bool, _>("kept").map_err(failed)? {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) AS newest FROM holdfast_migration";
    let row = connection.fetch_one(newest).await.map_err(failed)?;
    row.try_get("newest").map_err(failed)
}

async fn lock(connection: &mut PgConnection) -> Result<()> {
    loop {
        let ask = sqlx::query("SELECT pg_try_advisory_lock($1) AS got").bind(LOCK);
        let row = connection.fetch_one(ask).await.map_err(failed)?;
        if row.try_get::<bool, _>("got").map_err(failed)? {
            return Ok(());
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn bring_up(connection: &mut PgConnection) -> Result<()> {
    connection.execute(BOOK).await.map_err(failed)?;
    // Another process may have done it while we waited.
    let applied = applied(connection).await?;
    for step in pending(POSTGRES, applied) {
        patiently(connection, step)
            .await
            .map_err(|source| Error::Migration { version: step.version, source })?;
        tracing::info!(version = step.version, name = step.name, "schema migrated");
    }
    Ok(())
}

/// As often as others are in the way.
async fn patiently(connection: &mut PgConnection, step: &Migration) -> sqlx::Result<()> {
    let mut tries = 0;
    loop {
        let long = tries % SELDOM == SELDOM - 1;
        match apply(connection, step, if long { LONG_PATIENCE } else { PATIENCE }).await {
            Err(error) if is_in_the_way(&error) && tries < TRIES => tries += 1,
            done => return done,
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Did it only meet others: a lock that was not to be had in time, or each waiting for the other?
fn is_in_the_way(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "55P03" || code == "40P01")
}

async fn apply(
    connection: &mut PgConnection,
    step: &Migration,
    patience: &'static str,
) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    transaction.execute(patience).await?;
    transaction.execute(sqlx::raw_sql(step.sql)).await?;
    sqlx::query("INSERT INTO holdfast_migration (version, name) VALUES ($1, $2)")
        .bind(step.version)
        .bind(step.name)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

#[cfg(test)]
mod tests {
    use super::LOCK;

    #[test]
    fn the_lock_spells_our_name() {
        assert_eq!(LOCK.to_be_bytes(), *b"holdfast");
    }
}
