//! Brings the schema up to date. The file's lock keeps others out; what was begun and not finished is rolled back.

use std::path::Path;

use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

use super::{lock::FileLock, log::close_without_log, now, options, time};
use crate::{
    Error, Result,
    migration::{Migration, SQLITE, note_newer, pending},
};

const BOOK: &str = "CREATE TABLE IF NOT EXISTS holdfast_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";
const APPLIED: &str = "SELECT coalesce(max(version), 0) AS newest FROM holdfast_migration";

pub(crate) async fn migrate(file: &str) -> Result<()> {
    let lock = FileLock::take(Path::new(file))?;
    let mut connection = options(lock.path()).connect().await.map_err(failed)?;
    connection.execute(BOOK).await.map_err(failed)?;
    let row = connection.fetch_one(APPLIED).await.map_err(failed)?;
    let applied: i64 = row.try_get("newest").map_err(failed)?;
    note_newer(SQLITE, applied);
    for step in pending(SQLITE, applied) {
        apply(&mut connection, step)
            .await
            .map_err(|source| Error::Migration { version: step.version, source })?;
        tracing::info!(version = step.version, name = step.name, "schema migrated");
    }
    close_without_log(connection).await.map_err(failed)
}

fn failed(source: sqlx::Error) -> Error {
    Error::Database { at: "migrate", source }
}

async fn apply(connection: &mut SqliteConnection, step: &Migration) -> sqlx::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    transaction.execute(sqlx::raw_sql(step.sql)).await?;
    sqlx::query("INSERT INTO holdfast_migration (version, name, applied_at) VALUES ($1, $2, $3)")
        .bind(step.version)
        .bind(step.name)
        .bind(time(now()))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}
