//! One database with so many domains, and what was measured over it.

mod work;

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holdfast_store::{AccountId, Claimant, NewAccount, OrderLimits, Secret, SharedStore};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::super::Ground;
use super::super::site::{Backend, Database, Site};
use crate::api::Api;
use crate::network::Network;
use crate::process;
use crate::replica::{EdgeMode, Plan, Replica};
use crate::sample::Sample;
use crate::seed::{self, Seeding};
use crate::table::Table;

const LIMITS: OrderLimits = OrderLimits { per_3h: 300, in_flight: 64 };
const HOLD: Duration = Duration::from_secs(30);

/// Looks for work, and reads of a page, that one run is the median of.
const ROUNDS: usize = 100;
const READS: usize = 30;

/// After this long nothing of the start is going on any more.
const PATIENCE: Duration = Duration::from_secs(60);
const SETTLED: Duration = Duration::from_secs(2);

/// A database and its figures.
pub(in crate::figures) struct Stored {
    backend: Backend,
    size: u32,
    database: Database,
    target: String,
    suffix: String,
    works: u32,
    last_cursor: Option<String>,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    round_ms: Sample,
    ready_ms: Sample,
    ready_builtin_ms: Sample,
    resident_mb: Sample,
    resident_builtin_mb: Sample,
    first_page_ms: Sample,
    last_page_ms: Sample,
    issued_rate: Sample,
    renewed_rate: Sample,
}

impl Stored {
    /// Fills a database.
    pub(in crate::figures) async fn seed(
        ground: &Ground,
        network: &Network,
        backend: Backend,
        size: u32,
    ) -> Result<Self> {
        let begun = Instant::now();
        let site = Site::start(&ground.holdfast, network, backend, EdgeMode::Builtin).await?;
        let template = site.fresh_name();
        site.replica.api().add(&template).await?;
        site.replica.api().active(&template, PATIENCE).await?;
        site.replica.stop().await?;
        let Site { database, target, suffix, .. } = site;
        let url = database.url();
        let seeding = Seeding { url: &url, template: &template, suffix: &suffix, size };
        seed::domains(&seeding).await?;
        let took = begun.elapsed().as_secs_f64();
        ground.say(format!("{} with {size} domains, made in {took:.1} s", backend.title()));
        let samples = Samples::default();
        let (works, last_cursor) = (0, None);
        Ok(Self { backend, size, database, target, suffix, works, last_cursor, samples })
    }

    /// Everything once.
    pub(super) async fn run(&mut self, ground: &Ground, network: &Network) -> Result<()> {
        let round = self.idle_round(&network.directory()).await?;
        self.samples.round_ms.push(round);
        let replica = self.start(ground, network, EdgeMode::Builtin).await?;
        self.samples.ready_builtin_ms.push(millis(replica.start_to_ready()));
        sleep(SETTLED).await;
        self.samples.resident_builtin_mb.push(megabytes(&replica)?);
        self.work(replica.api()).await?;
        replica.stop().await?;
        let replica = self.start(ground, network, EdgeMode::None).await?;
        self.samples.ready_ms.push(millis(replica.start_to_ready()));
        sleep(SETTLED).await;
        self.pages(replica.api()).await?;
        self.samples.resident_mb.push(megabytes(&replica)?);
        replica.stop().await
    }

    /// Its URL.
    pub(in crate::figures) fn url(&self) -> String {
        self.database.url()
    }

    /// Starts a replica over it.
    pub(in crate::figures) async fn start(
        &self,
        ground: &Ground,
        network: &Network,
        edge: EdgeMode,
    ) -> Result<Replica> {
        let address = self.backend.address(edge);
        let plan = Plan::new(address, &self.database.url(), &self.target, edge)?;
        Replica::start(&ground.holdfast, network, &plan).await
    }

    /// What a worker's round costs when nothing is due: milliseconds.
    async fn idle_round(&self, directory: &str) -> Result<f64> {
        let store = seed::open(&self.database.url()).await?;
        let account = account(&store, directory).await?;
        let who = Claimant { instance: "bench".into(), incarnation: uuid::Uuid::new_v4() };
        let mut sample = Sample::default();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let due = store.claim(&who, 64, HOLD).await?;
            let queued = store.admit(&who, account, LIMITS, 64, HOLD).await?;
            sample.push(millis(begun.elapsed()));
            ensure!(due.work.is_empty() && queued.work.is_empty(), "something was due");
        }
        Ok(sample.median())
    }

    async fn pages(&mut self, api: &Api) -> Result<()> {
        let last = match &self.last_cursor {
            Some(cursor) => cursor.clone(),
            None => self.find_last_page(api).await?,
        };
        self.last_cursor = Some(last.clone());
        let first = read(api, "/v1/domains").await?;
        self.samples.first_page_ms.push(first);
        let last = read(api, &format!("/v1/domains?cursor={last}")).await?;
        self.samples.last_page_ms.push(last);
        Ok(())
    }

    /// Walks the whole list, once.
    async fn find_last_page(&self, api: &Api) -> Result<String> {
        let (mut cursor, mut seen) = (None::<String>, 0);
        loop {
            let query = cursor.as_ref().map(|cursor| format!("?cursor={cursor}"));
            let page = api.web().get(&format!("/v1/domains{}", query.unwrap_or_default())).await?;
            seen += page.get("items").and_then(Value::as_array).map_or(0, Vec::len);
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = Some(next.to_owned()),
                None => {
                    ensure!(seen >= usize::try_from(self.size)?, "only {seen} domains are listed");
                    return cursor.context("one page holds all of them");
                }
            }
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let samples = &self.samples;
        vec![
            format!("{}, {}", thousands(self.size), self.backend.title()),
            samples.round_ms.shown(2),
            samples.ready_ms.shown(0),
            samples.ready_builtin_ms.shown(0),
            samples.resident_mb.shown(0),
            samples.resident_builtin_mb.shown(0),
            samples.first_page_ms.shown(1),
            samples.last_page_ms.shown(1),
            samples.issued_rate.shown(1),
            samples.renewed_rate.shown(1),
        ]
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&[""; 10]);
        table.row(self.row());
        f.write_str(table.markdown().lines().last().unwrap_or_default())
    }
}

async fn account(store: &SharedStore, directory: &str) -> Result<AccountId> {
    let key = Secret::new(vec![0; 32]);
    let new = NewAccount { directory: format!("{directory}#bench"), key, email: None };
    Ok(store.journal_account(&new).await?.id)
}

async fn read(api: &Api, path: &str) -> Result<f64> {
    let mut sample = Sample::default();
    for _ in 0..READS {
        let begun = Instant::now();
        api.web().get(path).await?;
        sample.push(millis(begun.elapsed()));
    }
    Ok(sample.median())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn megabytes(replica: &Replica) -> Result<f64> {
    Ok(process::peak_resident(replica.pid())? as f64 / 1e6)
}

fn thousands(number: u32) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}
