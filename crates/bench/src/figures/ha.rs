//! Several replicas on one PostgreSQL: what more of them give, what the loss of one costs, and a million domains.

mod failover;
mod fleet;
mod issuance;
mod million;
mod requests;

use anyhow::Result;

use super::Ground;

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let parts = [
        issuance::measure(ground).await?,
        failover::measure(ground).await?,
        requests::measure(ground).await?,
        million::measure(ground).await?,
    ];
    Ok(parts.join("\n\n"))
}
