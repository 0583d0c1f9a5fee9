//! Issuance with one, two and three replicas on the same two cores, with what the database was asked and where it waited.

use std::time::Duration;

use anyhow::Result;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::time::sleep;

use super::fleet::Fleet;
use crate::figures::Ground;
use crate::figures::issuance::statements;
use crate::network::Network;
use crate::sample::Sample;
use crate::table::Table;

const DOMAINS: usize = 500;
const MANY: [&[&str]; 3] = [&["all"], &["all"; 2], &["all"; 3]];

/// How often sessions that wait for a lock are counted.
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Row {
    rate: Sample,
    replica_ms: Sample,
    database_ms: Sample,
    waiting: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let mut rows = MANY.map(|_| Row::default());
    for number in 0..ground.runs {
        for (roles, row) in MANY.into_iter().zip(&mut rows) {
            run(ground, &network, roles, row).await?;
            let rate = row.rate.most();
            ground.say(format!(
                "run {}: {} replicas, best so far {rate:.0}/s",
                number + 1,
                roles.len()
            ));
        }
    }
    let mut table = Table::new(&[
        "replicas",
        "certificates/s",
        "CPU replicas",
        "CPU database",
        "sessions waiting for a lock",
        "statements",
    ]);
    for (roles, row) in MANY.into_iter().zip(&rows) {
        let statements = count(ground, &network, roles).await?;
        table.row([
            roles.len().to_string(),
            row.rate.shown(0),
            row.replica_ms.shown(1),
            row.database_ms.shown(1),
            row.waiting.shown(2),
            format!("{statements:.1}"),
        ]);
    }
    Ok(format!(
        "**Issuance**, {DOMAINS} domains added by one request at full speed of the embedded CA, everything on the same cores; CPU in ms per certificate. \
         Sessions waiting is the mean over the run, looked at every {} ms. What limits is the two cores: more replicas share them.\n\n{}",
        LOOK_EVERY.as_millis(),
        table.markdown()
    ))
}

async fn run(
    ground: &Ground,
    network: &Network,
    roles: &[&'static str],
    row: &mut Row,
) -> Result<()> {
    let mut fleet = Fleet::start(ground, network, Fleet::postgres().await?, roles, 30, "").await?;
    fleet.provision(DOMAINS / 4).await?;
    let before = (fleet.cpu()?, fleet.database.cpu()?);
    let url = fleet.database.url();
    let mut looked = Sample::default();
    let mut connection = PgConnection::connect(&url).await?;
    let took = tokio::select! {
        took = fleet.provision(DOMAINS) => took?,
        failed = watch(&mut connection, &mut looked) => return failed,
    };
    let per = |time: Duration| time.as_secs_f64() * 1000.0 / DOMAINS as f64;
    row.rate.push(DOMAINS as f64 / took.as_secs_f64());
    row.replica_ms.push(per(fleet.cpu()? - before.0));
    row.database_ms.push(per(fleet.database.cpu()? - before.1));
    row.waiting.push(looked.mean());
    for replica in &fleet.replicas {
        replica.stop().await?;
    }
    Ok(())
}

/// Counts for ever.
async fn watch(connection: &mut PgConnection, waiting: &mut Sample) -> Result<()> {
    loop {
        let asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let row = connection.fetch_one(asked).await?;
        waiting.push(row.try_get::<i64, _>(0)? as f64);
        sleep(LOOK_EVERY).await;
    }
}

/// Statements per certificate, in a run of its own.
async fn count(ground: &Ground, network: &Network, roles: &[&'static str]) -> Result<f64> {
    let database = statements::counting_server().await?;
    let mut fleet = Fleet::start(ground, network, database, roles, 30, "").await?;
    fleet.provision(DOMAINS).await?;
    let mut connection = PgConnection::connect(&fleet.database.url()).await?;
    connection.execute("SELECT pg_stat_statements_reset()").await?;
    fleet.provision(DOMAINS).await?;
    let all: i64 =
        statements::busiest(&mut connection).await?.iter().map(|statement| statement.calls).sum();
    for replica in &fleet.replicas {
        replica.stop().await?;
    }
    Ok(all as f64 / DOMAINS as f64)
}
