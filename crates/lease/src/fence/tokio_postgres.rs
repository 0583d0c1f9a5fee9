//! The guard of a transaction, for those who speak to PostgreSQL by `tokio-postgres`.

use std::time::Duration;

use tokio_postgres::Transaction;

use super::Token;
use crate::error::{Error, StoreError};

/// The guard of a lease kept in this database. The same statement as in `fence::postgres`.
const GUARD: &str = "SELECT set_config('statement_timeout', $4, true), \
    set_config('idle_in_transaction_session_timeout', $4, true) FROM lease \
    WHERE name = $1 AND term = $2 AND incarnation = $3 AND expires_at > clock_timestamp() FOR KEY SHARE";

/// Guards a transaction that has just begun: its writes are refused unless this token holds the lease until they are committed.
pub async fn guard(
    transaction: &Transaction<'_>,
    token: &Token,
    limit: Duration,
) -> Result<(), Error> {
    let limit = format!("{}ms", limit.as_millis().max(1));
    let (name, term, incarnation) =
        (token.name.as_str(), token.term.number(), token.incarnation.as_uuid());
    let held = transaction.query_opt(GUARD, &[&name, &term, &incarnation, &limit]).await;
    match held.map_err(|error| StoreError::new("guarding a transaction", error))? {
        Some(_) => Ok(()),
        None => Err(Error::Fenced { name: token.name.clone(), term: token.term }),
    }
}
