//! A million domains stored: what a look for work reads and takes, a start, and memory.

use std::time::Duration;

use anyhow::Result;
use holdfast_store::{Claimant, SharedStore};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::time::Instant;

use crate::figures::Ground;
use crate::figures::scale::Stored;
use crate::figures::site::Backend;
use crate::network::Network;
use crate::replica::EdgeMode;
use crate::sample::Sample;
use crate::seed;
use crate::table::Table;

const SIZE: u32 = 1_000_000;
const DUE: u32 = 1_000;
const HOLD: Duration = Duration::from_secs(30);

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let stored = Stored::seed(ground, &network, Backend::Postgres, SIZE).await?;
    let (mut ready, mut resident) = (Sample::default(), Sample::default());
    for _ in 0..ground.runs {
        let replica = stored.start(ground, &network, EdgeMode::None).await?;
        ready.push(replica.start_to_ready().as_secs_f64() * 1000.0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        resident.push(crate::process::peak_resident(replica.pid())? as f64 / 1e6);
        replica.stop().await?;
    }
    let mut table = Table::new(&["1,000,000 domains", "due", "time, ms", "rows read"]);
    for due in [0, DUE] {
        let (took, read) = sweep(ground, &stored.url(), due).await?;
        table.row([
            "a worker's look for due domains".to_owned(),
            due.to_string(),
            took.shown(2),
            read.to_string(),
        ]);
    }
    Ok(format!(
        "**A million domains** on PostgreSQL: ready after {} ms, {} MB resident. Rows read are those that PostgreSQL counts for the table of domains \
         and its indexes.\n\n{}",
        ready.shown(0),
        resident.shown(0),
        table.markdown()
    ))
}

/// Makes so many due and claims them; milliseconds of the claim, and the rows it read.
async fn sweep(ground: &Ground, url: &str, due: u32) -> Result<(Sample, i64)> {
    let mut connection = PgConnection::connect(url).await?;
    let store = seed::open(url).await?;
    let mut took = Sample::default();
    for _ in 0..ground.runs {
        make_due(&mut connection, due).await?;
        let begun = Instant::now();
        let claimed = claim(&store).await?;
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
        anyhow::ensure!(claimed == usize::try_from(due)?, "{claimed} claimed");
    }
    drop(store);
    make_due(&mut connection, due).await?;
    let before = rows_read(&mut connection).await?;
    claim(&seed::open(url).await?).await?;
    let read = rows_read(&mut connection).await? - before;
    make_due(&mut connection, 0).await?;
    Ok((took, read))
}

/// So many, and no others.
async fn make_due(connection: &mut PgConnection, due: u32) -> Result<()> {
    let make = format!(
        "UPDATE domain SET due_at = clock_timestamp(), claimed_by = NULL, claimed_until = NULL WHERE id IN (SELECT id FROM domain LIMIT {due})"
    );
    let none = "UPDATE domain SET due_at = clock_timestamp() + interval '20 days', claimed_by = NULL, claimed_until = NULL
        WHERE due_at < clock_timestamp() + interval '1 hour'";
    connection.execute(none).await?;
    connection.execute(sqlx::AssertSqlSafe(make)).await?;
    connection.execute("VACUUM ANALYZE domain").await?;
    Ok(())
}

async fn claim(store: &SharedStore) -> Result<usize> {
    let who = Claimant { instance: "bench".into(), incarnation: uuid::Uuid::new_v4() };
    Ok(store.claim(&who, 1_000, HOLD).await?.work.len())
}

/// What PostgreSQL has counted: sessions hand their counts over when they end, at the latest.
async fn rows_read(connection: &mut PgConnection) -> Result<i64> {
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while connection.fetch_one(others).await?.try_get::<i64, _>(0)? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    connection.execute("SELECT pg_stat_force_next_flush()").await?;
    connection.execute("SELECT pg_stat_clear_snapshot()").await?;
    let asked = "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables WHERE relname = 'domain'";
    Ok(connection.fetch_one(asked).await?.try_get(0)?)
}
