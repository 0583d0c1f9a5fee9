//! An open order's row, joined with its challenge; its key comes opened.

use holdfast_model::DomainId;

use super::{Fields, challenge};
use crate::{AccountId, Order, OrderId, OrderTrouble, Result, Secret};

pub(crate) fn order(row: &impl Fields, key: Option<Secret>) -> Result<Order> {
    Ok(Order {
        id: OrderId(row.id("id")?),
        domain: DomainId(row.id("domain_id")?),
        account: AccountId(row.id("account_id")?),
        url: row.maybe_text("url")?,
        challenge: challenge(row)?,
        key,
        csr: row.maybe_bytes("csr")?,
        trouble: match (row.maybe_text("trouble")?, row.maybe_at("trouble_since")?) {
            (Some(kind), Some(since)) => Some(OrderTrouble { kind, since }),
            _ => None,
        },
        created_at: row.at("created_at")?,
    })
}
