//! Guarded transactions: no newer term can begin, and so nothing can be written under one, before they end.
//!
//! The guard takes `FOR KEY SHARE` on the lease's row, in which the term is part of a key. A renewal or a release does not
//! change a key and passes; a change of owner waits. So that a paused guard, or a stream of them, cannot hold up a
//! takeover, the guard lets in only the present owner before its expiry, and its session is ended by the server when it
//! stands still.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Postgres, Transaction};

use super::Token;
use crate::error::{Error, StoreError};
use crate::identity::Term;

/// The guard of a lease kept in this database: `$1` name, `$2` term, `$3` incarnation, `$4` limit in milliseconds as text.
pub const GUARD: &str = "SELECT set_config('statement_timeout', $4, true), \
    set_config('idle_in_transaction_session_timeout', $4, true) FROM lease \
    WHERE name = $1 AND term = $2 AND incarnation = $3 AND expires_at > clock_timestamp() FOR KEY SHARE";

/// The same for a lease kept elsewhere whose terms are registered in this database.
pub const GUARD_REGISTERED: &str = "SELECT set_config('statement_timeout', $4, true), \
    set_config('idle_in_transaction_session_timeout', $4, true) FROM lease_fence \
    WHERE name = $1 AND term = $2 AND incarnation = $3 AND wanted <= $2 FOR KEY SHARE";

/// Begins a transaction whose writes are refused unless this token holds the lease until they are committed. `limit`, at most a
/// third of the lease, bounds each statement and each pause in it.
pub async fn guard<'c>(
    connection: &'c mut PgConnection,
    token: &Token,
    limit: Duration,
) -> Result<Transaction<'c, Postgres>, Error> {
    guarded(GUARD, connection, token, limit).await
}

/// Begins a transaction like [`guard`], for a lease whose terms are registered here by [`register`].
pub async fn guard_registered<'c>(
    connection: &'c mut PgConnection,
    token: &Token,
    limit: Duration,
) -> Result<Transaction<'c, Postgres>, Error> {
    guarded(GUARD_REGISTERED, connection, token, limit).await
}

async fn guarded<'c>(
    statement: &'static str,
    connection: &'c mut PgConnection,
    token: &Token,
    limit: Duration,
) -> Result<Transaction<'c, Postgres>, Error> {
    let failed = |error| StoreError::new("opening a guarded transaction", error);
    let mut transaction = connection.begin().await.map_err(failed)?;
    let held = sqlx::query(statement)
        .bind(token.name.as_str())
        .bind(token.term.number())
        .bind(token.incarnation.as_uuid())
        .bind(format!("{}ms", limit.as_millis().max(1)));
    let held = held.fetch_optional(&mut *transaction).await.map_err(failed)?;
    match held {
        Some(_) => Ok(transaction),
        None => Err(Error::Fenced { name: token.name.clone(), term: token.term }),
    }
}

/// Registers the term of a lease kept elsewhere: from then on it counts, and no lower one does. `Err` with the term that stands
/// in the way otherwise.
pub async fn register(
    connection: &mut PgConnection,
    token: &Token,
) -> Result<Result<(), Term>, StoreError> {
    let failed = |error| StoreError::new("registering a term", error);
    let (name, term) = (token.name.as_str(), token.term.number());
    let steps = [
        "INSERT INTO lease_fence (name, term, wanted, incarnation) VALUES ($1, $2, $2, $3) ON CONFLICT (name) DO NOTHING",
        // Closes the door to guards of lower terms; changes no key, so it does not wait for them.
        "UPDATE lease_fence SET wanted = $2 WHERE name = $1 AND term < $2 AND wanted < $2 AND $3::uuid IS NOT NULL",
        // Waits for those that are still open.
        "UPDATE lease_fence SET term = $2, incarnation = $3 WHERE name = $1 AND term < $2 AND wanted <= $2",
    ];
    for step in steps {
        let query = sqlx::query(step).bind(name).bind(term).bind(token.incarnation.as_uuid());
        query.execute(&mut *connection).await.map_err(failed)?;
    }
    let ours = "SELECT greatest(term, wanted), term = $2 AND incarnation = $3 FROM lease_fence WHERE name = $1";
    let query = sqlx::query_as::<_, (i64, bool)>(ours).bind(name).bind(term);
    let query = query.bind(token.incarnation.as_uuid());
    let (registered, ours) = query.fetch_one(&mut *connection).await.map_err(failed)?;
    Ok(if ours { Ok(()) } else { Err(Term::new(registered)) })
}
