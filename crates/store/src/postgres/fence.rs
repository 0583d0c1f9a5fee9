//! Guarded transactions: the lease's row is looked at first, and held until the commit. A change of owner waits for that; a
//! renewal does not. See `holdfast-lease` for why these statements are what they are.

use sqlx::Postgres;

use super::{PostgresStore, sql};
use crate::{
    Fence, LeaseHome, Result,
    pool::{Statement, Transaction},
};

/// The session is bounded, so that a guard that stands still cannot hold up whoever comes next.
const GUARD: &str = "
    SELECT set_config('statement_timeout', $4, true), set_config('idle_in_transaction_session_timeout', $4, true)
    FROM lease WHERE name = $1 AND term = $2 AND incarnation = $3 AND expires_at > clock_timestamp() FOR KEY SHARE";
const GUARD_REGISTERED: &str = "
    SELECT set_config('statement_timeout', $4, true), set_config('idle_in_transaction_session_timeout', $4, true)
    FROM lease_fence WHERE name = $1 AND term = $2 AND incarnation = $3 AND wanted <= $2 FOR KEY SHARE";

/// Gives a row while the lease is held.
pub(super) fn guard(fence: &Fence) -> Statement<Postgres> {
    let guard = match fence.kept {
        LeaseHome::Here => GUARD,
        LeaseHome::Registered => GUARD_REGISTERED,
    };
    sql(guard)
        .bind(fence.lease.clone())
        .bind(fence.term)
        .bind(fence.incarnation)
        .bind(format!("{}ms", fence.limit.as_millis().max(1)))
}

impl PostgresStore {
    /// A transaction that commits only while the lease is held; without a fence, any transaction.
    pub(super) async fn fenced(
        &self,
        at: &'static str,
        fence: Option<&Fence>,
    ) -> Result<Transaction<'_, Postgres>> {
        let transaction = self.pool.begin(at).await?;
        match fence {
            Some(fence) => transaction.under(fence, guard).await,
            None => Ok(transaction),
        }
    }
}
