//! Statements per certificate, counted by PostgreSQL itself. In a run of its own: counting costs time.

use anyhow::Result;
use holdfast_testkit::{Durability, Postgres};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::figures::Ground;
use crate::figures::site::{Backend, Database, Site};
use crate::network::Network;
use crate::replica::EdgeMode;

/// How many of the costliest are shown.
const SHOWN: usize = 12;

/// Counts over a batch of `domains`, and says so in a sentence.
pub(super) async fn count(ground: &Ground, network: &Network, domains: usize) -> Result<String> {
    let database = counting_server().await?;
    let url = database.url();
    let site =
        Site::over(&ground.holdfast, network, Backend::Postgres, EdgeMode::None, database).await?;
    site.provision(domains).await?;
    let mut connection = PgConnection::connect(&url).await?;
    connection.execute("SELECT pg_stat_statements_reset()").await?;
    site.provision(domains).await?;
    let counted = busiest(&mut connection).await?;
    let all: i64 = counted.iter().map(|statement| statement.calls).sum();
    for Statement { calls, planned_ms, executed_ms, text } in counted.iter().take(SHOWN) {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.chars().take(90).collect();
        ground.say(format!(
            "{:>6.2} per certificate, each {planned_ms:.3} ms planned, {executed_ms:.3} ms executed: {text}",
            per(*calls, domains)
        ));
    }
    Ok(format!(
        "Statements per certificate on PostgreSQL, from the request to Active: **{:.1}** \
         (`pg_stat_statements`, everything that the database was asked in that time).\n",
        per(all, domains)
    ))
}

fn per(count: i64, domains: usize) -> f64 {
    count as f64 / domains as f64
}

/// A server that counts: the library must be there when it starts.
pub(crate) async fn counting_server() -> Result<Database> {
    let mut server = Box::new(Postgres::start(Durability::Durable).await?);
    let mut connection = PgConnection::connect(&server.url("postgres")).await?;
    connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'").await?;
    connection.close().await?;
    server.restart().await?;
    let url = server.database().await?;
    let mut connection = PgConnection::connect(&url).await?;
    connection.execute("CREATE EXTENSION pg_stat_statements").await?;
    // Known only once the library is there; sessions that begin later have it.
    connection
        .execute("ALTER ROLE CURRENT_USER SET pg_stat_statements.track_planning = on")
        .await?;
    connection.close().await?;
    Ok(Database::Postgres { server, url })
}

/// What was asked, how often, and what it took.
pub(crate) struct Statement {
    pub(crate) calls: i64,
    planned_ms: f64,
    executed_ms: f64,
    text: String,
}

/// All statements of this database, the costliest first.
pub(crate) async fn busiest(connection: &mut PgConnection) -> Result<Vec<Statement>> {
    let asked =
        "SELECT calls, total_plan_time / calls, mean_exec_time, query FROM pg_stat_statements s
         JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()
         WHERE query NOT LIKE '%pg_stat_%' ORDER BY total_plan_time + total_exec_time DESC";
    let rows = sqlx::query(asked).fetch_all(connection).await?;
    let statement = |row: &PgRow| -> Result<Statement> {
        Ok(Statement {
            calls: row.try_get(0)?,
            planned_ms: row.try_get(1)?,
            executed_ms: row.try_get(2)?,
            text: row.try_get(3)?,
        })
    };
    rows.iter().map(statement).collect()
}
