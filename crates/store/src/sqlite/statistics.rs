//! What the planner knows of the tables. Without statistics it takes every table for large, which is right or harmless; statistics
//! that were made while tables were small would make it read whole tables once they are not.

use super::{SqliteStore, sql};
use crate::{Fence, Result, row::Fields as _};

/// An installation is worth statistics from so many domains on; the other tables grow with them.
const ENOUGH: &str = "SELECT count(*) >= 1000 AS enough FROM (SELECT 1 FROM domain WHERE removed_at IS NULL LIMIT 1000)";
/// Rows read of each index: it must not hold up who writes.
const LIMIT: &str = "PRAGMA analysis_limit = 1000";
/// Also tables that this connection has not read from, which is what the second bit asks for.
const OPTIMIZE: &str = "PRAGMA optimize = 0x10002";

impl SqliteStore {
    /// Brings statistics up to date where a table has changed much since they were made; false where there are to be none.
    pub(super) async fn optimize(&self, fence: Option<&Fence>) -> Result<bool> {
        if !self.readers.one("count domains", sql(ENOUGH)).await?.flag("enough")? {
            return Ok(false);
        }
        let mut transaction = self.fenced("refresh statistics", fence).await?;
        transaction.execute(sql(LIMIT)).await?;
        transaction.execute(sql(OPTIMIZE)).await?;
        transaction.commit().await?;
        // A connection reads statistics when it is opened, and never again.
        self.readers.drop_all();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::Scratch;
    use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

    use super::*;
    use crate::{MasterKey, OpenOptions};

    /// A thousand domains, by the fixture of the tests of plans.
    async fn fill(url: &str) {
        let sql = include_str!("../plans/fixture_sqlite.sql").replace("n < 100000", "n < 1000");
        let mut raw = SqliteConnection::connect(url).await.unwrap();
        raw.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
    }

    /// By the size of its cache, which a connection is given for life.
    async fn reader(store: &SqliteStore) -> i64 {
        let row = store.readers.one("test", sqlx::query("PRAGMA cache_size")).await.unwrap();
        row.number("cache_size").unwrap()
    }

    #[tokio::test]
    async fn who_reads_plans_by_the_newest_statistics() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("holdfast.db").display().to_string();
        crate::sqlite::migrate(&file).await.unwrap();
        let key = Some(MasterKey::generate().unwrap());
        let store = SqliteStore::open(&file, key, &OpenOptions::default()).await.unwrap();
        fill(&format!("sqlite:{file}")).await;
        store.readers.execute("test", sqlx::query("PRAGMA cache_size = 777")).await.unwrap();
        assert_eq!(reader(&store).await, 777);
        assert!(store.optimize(None).await.unwrap());
        assert_ne!(reader(&store).await, 777);
    }
}
