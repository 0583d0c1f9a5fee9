//! Open orders. They are written by `admit` and `commit` alone.

use async_trait::async_trait;
use holdfast_model::DomainId;

use super::{SqliteStore, sql};
use crate::{
    AccountId, Order, Orders, Result, query::order::ACCOUNT, row::Fields as _, row::order,
    seal::Place,
};

const OPEN: &str = "
    SELECT o.id, o.domain_id, o.account_id, o.url, o.csr, o.created_at, o.trouble, o.trouble_since, s.value,
           h.token, h.kind, h.key_authorization, h.url AS challenge_url, h.authorization_url
    FROM acme_order o
    LEFT JOIN sealed s ON s.owner = 'order' AND s.id = o.id
    LEFT JOIN challenge h ON h.order_id = o.id
    WHERE o.domain_id = $1 AND o.ended_at IS NULL ORDER BY h.created_at DESC LIMIT 1";

#[async_trait]
impl Orders for SqliteStore {
    async fn order_account(&self, domain: DomainId) -> Result<Option<AccountId>> {
        let row = self.readers.row("read an order's account", sql(ACCOUNT).bind(domain.0)).await?;
        row.map(|row| row.id("account_id").map(AccountId)).transpose()
    }

    async fn open_order(&self, domain: DomainId) -> Result<Option<Order>> {
        let row = self.readers.row("read an order", sql(OPEN).bind(domain.0)).await?;
        let Some(row) = row else { return Ok(None) };
        let id = row.id("id")?;
        let key = row.maybe_bytes("value")?.map(|value| self.unseal(Place::order(id), &value));
        order(&row, key.transpose()?).map(Some)
    }
}
