//! What waits for a CA.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Hostname, Timestamp, WaitScope};

use super::{PostgresStore, micros, sql};
use crate::{
    AccountId, CaWait, CaWaits, Result,
    ca_wait::longest,
    query::ca_wait::LIFT,
    row::{Fields as _, ca_wait},
};

const NOTE: &str = "
    INSERT INTO ca_wait (account_id, key, scope, reason, until, noted_at)
    VALUES ($1, $2, $3, $4, statement_timestamp() + $5 * interval '1 microsecond', statement_timestamp())
    ON CONFLICT (account_id, key, scope) DO UPDATE SET reason = EXCLUDED.reason, until = EXCLUDED.until, noted_at = EXCLUDED.noted_at
    RETURNING until";
const FIND: &str = "
    SELECT scope, key, reason, until, noted_at, statement_timestamp() AS now FROM ca_wait
    WHERE account_id = $1 AND key IN ($2, $3) AND until > statement_timestamp()";
const LIST: &str = "
    SELECT scope, key, reason, until, noted_at, statement_timestamp() AS now FROM ca_wait
    WHERE account_id = $1 AND scope = $2 AND until > statement_timestamp() ORDER BY until LIMIT $3";
const NOTED: &str = "
    SELECT scope, key, reason, until, noted_at, statement_timestamp() AS now FROM ca_wait
    WHERE account_id = $1 AND scope = $2 AND noted_at > statement_timestamp() - $4 * interval '1 microsecond'
        AND noted_at <= statement_timestamp() ORDER BY noted_at DESC LIMIT $3";

#[async_trait]
impl CaWaits for PostgresStore {
    async fn note_wait(
        &self,
        account: AccountId,
        scope: WaitScope,
        name: &Hostname,
        wait: Duration,
        reason: &str,
    ) -> Result<Timestamp> {
        let note = sql(NOTE)
            .bind(account.0)
            .bind(scope.key(name))
            .bind(scope.as_str())
            .bind(reason)
            .bind(micros(wait));
        around(Point::STORE_PAUSE, self.pool.one("note a wait", note)).await?.at("until")
    }

    async fn waiting_for(&self, account: AccountId, name: &Hostname) -> Result<Option<CaWait>> {
        let find = sql(FIND).bind(account.0).bind(name.as_str()).bind(name.registered_domain());
        let rows = self.pool.rows("look for a wait", find).await?;
        Ok(longest(rows.iter().map(ca_wait).collect::<Result<_>>()?, name))
    }

    async fn waits(&self, account: AccountId, scope: WaitScope, limit: u32) -> Result<Vec<CaWait>> {
        let list = sql(LIST).bind(account.0).bind(scope.as_str()).bind(i64::from(limit));
        let rows = self.pool.rows("list waits", list).await?;
        Ok(rows.iter().map(ca_wait).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    async fn waits_noted(
        &self,
        account: AccountId,
        scope: WaitScope,
        within: Duration,
        limit: u32,
    ) -> Result<Vec<CaWait>> {
        let noted = sql(NOTED).bind(account.0).bind(scope.as_str()).bind(i64::from(limit));
        let rows = self.pool.rows("list waits noted lately", noted.bind(micros(within))).await?;
        Ok(rows.iter().map(ca_wait).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    async fn lift_waits(&self, account: AccountId, name: &Hostname) -> Result<u64> {
        let lift = sql(LIFT).bind(account.0).bind(name.as_str()).bind(name.registered_domain());
        let lift = self.pool.execute("lift waits", lift);
        Ok(around(Point::STORE_PAUSE, lift).await?.rows_affected())
    }
}
