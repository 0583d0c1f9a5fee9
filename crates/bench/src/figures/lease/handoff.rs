//! A lease given up and taken by the next one: on PostgreSQL beside the bare statements, on Redis, and in etcd.

mod etcd;
mod raw;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_lease::clock::BootClock;
use holdfast_lease::row::Row;
use holdfast_lease::{Elector, Health, Holder, Leadership, Name, Options, Standing, Wish};
use holdfast_testkit::Redis;
use tokio::time::{Instant, sleep, timeout};

use self::etcd::Etcd;
use self::raw::Raw;
use super::{millis, postgres, ratio, store};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

/// Handoffs per run, of each.
const TIMES: usize = 40;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Samples {
    postgres: Sample,
    raw: Sample,
    of_raw: Sample,
    redis: Sample,
    etcd: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let ((_server, url), redis) = (postgres().await?, Redis::start().await?);
    let on_postgres = Pair::start(&url).await?;
    let on_redis = Pair::start(&redis.url()).await?;
    let mut raw = Raw::start(&url).await?;
    let mut etcd = Etcd::start().await?;
    let mut samples = Samples::default();
    for run in 0..ground.runs {
        let ours = median(async || on_postgres.hand_over().await).await?;
        let bare = median(async || raw.hand_over().await).await?;
        samples.postgres.push(ours);
        samples.raw.push(bare);
        samples.of_raw.push(ours / bare);
        samples.redis.push(median(async || on_redis.hand_over().await).await?);
        samples.etcd.push(median(async || etcd.hand_over().await).await?);
        ground.say(format!(
            "run {}: handoff on PostgreSQL {ours:.2} ms, bare {bare:.2} ms; Redis {} ms, etcd {} ms so far",
            run + 1,
            samples.redis.shown(2),
            samples.etcd.shown(2)
        ));
    }
    Ok(shown(&samples))
}

fn shown(samples: &Samples) -> String {
    let mut table = Table::new(&["", "ms", "of the bare one", "limit"]);
    table.row([
        "PostgreSQL".to_owned(),
        format!("**{}**", samples.postgres.shown(2)),
        ratio(&samples.of_raw),
        "1.50".to_owned(),
    ]);
    table.row(["PostgreSQL, bare release, `NOTIFY` and acquire".to_owned(), samples.raw.shown(2)]);
    table.row([
        "Redis".to_owned(),
        format!("**{}**", samples.redis.shown(2)),
        String::new(),
        "5 ms".to_owned(),
    ]);
    table
        .row(["etcd, resign and campaign over its JSON gateway".to_owned(), samples.etcd.shown(2)]);
    format!(
        "**Graceful handoff**, {TIMES} per run: from `step_down` in one process's elector to `elected` in the other's.\n\n{}\n",
        table.markdown()
    )
}

/// The median of so many, in milliseconds.
async fn median(mut once: impl AsyncFnMut() -> Result<Duration>) -> Result<f64> {
    let mut sample = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        sample.push(millis(once().await?));
    }
    Ok(sample.into_iter().collect::<Sample>().median())
}

/// Two electors that contend for one lease.
struct Pair {
    electors: [Elector; 2],
    leases: [Leadership; 2],
}

impl Pair {
    async fn start(url: &str) -> Result<Self> {
        let start = |who: &str| -> Result<Elector> {
            // Who let go waits this long before it contends again: nothing of what is measured, but most of the time it takes.
            let reservation = Duration::from_millis(20);
            let options = Options { reservation, ..Options::default() };
            let clock = Arc::new(BootClock);
            Ok(Elector::start_as(store(url)?, &options, Holder::new(who)?, clock)?)
        };
        let electors = [start("ann")?, start("bob")?];
        let name = Name::new("sweep")?;
        let leases = electors.each_ref().map(|elector| elector.contend(&name, Wish::default()));
        let pair = Self { electors, leases };
        let begun = Instant::now();
        while pair.electors.iter().any(|elector| elector.health() != Health::Healthy) {
            anyhow::ensure!(begun.elapsed() < PATIENCE, "the electors are not healthy");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(pair)
    }

    async fn hand_over(&self) -> Result<Duration> {
        let [ann, bob] = &self.leases;
        let (from, to) = timeout(PATIENCE, async {
            tokio::select! {
                _ = ann.elected() => (ann, bob),
                _ = bob.elected() => (bob, ann),
            }
        })
        .await
        .context("nobody leads")?;
        // The other one has seen who leads, and sleeps.
        let owned = |row: &Row| row.owner.is_some();
        let follows =
            |standing: &Standing| matches!(standing, Standing::Following(row) if owned(row));
        let mut standing = to.watch();
        timeout(PATIENCE, standing.wait_for(follows)).await.context("nobody follows")??;
        let begun = Instant::now();
        from.step_down(None);
        timeout(PATIENCE, to.elected()).await.context("nobody followed")??;
        Ok(begun.elapsed())
    }
}
