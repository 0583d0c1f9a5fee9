//! Brings the schema up to date, on a connection of its own. Five processes may start at once: one at a time holds the
//! advisory lock, the others ask for it again and again. Waiting inside the lock's own function would pin the
//! snapshot horizon of the whole server.

use std::time::Duration;

use holdfast_lease::session::Hosts;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::{no_session, rights};
use crate::{
    Error, OpenTransaction, Result,
    migration::{Migration, POSTGRES, note_newer, pending},
    opening::Wait,
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

/// PostgreSQL's codes of what a role may not do, and of a search path that leads nowhere.
const DENIED: &str = "42501";
const NO_SCHEMA: &str = "3F000";

const BOOK: &str = "CREATE TABLE IF NOT EXISTS holdfast_migration (
    version    bigint      PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)";

/// The session that holds our lock.
const HOLDER: &str = "
    SELECT a.pid::bigint AS pid, NULL::text AS prepared_as, a.datname::text AS database, a.usename::text AS owner,
        a.application_name AS application, a.state, coalesce(a.xact_start, a.backend_start) AS since, a.query AS statement
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (l.classid::bigint << 32) + l.objid::bigint = $1
    LIMIT 1";

/// Sessions that hold locks on tables of this database, the one open longest first.
const IN_THE_WAY: &str = "
    SELECT a.pid::bigint AS pid, NULL::text AS prepared_as, a.datname::text AS database, a.usename::text AS owner,
        a.application_name AS application, a.state, a.xact_start AS since, a.query AS statement
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
        AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'relation' AND l.granted)
    ORDER BY a.xact_start LIMIT 1";

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
    let mut wait = Wait::begin();
    loop {
        let ask = sqlx::query("SELECT pg_try_advisory_lock($1) AS got").bind(LOCK);
        let row = connection.fetch_one(ask).await.map_err(failed)?;
        if row.try_get::<bool, _>("got").map_err(failed)? {
            return Ok(());
        }
        if wait.is_due() {
            let ask = sqlx::query(HOLDER).bind(LOCK);
            let held = ask.fetch_optional(&mut *connection).await.map_err(failed)?;
            wait.say(match held.as_ref().map(OpenTransaction::read).transpose()? {
                Some(holder) => format!(
                    "another process migrates the schema and is waited for: {holder}. If it is not a start of Holdfast: {}",
                    holder.remedy()
                ),
                None => "another process migrates the schema and is waited for".to_owned(),
            });
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What the role lacks, where that is why a step was refused.
async fn refused(connection: &mut PgConnection, source: sqlx::Error, version: i64) -> Error {
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
    if code.is_some_and(|code| code == DENIED || code == NO_SCHEMA)
        && let Ok(rights) = rights::of_session(connection).await
        && rights.is_some()
    {
        return Error::NoRights(Box::new(rights));
    }
    Error::Migration { version, source }
}

async fn bring_up(connection: &mut PgConnection) -> Result<()> {
    if let Err(error) = connection.execute(BOOK).await {
        return Err(refused(connection, error, 0).await);
    }
    // Another process may have done it while we waited.
    let applied = applied(connection).await?;
    for step in pending(POSTGRES, applied) {
        if let Err(error) = patiently(connection, step).await {
            return Err(refused(connection, error, step.version).await);
        }
        tracing::info!(version = step.version, name = step.name, "schema migrated");
    }
    Ok(())
}

/// As often as others are in the way.
async fn patiently(connection: &mut PgConnection, step: &Migration) -> sqlx::Result<()> {
    let (mut tries, mut wait) = (0, Wait::begin());
    loop {
        let long = tries % SELDOM == SELDOM - 1;
        match apply(connection, step, if long { LONG_PATIENCE } else { PATIENCE }).await {
            Err(error) if is_in_the_way(&error) && tries < TRIES => tries += 1,
            done => return done,
        }
        if wait.is_due() {
            let held = sqlx::query(IN_THE_WAY).fetch_optional(&mut *connection).await?;
            let holder = held.and_then(|row| OpenTransaction::read(&row).ok());
            let holder = holder.map_or_else(String::new, |holder| {
                format!("; the transaction open longest: {holder}. {}", holder.remedy())
            });
            wait.say(format!(
                "step {} of the schema waits for a lock that others hold on a table{holder}",
                step.version
            ));
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
