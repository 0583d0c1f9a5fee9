//! Guarded transactions: the lease's row is looked at first. Nobody else can write to it before the commit.

use super::{SqliteStore, Tx, now, sql, time};
use crate::{Fence, Result};

const GUARD: &str =
    "SELECT 1 FROM lease WHERE name = $1 AND term = $2 AND incarnation = $3 AND expires_us > $4";

impl SqliteStore {
    /// A transaction that commits only while the lease is held; without a fence, any transaction.
    pub(super) async fn fenced(&self, at: &'static str, fence: Option<&Fence>) -> Result<Tx> {
        let mut transaction = self.writer.begin(at).await?;
        let Some(fence) = fence else { return Ok(transaction) };
        let guard = sql(GUARD)
            .bind(fence.lease.clone())
            .bind(fence.term)
            .bind(fence.incarnation.to_string())
            .bind(time(now()));
        if transaction.row(guard).await?.is_some() {
            return Ok(transaction);
        }
        transaction.abandon().await?;
        Err(fence.refusal())
    }
}
