//! A million domains stored: what a look for work reads and takes, a start, and memory.

use std::time::Duration;

use anyhow::Result;
use holdfast_store::Claimant;
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
            read.shown(0),
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

/// Makes so many due, claims them, gives them back; milliseconds and rows read of the claim.
async fn sweep(ground: &Ground, url: &str, due: u32) -> Result<(Sample, Sample)> {
    let store = seed::open(url).await?;
    let who = Claimant { instance: "bench".into(), incarnation: uuid::Uuid::new_v4() };
    let mut connection = PgConnection::connect(url).await?;
    let (mut took, mut read) = (Sample::default(), Sample::default());
    for _ in 0..ground.runs {
        let make = format!(
            "UPDATE domain SET due_at = clock_timestamp() WHERE id IN (SELECT id FROM domain LIMIT {due})"
        );
        connection.execute(sqlx::AssertSqlSafe(make)).await?;
        connection.execute("VACUUM ANALYZE domain").await?;
        let before = rows_read(&mut connection).await?;
        let begun = Instant::now();
        let batch = store.claim(&who, 1_000, HOLD).await?;
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
        read.push((rows_read(&mut connection).await? - before) as f64);
        anyhow::ensure!(batch.work.len() == usize::try_from(due)?, "{} claimed", batch.work.len());
        let claims: Vec<_> = batch.work.iter().map(|work| (work.domain.id, work.epoch)).collect();
        store.unclaim(&who, &claims).await?;
        connection
            .execute("UPDATE domain SET due_at = clock_timestamp() + interval '20 days' WHERE due_at < clock_timestamp() + interval '1 hour'")
            .await?;
    }
    Ok((took, read))
}

/// Sessions hand their counts over when they are idle: looked at until they stand still.
async fn rows_read(connection: &mut PgConnection) -> Result<i64> {
    let asked = "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables WHERE relname = 'domain'";
    let mut last = -1;
    loop {
        connection.execute("SELECT pg_stat_clear_snapshot()").await?;
        let now: i64 = connection.fetch_one(asked).await?.try_get(0)?;
        if now == last {
            return Ok(now);
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
}
