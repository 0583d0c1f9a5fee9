//! The statements that the store sends, as PostgreSQL received them: what is compared with is the very same text.

use anyhow::{Context as _, Result};
use holdfast_lease::Term;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_testkit::{Durability, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::operation::{acquire, lease, release, renew};
use super::{LIMIT, store};

/// A statement, to be prepared under a name.
pub(super) struct Text {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// Of its parameters, in order.
    pub(super) types: &'static str,
}

const ACQUIRE: &str =
    "text, text, uuid, smallint, bigint, bigint, boolean, uuid, bigint, bigint, bigint, bigint";
const RENEW: &str = "uuid, bigint, text[], bigint[], bigint[], bigint";
const RELEASE: &str = "text, uuid, bigint, text, bigint, bigint, text";

/// Acquire, renew and release, in this order.
pub(super) async fn texts() -> Result<[Text; 3]> {
    let (_server, url) = telling_postgres().await?;
    let mut connection = PgConnection::connect(&url).await?;
    let (lease, mut store) = (lease(0)?, store(&url)?);
    let mut seen = async |name, types| last(&mut connection, name, types).await;
    let term = acquire(&mut *store, &lease, Term::NONE).await?;
    let acquire = seen("acquire", ACQUIRE).await?;
    renew(&mut *store, std::slice::from_ref(&lease), term).await?;
    let renew = seen("renew", RENEW).await?;
    release(&mut *store, &lease, term).await?;
    let release = seen("release", RELEASE).await?;
    Ok([acquire, renew, release])
}

/// A server that tells the whole text of what it is asked, not only its beginning.
async fn telling_postgres() -> Result<(Postgres, String)> {
    let mut server = Postgres::start(Durability::Relaxed).await?;
    let mut connection = PgConnection::connect(&server.url("postgres")).await?;
    connection.execute("ALTER SYSTEM SET track_activity_query_size = '64kB'").await?;
    connection.close().await?;
    server.restart().await?;
    let url = server.database().await?;
    PostgresStore::new(&url, LIMIT)?.apply_schema().await?;
    Ok((server, url))
}

/// What the store asked last.
async fn last(
    connection: &mut PgConnection,
    name: &'static str,
    types: &'static str,
) -> Result<Text> {
    let asked = "SELECT query FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'holdfast-lease' ORDER BY query_start DESC LIMIT 1";
    let sql: String = sqlx::query_scalar(asked).fetch_one(&mut *connection).await?;
    let sql: String = sql.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let prepare = format!("PREPARE {name} ({types}) AS {sql}");
    connection.execute(AssertSqlSafe(prepare)).await.context("preparing what the store sent")?;
    Ok(Text { name, sql, types })
}

fn without_comment(line: &str) -> &str {
    line.split_once("--").map_or(line, |(code, _)| code)
}
