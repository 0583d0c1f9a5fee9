//! One renewal of many leases, beside a bare update of as many rows.

use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_lease::{Name, Term};
use holdfast_testkit::Redis;
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::operation::{acquire, renew};
use super::{millis, postgres, store};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

/// How many leases, and how often they are renewed in a run.
const SIZES: [(usize, usize); 4] = [(1, 100), (100, 40), (1_000, 10), (10_000, 5)];

/// How many connections make the leases.
const MAKERS: usize = 8;

#[derive(Default)]
struct Samples {
    on_postgres: Sample,
    bare_postgres: Sample,
    on_redis: Sample,
    bare_redis: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let ((_server, url), redis) = (postgres().await?, Redis::start().await?);
    let most = SIZES.iter().map(|(size, _)| *size).max().unwrap_or_default();
    let names: Vec<Name> = (0..most).map(name).collect::<Result<_>>()?;
    for url in [&url, &redis.url()] {
        make(url, &names).await?;
    }
    let mut samples: Vec<Samples> = SIZES.iter().map(|_| Samples::default()).collect();
    for run in 0..ground.runs {
        for ((size, times), samples) in SIZES.into_iter().zip(&mut samples) {
            let some = names.get(..size).context("fewer names than leases")?;
            samples.on_postgres.push(ours(&url, some, times).await?);
            samples.bare_postgres.push(bare_postgres(&url, some, times).await?);
            samples.on_redis.push(ours(&redis.url(), some, times).await?);
            samples.bare_redis.push(bare_redis(&redis.url(), some, times).await?);
        }
        ground.say(format!("run {}: 10,000 leases renewed in {} ms", run + 1, last(&samples)));
    }
    let mut table = Table::new(&[
        "leases in one renewal, ms",
        "PostgreSQL",
        "bare `UPDATE` of as many rows",
        "Redis",
        "bare pipeline of `HSET`",
        "limit",
    ]);
    for ((size, _), samples) in SIZES.into_iter().zip(&samples) {
        let limit = if size == most { "150" } else { "" };
        let Samples { on_postgres, bare_postgres, on_redis, bare_redis } = samples;
        table.row([
            size.to_string(),
            format!("**{}**", on_postgres.shown(2)),
            bare_postgres.shown(2),
            format!("**{}**", on_redis.shown(2)),
            bare_redis.shown(2),
            limit.to_owned(),
        ]);
    }
    Ok(format!("**Batched renewal** of one process's leases.\n\n{}\n", table.markdown()))
}

fn last(samples: &[Samples]) -> String {
    samples.last().map(|samples| samples.on_postgres.shown(1)).unwrap_or_default()
}

fn name(index: usize) -> Result<Name> {
    Ok(Name::new(format!("lease-{index:05}"))?)
}

async fn make(url: &str, names: &[Name]) -> Result<()> {
    let mut tasks = JoinSet::<Result<()>>::new();
    for names in names.chunks(names.len().div_ceil(MAKERS)) {
        let (mut store, names) = (store(url)?, names.to_vec());
        tasks.spawn(async move {
            for name in &names {
                acquire(&mut *store, name, Term::NONE).await?;
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Once to warm up, then so many times: the median, in milliseconds.
async fn timed(times: usize, mut once: impl AsyncFnMut() -> Result<()>) -> Result<f64> {
    once().await?;
    let mut sample = Vec::with_capacity(times);
    for _ in 0..times {
        let begun = Instant::now();
        once().await?;
        sample.push(millis(begun.elapsed()));
    }
    Ok(sample.into_iter().collect::<Sample>().median())
}

async fn ours(url: &str, names: &[Name], times: usize) -> Result<f64> {
    let mut store = store(url)?;
    timed(times, async || renew(&mut *store, names, Term::NONE.next()).await).await
}

async fn bare_postgres(url: &str, names: &[Name], times: usize) -> Result<f64> {
    let mut connection = PgConnection::connect(url).await?;
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    let update = "UPDATE lease SET beat = beat + 1, expires_at = clock_timestamp() + interval '30 seconds', \
                  renewed_at = clock_timestamp() WHERE name = ANY($1)";
    timed(times, async || {
        sqlx::query(update).bind(&names).execute(&mut connection).await?;
        Ok(())
    })
    .await
}

async fn bare_redis(url: &str, names: &[Name], times: usize) -> Result<f64> {
    let client = redis::Client::open(url)?;
    let config =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    timed(times, async || {
        let mut pipe = redis::pipe();
        for name in names {
            pipe.hset(format!("bare:{name}"), "expires", 1).ignore();
        }
        pipe.query_async::<()>(&mut connection).await?;
        Ok(())
    })
    .await
}
