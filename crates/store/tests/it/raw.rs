//! A store with a way past it: what another release, a restored backup or a broken disk may have written.

use holdfast_store::{MasterKey, SharedStore};
use holdfast_testkit::{Postgres, Scratch};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection,
};

use crate::{child, kit::opened};

pub(crate) struct Raw {
    pub(crate) store: SharedStore,
    url: String,
    key: MasterKey,
    directory: Option<Scratch>,
}

/// Makes a test on each database of each scenario that goes past the store.
macro_rules! raw_on_both {
    ($($scenario:ident),* $(,)?) => {
        mod raw_on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario($crate::raw::Raw::postgres().await).await;
            })*
        }
        mod raw_on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario($crate::raw::Raw::sqlite().await).await;
            })*
        }
    };
}

impl Raw {
    pub(crate) async fn postgres() -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        Self::at(url, None).await
    }

    pub(crate) async fn sqlite() -> Self {
        let directory = Scratch::new().unwrap();
        let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
        Self::at(url, Some(directory)).await
    }

    async fn at(url: String, directory: Option<Scratch>) -> Self {
        let key = MasterKey::generate().unwrap();
        let store = opened(&url, &key).await;
        Self { store, url, key, directory }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    /// An expression for an id that nobody has.
    pub(crate) fn some_id(&self) -> &'static str {
        if self.is_postgres() { "gen_random_uuid()" } else { "randomblob(16)" }
    }

    /// Where the event log keeps what rises with a restore.
    pub(crate) fn log_column(&self) -> &'static str {
        if self.is_postgres() { "base" } else { "epoch" }
    }

    /// Adds a lease that nobody holds.
    pub(crate) fn lease_row(&self, name: &str, term: i64) -> String {
        let (columns, values) = if self.is_postgres() {
            (
                "beat, ttl_us, priority, reason, since, expires_at, renewed_at",
                "0, 0, 0, 'forced', now(), now(), now()",
            )
        } else {
            ("beat, ttl_us, expires_us, since_us, priority, step_down", "0, 0, 0, 0, 0, 0")
        };
        format!("INSERT INTO lease (name, term, {columns}) VALUES ('{name}', {term}, {values})")
    }

    /// The time so many hours from now.
    pub(crate) fn hours(&self, from_now: i32) -> String {
        if self.is_postgres() {
            format!("(now() + interval '{from_now} hours')")
        } else {
            format!("((unixepoch() + {from_now} * 3600) * 1000000)")
        }
    }

    /// Says of every certificate that it lived for so many days and ends in so many.
    pub(crate) fn lives(&self, lived: u32, left: u32) -> String {
        if self.is_postgres() {
            format!(
                "UPDATE certificate SET not_before = now() - interval '{lived} days', not_after = now() + interval '{left} days'"
            )
        } else {
            format!(
                "UPDATE certificate SET not_before = (unixepoch() - {lived} * 86400) * 1000000, not_after = (unixepoch() + {left} * 86400) * 1000000"
            )
        }
    }

    /// Says of every certificate that it lives for ninety days and ends in five.
    pub(crate) fn ends_soon(&self) -> String {
        self.lives(85, 5)
    }

    /// Gives the store to a process of its own, which is killed as soon as it has begun; and opens it again.
    pub(crate) async fn killed_while(self, test: &str) -> Self {
        let Self { store, url, key, directory } = self;
        drop(store);
        let mut child = child::start(test, &url, &key);
        child::wait_ready(&mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        let store = opened(&url, &key).await;
        Self { store, url, key, directory }
    }

    /// Repeats the one event of this kind so many times, as if each were of a domain of its own.
    pub(crate) async fn copy_events(&self, which: &str, times: u32) {
        let columns = "at, instance, actor, kind, subject, from_state, to_state";
        let epoch = if self.is_postgres() { "" } else { "xid, " };
        self.execute(&format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {times})
             INSERT INTO event ({epoch}{columns}, domain_id) SELECT {epoch}{columns}, {} FROM n, event WHERE {which}",
            self.some_id()
        ))
        .await;
    }

    /// The time so many days ago, as an expression.
    pub(crate) fn days_ago(&self, days: u32) -> String {
        if self.is_postgres() {
            format!("clock_timestamp() - interval '{days} days'")
        } else {
            format!("(unixepoch() - {days} * 86400) * 1000000")
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_postgres() {
            PgConnection::connect(&self.url).await.unwrap().execute(sql).await.unwrap();
        } else {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            connection.execute(sql).await.unwrap();
            connection.close().await.unwrap();
        }
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_postgres() {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            return connection.fetch_one(sql).await.unwrap().try_get(0).unwrap();
        }
        let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
        connection.fetch_one(sql).await.unwrap().try_get(0).unwrap()
    }
}
