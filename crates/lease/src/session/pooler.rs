//! Finding a pooler that shares server processes between sessions.
//!
//! Two open sessions never have the same server process, and one session never changes its own, unless a pooler stands between. An
//! idle pooler gives the process it got back last (B then meets A's), or the one that waited longest (A then meets another one
//! when it asks again), and a busy one gives any. So a few rounds of both questions find it, whatever it does.

use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::time::timeout;

use super::check::Session as _;
use super::error::Fault;

const ROUNDS: u32 = 3;
const OWN: &str = "SELECT pg_backend_pid()";

/// Longest wait for the second session. A pooler in session mode that is full makes it wait for ever, and proves that it is none of
/// the others.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refuses a pooler that shares server processes. False when there was no second session to compare with. `a` must have no settings yet, or others would inherit them.
pub(super) async fn refuse_shared_sessions(
    a: &mut PgConnection,
    options: &PgConnectOptions,
) -> Result<bool, Fault> {
    let compare = async {
        let mut b = PgConnection::connect_with(options).await?;
        let shared = are_shared(a, &mut b).await?;
        b.close().await?;
        Ok(shared)
    };
    match timeout(PATIENCE, compare).await {
        Ok(Ok(true)) => Err(Fault::SharedSession),
        Ok(Err(error)) if is_statement_mode(&error) => Err(Fault::SharedSession),
        Ok(Ok(false)) => Ok(true),
        Ok(Err(_)) | Err(_) => Ok(false),
    }
}

async fn are_shared(a: &mut PgConnection, b: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let first = process(a, OWN).await?;
    for _ in 0..ROUNDS {
        // In a transaction B keeps its process, so A cannot meet the same one by turns.
        let alone = process(a, OWN).await?;
        let other = process(b, "BEGIN; SELECT pg_backend_pid()").await?;
        if alone != first || other == first {
            return Ok(true);
        }
        let again = process(a, OWN).await?;
        sqlx::raw_sql("ROLLBACK").execute(&mut *b).await?;
        if again != first {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn process(session: &mut PgConnection, asked: &str) -> Result<i32, sqlx::Error> {
    session.ask(asked.to_owned()).await?.try_get(0)
}

/// PgBouncer refuses transactions of several statements in this mode.
fn is_statement_mode(error: &sqlx::Error) -> bool {
    let said = error.as_database_error().map(DatabaseError::message);
    said.is_some_and(|said| said.contains("statement pooling"))
}
