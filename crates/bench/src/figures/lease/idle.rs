//! What ten instances ask of their store when nothing happens, counted by the store itself.

use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_lease::{Elector, Leadership, Name, Options, Wish};
use holdfast_testkit::{Durability, Postgres, Redis};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::time::sleep;

use super::{LIMIT, store};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

const INSTANCES: usize = 10;

/// A lease and a bit: whatever comes of the start is over.
const SETTLED: Duration = Duration::from_secs(40);

const WINDOW: Duration = Duration::from_secs(60);

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let (_server, url) = counting_postgres().await?;
    let redis = Redis::start().await?;
    let _on_postgres = crowd(&url)?;
    let _on_redis = crowd(&redis.url())?;
    sleep(SETTLED).await;
    let (mut postgres, mut in_redis) = (Sample::default(), Sample::default());
    let mut before = (calls_of_postgres(&url).await?, calls_of_redis(&redis).await?);
    for run in 0..ground.runs {
        sleep(WINDOW).await;
        let now = (calls_of_postgres(&url).await?, calls_of_redis(&redis).await?);
        postgres.push(now.0 - before.0);
        in_redis.push(now.1 - before.1);
        before = now;
        ground.say(format!("minute {}: PostgreSQL {postgres}, Redis {in_redis}", run + 1));
    }
    let mut table = Table::new(&["", "store operations a minute", "limit"]);
    let limit = || "40".to_owned();
    table.row(["PostgreSQL".to_owned(), format!("**{}**", postgres.shown(0)), limit()]);
    table.row(["Redis".to_owned(), format!("**{}**", in_redis.shown(0)), limit()]);
    Ok(format!(
        "**Idle**: {INSTANCES} instances that contend for one lease at the default settings, one minute per run, counted by \
         `pg_stat_statements` and `INFO commandstats`.\n\n{}",
        table.markdown()
    ))
}

fn crowd(url: &str) -> Result<Vec<(Elector, Leadership)>> {
    let name = Name::new("sweep")?;
    (0..INSTANCES)
        .map(|_| {
            let elector = Elector::start_as(
                store(url)?,
                &Options::default(),
                holdfast_lease::Holder::unique(),
                std::sync::Arc::new(holdfast_lease::clock::BootClock),
            )?;
            let lease = elector.contend(&name, Wish::default());
            Ok((elector, lease))
        })
        .collect()
}

async fn counting_postgres() -> Result<(Postgres, String)> {
    let mut server = Postgres::start(Durability::Durable).await?;
    let mut connection = PgConnection::connect(&server.url("postgres")).await?;
    connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'").await?;
    connection.close().await?;
    server.restart().await?;
    let url = server.database().await?;
    PgConnection::connect(&url).await?.execute("CREATE EXTENSION pg_stat_statements").await?;
    holdfast_lease::store::postgres::PostgresStore::new(&url, LIMIT)?.apply_schema().await?;
    Ok((server, url))
}

/// All that the database was asked, but for these questions themselves.
async fn calls_of_postgres(url: &str) -> Result<f64> {
    let mut connection = PgConnection::connect(url).await?;
    let asked = "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
                 WHERE d.datname = current_database() AND query NOT LIKE '%pg_stat%'";
    Ok(sqlx::query_scalar(asked).fetch_one(&mut connection).await?)
}

/// All commands from outside; those that a script gives are part of its call.
async fn calls_of_redis(redis: &Redis) -> Result<f64> {
    let info = redis.ask(&["INFO", "commandstats"]).await?;
    let mut sum = 0.0;
    for line in info.lines() {
        let counted = ["cmdstat_eval", "cmdstat_sadd", "cmdstat_ping", "cmdstat_client"];
        if counted.iter().any(|command| line.starts_with(command)) {
            let calls = line.split_once("calls=").and_then(|(_, rest)| rest.split_once(','));
            sum += calls.context("a line without calls")?.0.parse::<f64>()?;
        }
    }
    Ok(sum)
}
