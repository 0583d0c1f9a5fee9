//! How a CA fails replicas.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};

use super::{PostgresStore, micros, sql};
use crate::{
    AccountId, CaFailures, Result,
    ca_failure::{DOUBTED_COUNTS, FAILURE_COUNTS},
    query::ca_failure::IS_LIFTED,
    row::Fields as _,
};

/// Of the failures of an account `a` that count, the one that has lasted longest. `$2` is how far ahead a replica may be to ask again.
macro_rules! failure {
    () => {
        " LEFT JOIN ca_failure f ON f.account_id = a.id AND f.instance = (
            SELECT instance FROM ca_failure WHERE account_id = a.id AND NOT lifted
                AND counts_until >= clock_timestamp() AND asked_again_at <= clock_timestamp() + $2 * interval '1 microsecond'
            ORDER BY since, instance LIMIT 1) "
    };
}
pub(super) use failure;

/// Where it was lifted, or did not count any more, it begins anew.
const NOTE: &str = "
    INSERT INTO ca_failure AS f (account_id, instance, failure, since, asked_again_at, counts_until, lifted)
    VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 microsecond',
        clock_timestamp() + ($4 + $5) * interval '1 microsecond', false)
    ON CONFLICT (account_id, instance) DO UPDATE SET failure = EXCLUDED.failure, asked_again_at = EXCLUDED.asked_again_at,
        counts_until = EXCLUDED.counts_until, lifted = false,
        since = CASE WHEN f.lifted OR f.since > EXCLUDED.since OR f.counts_until < EXCLUDED.since THEN EXCLUDED.since ELSE f.since END";

/// Ends the replica's own, and doubts the others'.
const END: &str = "
    WITH ended AS (DELETE FROM ca_failure WHERE account_id = $1 AND instance = $2)
    UPDATE ca_failure SET counts_until = asked_again_at + $3 * interval '1 microsecond'
    WHERE account_id = $1 AND instance <> $2 AND counts_until > asked_again_at + $3 * interval '1 microsecond'";

#[async_trait]
impl CaFailures for PostgresStore {
    async fn note_failure(
        &self,
        account: AccountId,
        instance: &str,
        failure: &str,
        wait: Duration,
    ) -> Result<()> {
        let note = sql(NOTE).bind(account.0).bind(instance).bind(failure);
        let note = note.bind(micros(wait)).bind(micros(FAILURE_COUNTS));
        around(Point::STORE_PAUSE, self.pool.execute("note how the CA fails", note)).await?;
        Ok(())
    }

    async fn end_failure(&self, account: AccountId, instance: &str) -> Result<()> {
        let end = sql(END).bind(account.0).bind(instance).bind(micros(DOUBTED_COUNTS));
        around(Point::STORE_PAUSE, self.pool.execute("note that the CA answers", end)).await?;
        Ok(())
    }

    async fn is_failure_lifted(&self, account: AccountId, instance: &str) -> Result<bool> {
        let read = sql(IS_LIFTED).bind(account.0).bind(instance);
        let row = self.pool.row("read how the CA fails", read).await?;
        row.map_or(Ok(false), |row| row.flag("lifted"))
    }
}
