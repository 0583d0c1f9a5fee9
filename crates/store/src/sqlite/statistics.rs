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
        Ok(true)
    }
}
