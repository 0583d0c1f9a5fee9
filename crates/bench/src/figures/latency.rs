//! One idle domain, from the request to Active: what somebody who tries it out, or adds a customer, waits for.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::Ground;
use super::site::{Backend, Site};
use super::up::Up;
use crate::api::Api;
use crate::network::Network;
use crate::replica::EdgeMode;
use crate::sample::Sample;
use crate::table::Table;

/// Domains per way, one after the other.
const DOMAINS: usize = 40;

/// Between two: whatever the last one left to do is done.
const CALM: Duration = Duration::from_millis(150);

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let up = Up::start(&ground.holdfast).await?;
    let network = Network::start(&ground.holdfast).await?;
    let mut sites = Vec::new();
    for edge in [EdgeMode::Builtin, EdgeMode::None] {
        for backend in Backend::BOTH {
            let site = Site::start(&ground.holdfast, &network, backend, edge).await?;
            sites.push((title(backend, edge), site, Sample::default()));
        }
    }
    let mut of_up = Sample::default();
    for number in 0..DOMAINS {
        // The first ones make the account, the connections and the keys.
        let warm = number > 1;
        let took = one(up.api(), &format!("single{number}.test")).await?;
        of_up = kept(of_up, took, warm);
        for (_, site, sample) in &mut sites {
            let took = one(site.replica.api(), &site.fresh_name()).await?;
            *sample = kept(std::mem::take(sample), took, warm);
        }
        if number % 10 == 9 {
            ground.say(format!("{} of {DOMAINS}, `up` so far {of_up} ms", number + 1));
        }
    }
    let mut table = Table::new(&["", "p50, ms", "p95, ms", "lowest–highest, ms"]);
    row(&mut table, "`holdfast up` (SQLite, built-in edge, CA in the same process)", &of_up);
    for (title, _, sample) in &sites {
        row(&mut table, title, sample);
    }
    Ok(format!(
        "One domain at a time on an idle machine, from the request to Active, over {} domains each, interleaved: DNS check, \
         order, HTTP-01, download, deployment and, with an edge, the handshake that proves it. Goal: p50 under 1,000 ms.\n\n{}",
        of_up.len(),
        table.markdown()
    ))
}

fn title(backend: Backend, edge: EdgeMode) -> String {
    let edge = match edge {
        EdgeMode::None => "no edge",
        EdgeMode::Builtin => "built-in edge",
        EdgeMode::Agents => "agents",
    };
    format!("`holdfast server`, {}, {edge}", backend.title())
}

fn kept(mut sample: Sample, took: Duration, warm: bool) -> Sample {
    if warm {
        sample.push(took.as_secs_f64() * 1000.0);
    }
    sample
}

async fn one(api: &Api, name: &str) -> Result<Duration> {
    sleep(CALM).await;
    let begun = Instant::now();
    api.add(name).await?;
    api.active(name, PATIENCE).await?;
    Ok(begun.elapsed())
}

fn row(table: &mut Table, title: &str, sample: &Sample) {
    table.row([
        title.to_owned(),
        format!("**{:.0}**", sample.median()),
        format!("{:.0}", sample.quantile(0.95)),
        format!("{:.0}–{:.0}", sample.least(), sample.most()),
    ]);
}
