//! The few things in which the two databases differ for whoever fills them.

use anyhow::Result;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection,
};

/// A connection to either.
pub(super) enum Connection {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Connection {
    pub(super) async fn open(url: &str) -> Result<Self> {
        if url.starts_with("postgres") {
            return Ok(Self::Postgres(PgConnection::connect(url).await?));
        }
        let mut connection = SqliteConnection::connect(url).await?;
        // Lost with the machine, seeded again: no need to wait for the disk.
        connection.execute("PRAGMA synchronous = OFF").await?;
        connection.execute("PRAGMA cache_size = -1000000").await?;
        connection.execute("PRAGMA temp_store = MEMORY").await?;
        Ok(Self::Sqlite(connection))
    }

    pub(super) async fn close(self) -> Result<()> {
        match self {
            Self::Postgres(connection) => connection.close().await?,
            Self::Sqlite(connection) => connection.close().await?,
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, sql: String) -> Result<()> {
        match self {
            Self::Postgres(connection) => {
                connection.execute(AssertSqlSafe(sql)).await?;
            }
            Self::Sqlite(connection) => {
                connection.execute(AssertSqlSafe(sql)).await?;
            }
        }
        Ok(())
    }

    /// The columns of a table that are not numbered by the database itself.
    pub(super) async fn columns(&mut self, table: &str) -> Result<Vec<String>> {
        match self {
            Self::Postgres(connection) => {
                let sql = format!(
                    "SELECT column_name::text FROM information_schema.columns
                     WHERE table_schema = 'public' AND table_name = '{table}' AND is_identity = 'NO'
                       AND (table_name <> 'event' OR column_name <> 'xid')"
                );
                let rows = connection.fetch_all(AssertSqlSafe(sql)).await?;
                Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
            }
            Self::Sqlite(connection) => {
                let sql = format!(
                    "SELECT name FROM pragma_table_info('{table}')
                     WHERE NOT ('{table}' = 'event' AND name = 'id')"
                );
                let rows = connection.fetch_all(AssertSqlSafe(sql)).await?;
                Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
            }
        }
    }

    /// A new id, as an expression.
    pub(super) fn random_id(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "gen_random_uuid()",
            Self::Sqlite(_) => "randomblob(16)",
        }
    }

    /// The present, as an expression.
    pub(super) fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "clock_timestamp()",
            Self::Sqlite(_) => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
        }
    }

    /// A moment so many seconds later, as an expression.
    pub(super) fn later(&self, moment: &str, seconds: &str) -> String {
        match self {
            Self::Postgres(_) => format!("{moment} + ({seconds}) * interval '1 second'"),
            Self::Sqlite(_) => format!("{moment} + ({seconds}) * 1000000"),
        }
    }

    /// The numbers from 1 to `last`, as the source `numbers (n)`.
    pub(super) fn numbers(&self, last: u32) -> String {
        match self {
            Self::Postgres(_) => {
                format!("WITH numbers (n) AS (SELECT generate_series(1, {last}))")
            }
            Self::Sqlite(_) => format!(
                "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"
            ),
        }
    }

    /// A number with leading zeros, as an expression.
    pub(super) fn padded(&self, number: &str) -> String {
        match self {
            Self::Postgres(_) => format!("lpad({number}::text, 6, '0')"),
            Self::Sqlite(_) => format!("printf('%06d', {number})"),
        }
    }

    /// 64 digits that are unlike all others.
    pub(super) fn fingerprint(&self, number: &str) -> String {
        match self {
            Self::Postgres(_) => format!("lpad(to_hex({number}::bigint), 64, '0')"),
            Self::Sqlite(_) => format!("printf('%064x', {number})"),
        }
    }

    /// What a database that has been running for a day has done by itself.
    pub(super) async fn settle(&mut self) -> Result<()> {
        match self {
            Self::Postgres(_) => {
                self.execute("VACUUM ANALYZE".into()).await?;
                self.execute("CHECKPOINT".into()).await
            }
            // Its statistics are the store's business.
            Self::Sqlite(_) => self.execute("PRAGMA wal_checkpoint(TRUNCATE)".into()).await,
        }
    }
}
