//! How a CA fails replicas.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};

use super::{SqliteStore, now, sql, time};
use crate::{
    AccountId, CaFailures, Result,
    ca_failure::{DOUBTED_COUNTS, FAILURE_COUNTS},
    query::ca_failure::IS_LIFTED,
    row::Fields as _,
};

/// Of the failures of an account `a` that count, the one that has lasted longest. `$2` is now, `$3` the latest that a replica may be to ask
/// again.
macro_rules! failure {
    () => {
        " LEFT JOIN ca_failure f ON f.account_id = a.id AND f.instance = (
            SELECT instance FROM ca_failure WHERE account_id = a.id AND NOT lifted AND counts_until >= $2 AND asked_again_at <= $3
            ORDER BY since, instance LIMIT 1) "
    };
}
pub(super) use failure;

/// Where it was lifted, or did not count any more, it begins anew. `$4` is now.
const NOTE: &str = "
    INSERT INTO ca_failure (account_id, instance, failure, since, asked_again_at, counts_until, lifted) VALUES ($1, $2, $3, $4, $5, $6, false)
    ON CONFLICT (account_id, instance) DO UPDATE SET failure = excluded.failure, asked_again_at = excluded.asked_again_at,
        counts_until = excluded.counts_until, lifted = false,
        since = CASE WHEN lifted OR since > $4 OR counts_until < $4 THEN $4 ELSE since END";
const END: &str = "DELETE FROM ca_failure WHERE account_id = $1 AND instance = $2";
/// What others noted.
const DOUBT: &str = "
    UPDATE ca_failure SET counts_until = asked_again_at + $3
    WHERE account_id = $1 AND instance <> $2 AND counts_until > asked_again_at + $3";

#[async_trait]
impl CaFailures for SqliteStore {
    async fn note_failure(
        &self,
        account: AccountId,
        instance: &str,
        failure: &str,
        wait: Duration,
    ) -> Result<()> {
        let now = now();
        let note = sql(NOTE).bind(account.0).bind(instance).bind(failure).bind(time(now));
        let again = now.plus(wait);
        let note = note.bind(time(again)).bind(time(again.plus(FAILURE_COUNTS)));
        around(Point::STORE_PAUSE, self.writer.execute("note how the CA fails", note)).await?;
        Ok(())
    }

    async fn end_failure(&self, account: AccountId, instance: &str) -> Result<()> {
        let doubted = i64::try_from(DOUBTED_COUNTS.as_micros()).unwrap_or(i64::MAX);
        around(Point::STORE_PAUSE, async {
            let mut transaction = self.writer.begin("note that the CA answers").await?;
            transaction.execute(sql(END).bind(account.0).bind(instance)).await?;
            let doubt = sql(DOUBT).bind(account.0).bind(instance).bind(doubted);
            transaction.execute(doubt).await?;
            transaction.commit().await
        })
        .await
    }

    async fn is_failure_lifted(&self, account: AccountId, instance: &str) -> Result<bool> {
        let read = sql(IS_LIFTED).bind(account.0).bind(instance);
        let row = self.readers.row("read how the CA fails", read).await?;
        row.map_or(Ok(false), |row| row.flag("lifted"))
    }
}
