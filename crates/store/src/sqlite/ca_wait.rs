//! What waits for a CA.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use holdfast_model::{Hostname, Timestamp, WaitScope};

use super::{SqliteStore, now, sql, time};
use crate::{
    AccountId, CaWait, CaWaits, Result, ca_wait::longest, query::ca_wait::LIFT, row::ca_wait,
};

const NOTE: &str = "
    INSERT INTO ca_wait (account_id, key, scope, reason, until, noted_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (account_id, key, scope) DO UPDATE SET reason = excluded.reason, until = excluded.until, noted_at = excluded.noted_at";
const FIND: &str = "
    SELECT scope, key, reason, until, noted_at, $4 AS now FROM ca_wait WHERE account_id = $1 AND key IN ($2, $3) AND until > $4";
const LIST: &str = "
    SELECT scope, key, reason, until, noted_at, $4 AS now FROM ca_wait
    WHERE account_id = $1 AND scope = $2 AND until > $4 ORDER BY until LIMIT $3";
const NOTED: &str = "
    SELECT scope, key, reason, until, noted_at, $5 AS now FROM ca_wait
    WHERE account_id = $1 AND scope = $2 AND noted_at > $4 AND noted_at <= $5 ORDER BY noted_at DESC LIMIT $3";

#[async_trait]
impl CaWaits for SqliteStore {
    async fn note_wait(
        &self,
        account: AccountId,
        scope: WaitScope,
        name: &Hostname,
        wait: Duration,
        reason: &str,
    ) -> Result<Timestamp> {
        let (now, key) = (now(), scope.key(name));
        let until = now.plus(wait);
        let note = sql(NOTE).bind(account.0).bind(key).bind(scope.as_str()).bind(reason);
        let note = note.bind(time(until)).bind(time(now));
        around(Point::STORE_PAUSE, self.writer.execute("note a wait", note)).await?;
        Ok(until)
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

    async fn waits_noted(
        &self,
        account: AccountId,
        scope: WaitScope,
        within: Duration,
        limit: u32,
    ) -> Result<Vec<CaWait>> {
        let now = now();
        let noted = sql(NOTED).bind(account.0).bind(scope.as_str()).bind(i64::from(limit));
        let noted = noted.bind(time(now.minus(within))).bind(time(now));
        let rows = self.readers.rows("list waits noted lately", noted).await?;
        Ok(rows.iter().map(ca_wait).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    async fn lift_waits(&self, account: AccountId, name: &Hostname) -> Result<u64> {
        let lift = sql(LIFT).bind(account.0).bind(name.as_str()).bind(name.registered_domain());
        let lift = self.writer.execute("lift waits", lift);
        Ok(around(Point::STORE_PAUSE, lift).await?.rows_affected())
    }
}
