//! How long until another goes on: with singleton work, and with domains that were claimed; after an end in order and after `kill -9`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::time::{Instant, sleep};

use super::fleet::Fleet;
use crate::figures::Ground;
use crate::network::Network;
use crate::replica::Replica;
use crate::sample::Sample;
use crate::table::Table;

/// Short, so that many runs fit: what is told is the time beyond it.
const LEASE_SECONDS: u32 = 6;
const SETTINGS: &str = "[coordination]\nlease_duration_seconds = 6\nrenewal_interval_seconds = 2\n";

/// The lease that is looked at: that of a singleton task.
const LEASE: &str = "renewal-sweep";

/// The first answers the CA and is asked what is going on; the others work, and are lost in turn.
const ROLES: [&str; 3] = ["api", "worker", "worker"];
const RUNS: usize = 20;
const IN_FLIGHT: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum End {
    InOrder,
    Killed,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let mut fleet =
        Fleet::start(ground, &network, Fleet::postgres().await?, &ROLES, LEASE_SECONDS, SETTINGS)
            .await?;
    fleet.provision(IN_FLIGHT).await?;
    // Each step takes long enough that most domains are in somebody's hands at any moment.
    network.fault("slow-request", "500").await?;
    let mut table = Table::new(&[
        "",
        "singleton work: p50, ms",
        "p99, ms",
        "claimed domains: p50, ms",
        "p99, ms",
    ]);
    for (title, end) in [("asked to end", End::InOrder), ("`kill -9`", End::Killed)] {
        let (mut lease, mut claims) = (Sample::default(), Sample::default());
        for number in 0..RUNS {
            let (of_lease, of_claims) = lose_one(&mut fleet, end).await?;
            lease.push(of_lease.as_secs_f64() * 1000.0);
            claims.push(of_claims.as_secs_f64() * 1000.0);
            ground.say(format!("{title} {}: lease {of_lease:?}, claims {of_claims:?}", number + 1));
        }
        let shown = |sample: &Sample, share| format!("{:.0}", sample.quantile(share));
        table.row([
            title.to_owned(),
            shown(&lease, 0.5),
            shown(&lease, 0.99),
            shown(&claims, 0.5),
            shown(&claims, 0.99),
        ]);
    }
    Ok(format!(
        "**Failover**, {RUNS} times each, two workers, leases and claims of {LEASE_SECONDS} s (the product's defaults are 30 s: a killed holder is followed that much later). \
         From the signal to the next holder of `{LEASE}`, and until none of the {IN_FLIGHT} domains under way is in the hands of the lost replica.\n\n{}",
        table.markdown()
    ))
}

/// Ends the holder while it works; how long until the other has the lease, and until it has taken over its domains.
async fn lose_one(fleet: &mut Fleet, end: End) -> Result<(Duration, Duration)> {
    let (prefix, names) = fleet.fresh_names(IN_FLIGHT);
    let watcher = fleet.first()?;
    let holder = holder(watcher).await?.context("nobody has the lease")?;
    let at = fleet.replicas.iter().position(|replica| replica.instance() == holder);
    let at = at.context("the holder is a replica")?;
    watcher.api().add_many(&names).await?;
    let mut connection = PgConnection::connect(&fleet.database.url()).await?;
    wait(async || Ok(held(&mut connection, &holder).await? >= 5)).await?;
    let lost = fleet.replicas.get(at).context("it is there")?;
    let begun = Instant::now();
    let ending = async {
        match end {
            End::Killed => lost.kill().await,
            End::InOrder => lost.stop().await,
        }
    };
    let of_lease = async {
        wait(async || Ok(self::holder(watcher).await?.is_some_and(|now| now != holder))).await?;
        anyhow::Ok(begun.elapsed())
    };
    let of_claims = async {
        wait(async || Ok(held(&mut connection, &holder).await? == 0)).await?;
        anyhow::Ok(begun.elapsed())
    };
    let ((), of_lease, of_claims) = tokio::try_join!(ending, of_lease, of_claims)?;
    wait(async || {
        let all = watcher.api().list(&prefix).await?;
        Ok(all.iter().all(|domain| crate::api::state(domain) == "Active"))
    })
    .await?;
    fleet.replicas.get_mut(at).context("it is there")?.start_again().await?;
    Ok((of_lease, of_claims))
}

async fn holder(replica: &Replica) -> Result<Option<String>> {
    let leases = replica.api().web().get("/v1/leases").await?;
    let items = leases.get("items").and_then(Value::as_array).context("leases are a list")?;
    let lease = items.iter().find(|lease| lease.get("name").and_then(Value::as_str) == Some(LEASE));
    Ok(lease.and_then(|lease| lease.get("holder")?.as_str()).map(str::to_owned))
}

async fn held(connection: &mut PgConnection, holder: &str) -> Result<i64> {
    ensure!(holder.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)));
    let asked = format!("SELECT count(*) FROM domain WHERE claimed_by = '{holder}'");
    Ok(connection.fetch_one(sqlx::AssertSqlSafe(asked)).await?.try_get(0)?)
}

async fn wait(mut met: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !met().await? {
        ensure!(Instant::now() < deadline, "it did not come about in {PATIENCE:?}");
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
