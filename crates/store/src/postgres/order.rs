//! Open orders. They are written by `admit` and `commit` alone.

use async_trait::async_trait;
use holdfast_model::DomainId;

use super::{PostgresStore, sql};
use crate::{
    AccountId, Order, Orders, Result, query::order::ACCOUNT, row::Fields as _, row::order,
    seal::Place,
};

const OPEN: &str = "
    SELECT o.id, o.domain_id, o.account_id, o.url, o.csr, o.created_at, o.trouble, o.trouble_since, s.value,
           h.token, h.kind, h.key_authorization, h.url AS challenge_url, h.authorization_url
    FROM acme_order o
    LEFT JOIN sealed s ON s.owner = 'order' AND s.id = o.id
    LEFT JOIN LATERAL (SELECT * FROM challenge WHERE order_id = o.id ORDER BY created_at DESC LIMIT 1) h ON true
    WHERE o.domain_id = $1 AND o.ended_at IS NULL";

#[async_trait]
impl Orders for PostgresStore {
    async fn order_account(&self, domain: DomainId) -> Result<Option<AccountId>> {
        let row = self.pool.row("read an order's account", sql(ACCOUNT).bind(domain.0)).await?;
        row.map(|row| row.id("account_id").map(AccountId)).transpose()
    }

    async fn open_order(&self, domain: DomainId) -> Result<Option<Order>> {
        let mut tries = self.tries();
        loop {
            match self.read_order(domain).await {
                Err(error) => self.again(error, &mut tries).await?,
                done => return done,
            }
        }
    }
}

impl PostgresStore {
    async fn read_order(&self, domain: DomainId) -> Result<Option<Order>> {
        let row = self.pool.row("read an order", sql(OPEN).bind(domain.0)).await?;
        let Some(row) = row else { return Ok(None) };
        let key = match row.maybe_bytes("value")? {
            Some(value) => Some(self.unseal(Place::order(row.id("id")?), &value).await?),
            None => None,
        };
        order(&row, key).map(Some)
    }
}
