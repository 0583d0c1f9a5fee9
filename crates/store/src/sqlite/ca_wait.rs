//! What waits for a CA.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Hostname, WaitScope};

use super::{SqliteStore, now, sql, time};
use crate::{
    AccountId, CaWait, CaWaits, Noted, Result,
    ca_wait::{LATELY, longest},
    query::ca_wait::LIFT,
    row::{Fields as _, ca_wait},
};

const NOTE: &str = "
    INSERT INTO ca_wait (account_id, key, scope, reason, until, noted_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (account_id, key, scope) DO UPDATE SET reason = excluded.reason, until = excluded.until, noted_at = excluded.noted_at";
const OTHERS: &str = "
    SELECT EXISTS (SELECT 1 FROM ca_wait WHERE account_id = $1 AND scope = $2 AND key <> $3 AND noted_at > $4 AND noted_at <= $5) AS others";
const FIND: &str = "
    SELECT scope, key, reason, until, noted_at, $4 AS now FROM ca_wait WHERE account_id = $1 AND key IN ($2, $3) AND until > $4";
const LIST: &str = "
    SELECT scope, key, reason, until, noted_at, $4 AS now FROM ca_wait
    WHERE account_id = $1 AND scope = $2 AND until > $4 ORDER BY until LIMIT $3";

#[async_trait]
impl CaWaits for SqliteStore {
    async fn note_wait(
        &self,
        account: AccountId,
        scope: WaitScope,
        name: &Hostname,
        wait: Duration,
        reason: &str,
    ) -> Result<Noted> {
        let (key, scope) = (scope.key(name), scope.as_str());
        around(Point::STORE_PAUSE, async {
            let mut transaction = self.writer.begin("note a wait").await?;
            let now = now();
            let until = now.plus(wait);
            let note = sql(NOTE).bind(account.0).bind(key).bind(scope).bind(reason);
            transaction.execute(note.bind(time(until)).bind(time(now))).await?;
            let others = sql(OTHERS).bind(account.0).bind(scope).bind(key);
            let others = others.bind(time(now.minus(LATELY))).bind(time(now));
            let others = transaction.one(others).await?.flag("others")?;
            transaction.commit().await?;
            Ok(Noted { until, others })
        })
        .await
    }

    async fn waiting_for(&self, account: AccountId, name: &Hostname) -> Result<Option<CaWait>> {
        let find = sql(FIND).bind(account.0).bind(name.as_str()).bind(name.registered_domain());
        let rows = self.readers.rows("look for a wait", find.bind(time(now()))).await?;
        Ok(longest(rows.iter().map(ca_wait).collect::<Result<_>>()?, name))
    }

    async fn waits(&self, account: AccountId, scope: WaitScope, limit: u32) -> Result<Vec<CaWait>> {
        let list = sql(LIST).bind(account.0).bind(scope.as_str()).bind(i64::from(limit));
        let rows = self.readers.rows("list waits", list.bind(time(now()))).await?;
        Ok(rows.iter().map(ca_wait).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    async fn lift_waits(&self, account: AccountId, name: &Hostname) -> Result<u64> {
        let lift = sql(LIFT).bind(account.0).bind(name.as_str()).bind(name.registered_domain());
        let lift = self.writer.execute("lift waits", lift);
        Ok(around(Point::STORE_PAUSE, lift).await?.rows_affected())
    }
}
