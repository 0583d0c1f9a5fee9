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
use super::clients::by_turns;
use super::{millis, postgres, ratio, store};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

/// Handoffs per turn; a run has two turns of each kind.
const TIMES: usize = 20;

/// Who let go waits this long before it contends again, and everyone rests as long before the next handoff: nothing of what is
/// measured, but most of the time it takes.
const COURTESY: Duration = Duration::from_millis(60);

const PATIENCE: Duration = Duration::from_secs(30);

/// What was measured, in milliseconds.
#[derive(Default)]
pub(super) struct Samples {
    pub(super) postgres: Sample,
    raw: Sample,
    of_raw: Sample,
    pub(super) redis: Sample,
    etcd: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<Samples> {
    let ((_server, url), redis) = (postgres().await?, Redis::start().await?);
    let on_postgres = Pair::start(&url).await?;
    let on_redis = Pair::start(&redis.url()).await?;
    let mut raw = Raw::start(&url).await?;
    let mut etcd = Etcd::start().await?;
    let mut samples = Samples::default();
    for run in 0..ground.runs {
        let (ours, bare) = by_turns(
            async || some(async || on_postgres.hand_over().await).await,
            async || some(async || raw.hand_over().await).await,
        )
        .await?;
        samples.postgres.push(ours);
        samples.raw.push(bare);
        samples.of_raw.push(ours / bare);
        let (in_redis, in_etcd) = by_turns(
            async || some(async || on_redis.hand_over().await).await,
            async || some(async || etcd.hand_over().await).await,
        )
        .await?;
        samples.redis.push(in_redis);
        samples.etcd.push(in_etcd);
        ground.say(format!(
            "run {}: handoff on PostgreSQL {ours:.2} ms, bare {bare:.2} ms; Redis {in_redis:.2} ms, etcd {in_etcd:.2} ms",
            run + 1,
        ));
    }
    Ok(samples)
}

pub(super) fn shown(samples: &Samples) -> String {
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
        "**Graceful handoff**, {} per run, by turns, each after {} ms of rest: from `step_down` of one elector to `elected` of another, \
         on connections of their own. The bare one is two statements on a table without history.\n\n{}\n",
        2 * TIMES,
        2 * COURTESY.as_millis(),
        table.markdown()
    )
}

/// So many, in milliseconds.
async fn some(mut once: impl AsyncFnMut() -> Result<Duration>) -> Result<Vec<f64>> {
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        took.push(millis(once().await?));
    }
    Ok(took)
}

/// Two electors that contend for one lease.
struct Pair {
    electors: [Elector; 2],
    leases: [Leadership; 2],
}

impl Pair {
    async fn start(url: &str) -> Result<Self> {
        let start = |who: &str| -> Result<Elector> {
            let options = Options { reservation: COURTESY, ..Options::default() };
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

    /// Once more if the one who let go was faster, which happens where the machine is busy with something else.
    async fn hand_over(&self) -> Result<Duration> {
        let handed_over = async {
            loop {
                if let Some(took) = self.try_to_hand_over().await? {
                    return Ok(took);
                }
            }
        };
        timeout(PATIENCE, handed_over).await.context("nobody followed")?
    }

    async fn try_to_hand_over(&self) -> Result<Option<Duration>> {
        let [ann, bob] = &self.leases;
        let (from, to, term) = tokio::select! {
            term = ann.elected() => (ann, bob, term?),
            term = bob.elected() => (bob, ann, term?),
        };
        // The other one has seen who leads, has waited as long as it lets others go first, and sleeps.
        let owned = |row: &Row| row.owner.is_some();
        let follows =
            |standing: &Standing| matches!(standing, Standing::Following(row) if owned(row));
        to.watch().wait_for(follows).await?;
        sleep(COURTESY).await;
        let mut back = from.watch();
        let begun = Instant::now();
        from.step_down(None);
        tokio::select! {
            elected = to.elected() => elected.map(|_| Some(begun.elapsed())).map_err(Into::into),
            back = back.wait_for(|back| matches!(back, Standing::Leading(newer) if *newer > term)) => {
                back.map(|_| None).map_err(Into::into)
            }
        }
    }
}
