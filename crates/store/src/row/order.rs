//! An open order's row, joined with its challenge; its key comes opened.

use holdfast_model::DomainId;

use super::{Fields, challenge};
use crate::{AccountId, Order, OrderId, Result, Secret};

pub(crate) fn order(row: &impl Fields, key: Option<Secret>) -> Result<Order> {
    Ok(Order {
        id: OrderId(row.id("id")?),
        domain: DomainId(row.id("domain_id")?),
        account: AccountId(row.id("account_id")?),
        url: row.maybe_text("url")?,
        challenge: challenge(row)?,
        key,
        csr: row.maybe_bytes("csr")?,
        created_at: row.at("created_at")?,
    })
}
