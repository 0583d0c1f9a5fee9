//! Acquire, renew and release, through the store and bare: on PostgreSQL by pgbench, on Redis by the same client library.

use anyhow::{Context as _, Result, bail};
use holdfast_lease::request::{Acquire, Acquired, Release, Renew, Renewal, Renewed};
use holdfast_lease::row::StoreTime;
use holdfast_lease::{Holder, Incarnation, Name, Priority, Store, Term};
use holdfast_testkit::Redis;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

use super::clients::{by_turns, work};
use super::{micros, pgbench, postgres, ratio, redis, statement, store};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

/// Operations per client and turn; a run has two turns of each kind.
pub(super) const TIMES: usize = 500;

/// Whose all leases are.
pub(super) const OWNER: Uuid = Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001);

pub(super) const TTL: Duration = Duration::from_secs(30);

/// A time that never comes.
pub(super) const NEVER: StoreTime = StoreTime::from_micros(i64::MAX);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Acquire,
    Renew,
    /// Alone it can be done only once.
    AcquireAndRelease,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Acquire, Self::Renew, Self::AcquireAndRelease];

    const fn title(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::AcquireAndRelease => "acquire, then release",
        }
    }
}

/// The lease of one client.
pub(super) fn lease(client: usize) -> Result<Name> {
    Ok(Name::new(client.to_string())?)
}

#[derive(Default)]
struct Samples {
    ours: Sample,
    bare: Sample,
    ratio: Sample,
}

impl Samples {
    fn push(&mut self, ours: f64, bare: f64) {
        self.ours.push(ours);
        self.bare.push(bare);
        self.ratio.push(ours / bare);
    }
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let (_server, url) = postgres().await?;
    let texts = statement::texts().await?;
    let redis = Redis::start().await?;
    let mut table = Table::new(&["p50, µs", "through the store", "bare", "ratio", "limit"]);
    let kinds: Vec<(Operation, usize)> =
        Operation::ALL.into_iter().flat_map(|operation| [(operation, 1), (operation, 4)]).collect();
    let mut samples: Vec<[Samples; 2]> = kinds.iter().map(|_| Default::default()).collect();
    for run in 0..ground.runs {
        for ((operation, clients), [on_postgres, on_redis]) in kinds.iter().zip(&mut samples) {
            let (operation, clients) = (*operation, *clients);
            let (ours, bare) = by_turns(
                async || many(&url, operation, clients).await,
                async || pgbench::run(&url, &texts, operation, clients).await,
            )
            .await?;
            on_postgres.push(ours, bare);
            let (ours_redis, bare_redis) = by_turns(
                async || many(&redis.url(), operation, clients).await,
                async || redis::bare(&redis.url(), operation, clients).await,
            )
            .await?;
            on_redis.push(ours_redis, bare_redis);
            ground.say(format!(
                "run {}: {}, {clients} clients: PostgreSQL {ours:.0} µs, bare {bare:.0}; Redis {ours_redis:.0} µs, bare {bare_redis:.0}",
                run + 1,
                operation.title()
            ));
        }
    }
    for (place, where_) in ["PostgreSQL", "Redis"].into_iter().enumerate() {
        for ((operation, clients), samples) in kinds.iter().zip(&samples) {
            let Some(Samples { ours, bare, ratio: of }) = samples.get(place) else { continue };
            let plural = if *clients == 1 { "1 client" } else { "4 clients" };
            table.row([
                format!("{where_}, {}, {plural}", operation.title()),
                ours.shown(0),
                bare.shown(0),
                ratio(of),
                "1.30".to_owned(),
            ]);
        }
    }
    Ok(format!(
        "**Operations**, {} per client and run, by turns. Bare is, on PostgreSQL, the same statement prepared by `pgbench`, with as \
         many threads; on Redis the same `EVALSHA` through the same client library.\n\n{}\n",
        2 * TIMES,
        table.markdown()
    ))
}

/// As many clients at once, each with a connection and a lease of its own.
async fn many(url: &str, operation: Operation, clients: usize) -> Result<Vec<f64>> {
    let url = url.to_owned();
    work(clients, move |client| {
        let url = url.clone();
        async move { drive(store(&url)?, operation, &lease(client)?).await }
    })
    .await
}

async fn drive(mut store: Box<dyn Store>, operation: Operation, lease: &Name) -> Result<Vec<f64>> {
    let mut term = acquire(&mut *store, lease, Term::NONE).await?;
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        match operation {
            Operation::Acquire => term = acquire(&mut *store, lease, term).await?,
            Operation::Renew => renew(&mut *store, std::slice::from_ref(lease), term).await?,
            Operation::AcquireAndRelease => {
                term = acquire(&mut *store, lease, term).await?;
                release(&mut *store, lease, term).await?;
            }
        }
        took.push(micros(begun.elapsed()));
    }
    Ok(took)
}

/// Acquires a lease in a new term above this one.
pub(super) async fn acquire(store: &mut dyn Store, lease: &Name, above: Term) -> Result<Term> {
    let request = Acquire {
        name: lease.clone(),
        holder: Holder::new("bench")?,
        incarnation: Incarnation::from_uuid(OWNER),
        priority: Priority(0),
        ttl: TTL,
        above,
        unchanged: None,
        beacon: false,
        not_after: NEVER,
    };
    match store.acquire(&request).await.context("acquiring")?.answer {
        Acquired::Granted(row) => Ok(row.term),
        other => bail!("not granted: {other:?}"),
    }
}

/// Renews leases that are all held in the same term.
pub(super) async fn renew(store: &mut dyn Store, leases: &[Name], term: Term) -> Result<()> {
    let renewal = |name: &Name| Renewal { name: name.clone(), term, ttl: TTL };
    let leases = leases.iter().map(renewal).collect();
    let incarnation = Incarnation::from_uuid(OWNER);
    let request = Renew { incarnation, leases, beat: 0, not_after: NEVER };
    let answers = store.renew(&request).await.context("renewing")?.answer;
    match answers.iter().find(|answer| !matches!(answer, Renewed::Kept { .. })) {
        Some(lost) => bail!("not kept: {lost:?}"),
        None => Ok(()),
    }
}

pub(super) async fn release(store: &mut dyn Store, lease: &Name, term: Term) -> Result<()> {
    let (name, incarnation) = (lease.clone(), Incarnation::from_uuid(OWNER));
    let request = Release { name, incarnation, term, successor: None, not_after: NEVER };
    match store.release(&request).await.context("releasing")?.answer {
        true => Ok(()),
        false => bail!("not released"),
    }
}
