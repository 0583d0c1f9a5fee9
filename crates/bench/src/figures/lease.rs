//! Leases: what each operation costs beside the bare one, and how fast a lease passes from one process to the next.

mod batch;
mod belief;
mod clients;
mod crash;
mod handoff;
mod idle;
mod operation;
mod pgbench;
mod redis;
mod statement;

use anyhow::Result;
use holdfast_lease::store::Store;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_testkit::{Durability, Postgres};
use std::time::Duration;

use super::{Ground, Part};
use crate::sample::Sample;

/// A time limit that nothing measured comes near.
const LIMIT: Duration = Duration::from_secs(10);

/// In front of the keys in Redis.
const PREFIX: &str = "holdfast:leader:";

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let mut text = format!(
        "Median (lowest–highest) of {} runs; of each run its own median. Everything on one machine; PostgreSQL with `fsync` and \
         `synchronous_commit` on, Redis without persistence.\n\n",
        ground.runs
    );
    let handoff = match ground.wants(Part::Handoff) {
        true => Some(handoff::measure(ground).await?),
        false => None,
    };
    // Both wait more than they work.
    let (crash, idle) = tokio::try_join!(crashes(ground), idles(ground))?;
    if ground.wants(Part::Operations) {
        text += &operation::measure(ground).await?;
    }
    if ground.wants(Part::Batch) {
        text += &batch::measure(ground).await?;
    }
    if ground.wants(Part::Asking) {
        text += &belief::measure(ground).await?;
    }
    text.extend(handoff.as_ref().map(handoff::shown));
    text.extend(crash.map(|samples| crash::shown(&samples, handoff.as_ref())));
    text.extend(idle);
    Ok(text)
}

async fn crashes(ground: &Ground) -> Result<Option<crash::Samples>> {
    Ok(match ground.wants(Part::Crash) {
        true => Some(crash::measure(ground).await?),
        false => None,
    })
}

async fn idles(ground: &Ground) -> Result<Option<String>> {
    Ok(match ground.wants(Part::Idle) {
        true => Some(idle::measure(ground).await?),
        false => None,
    })
}

/// A PostgreSQL as in production, with an empty table of leases: the server, and the URL of the database.
async fn postgres() -> Result<(Postgres, String)> {
    let server = Postgres::start(Durability::Durable).await?;
    let url = server.database().await?;
    PostgresStore::new(&url, LIMIT)?.apply_schema().await?;
    Ok((server, url))
}

/// A store by its URL, with a connection of its own.
fn store(url: &str) -> Result<Box<dyn Store>> {
    Ok(if url.starts_with("redis") {
        Box::new(RedisStore::new(RedisAddress::new(url), PREFIX, LIMIT)?)
    } else {
        Box::new(PostgresStore::new(url, LIMIT)?)
    })
}

/// Microseconds of a span.
fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// Milliseconds of a span.
fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// What a ratio is, in bold, or that it is above what it may be.
fn ratio(sample: &Sample) -> String {
    format!("**{}**", sample.shown(2))
}
