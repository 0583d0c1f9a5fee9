//! One certificate through everything that is real: committed by a replica over its database, fetched by an agent, put into HAProxy, and
//! seen there by a client that knows of none of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holdfast_agent::Prober;
use holdfast_model::Hostname;
use holdfast_testkit::{Haproxy, Process};
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::Ground;
use super::super::site::{Backend, Site};
use super::certificate::{self, Certificate};
use crate::network::Network;
use crate::replica::EdgeMode;
use crate::sample::Sample;
use crate::table::Table;

/// How many are committed, one after the other.
const COMMITTED: usize = 50;

/// The first ones make the connections.
const WARMING: usize = 2;

/// Between two: whatever the last one left to do is done.
const CALM: Duration = Duration::from_millis(150);

/// Between two handshakes of the client: it is not to take the processors from what it waits for.
const BREATH: Duration = Duration::from_millis(1);

const PATIENCE: Duration = Duration::from_secs(30);

/// A control plane, an agent and its HAProxy.
struct Whole {
    // The agent ends before whom it asks.
    _agent: Process,
    haproxy: Haproxy,
    site: Site,
    client: Prober,
}

impl Whole {
    async fn start(ground: &Ground, network: &Network, backend: Backend) -> Result<Self> {
        let site = Site::start(&ground.holdfast, network, backend, EdgeMode::Agents).await?;
        let mut haproxy = Haproxy::prepare()?.with_thread_for_commands();
        certificate::lay_out(&haproxy, &[])?;
        haproxy.start().await?;
        let web = site.replica.api().web();
        let wanted = json!({ "scope": "edge", "edge": "edge" });
        let made = web.ask(Method::POST, "/v1/tokens", Some(&wanted)).await?;
        let token = made.get("token").and_then(Value::as_str).context("no token")?;
        let agent = super::agent(ground, &haproxy, web.base(), token).await?;
        Ok(Self { _agent: agent, haproxy, site, client: Prober::new(PATIENCE)? })
    }

    /// Commits a certificate, and waits until it was seen.
    async fn one(&self) -> Result<Took> {
        let name = self.site.fresh_name();
        let (one, host) = (Certificate::new(&name)?, Hostname::parse(&name)?);
        let certificate = json!({ "chain": one.chain, "key": one.key });
        let body = json!({ "name": name, "certificate": certificate });
        let api = self.site.replica.api();
        sleep(CALM).await;
        let asked = Instant::now();
        api.web().ask(Method::POST, "/v1/domains", Some(&body)).await?;
        let committed = Instant::now();
        let mut looks = 1_u32;
        while self.client.look(self.haproxy.https(), &host).await?.as_ref() != Some(&one.sha256) {
            ensure!(committed.elapsed() < PATIENCE, "{name} was not seen in {PATIENCE:?}");
            sleep(BREATH).await;
            looks += 1;
        }
        let (request, seen) = (asked.elapsed(), committed.elapsed());
        api.active(&name, PATIENCE).await?;
        Ok(Took { request, seen, active: committed.elapsed(), look: seen / looks })
    }
}

/// How long one certificate took.
struct Took {
    /// From the request that brings it to the handshake.
    request: Duration,
    /// From the answer to that request to the handshake.
    seen: Duration,
    /// From that answer until the API says that it is Active.
    active: Duration,
    /// From one look of the client to the next.
    look: Duration,
}

/// What many took, in milliseconds.
#[derive(Default)]
struct Figures {
    request: Sample,
    seen: Sample,
    active: Sample,
    look: Sample,
}

impl Figures {
    fn push(&mut self, took: &Took) {
        let milliseconds = |took: Duration| took.as_secs_f64() * 1_000.0;
        self.request.push(milliseconds(took.request));
        self.seen.push(milliseconds(took.seen));
        self.active.push(milliseconds(took.active));
        self.look.push(milliseconds(took.look));
    }

    fn row(&self, backend: Backend) -> [String; 7] {
        [
            format!("`holdfast server`, {}", backend.title()),
            format!("**{:.0}**", self.seen.median()),
            format!("{:.0}", self.seen.quantile(0.95)),
            format!("{:.0}", self.seen.most()),
            format!("{:.0}", self.request.median()),
            format!("{:.0}", self.active.median()),
            format!("{:.1}", self.look.median()),
        ]
    }
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let mut table = Table::new(&[
        "one certificate, ms",
        "to the handshake, p50",
        "p95",
        "slowest",
        "from the request, p50",
        "to Active, p50",
        "between two looks",
    ]);
    for backend in Backend::BOTH {
        let whole = Whole::start(ground, &network, backend).await?;
        let mut figures = Figures::default();
        for number in 0..WARMING + COMMITTED {
            let took = whole.one().await?;
            if number >= WARMING {
                figures.push(&took);
            }
        }
        let row = figures.row(backend);
        ground.say(format!("committed: {}", row.join(", ")));
        table.row(row);
    }
    Ok(format!(
        "One certificate through everything that is real, on this one machine: a replica over its database, whose commits reach the disk, an \
         agent, HAProxy. {COMMITTED} new names, one after the other, each with the certificate that its request brings. The answer to that \
         request says that it is committed; from there it is counted, also what the replica then does to deploy it, until a client of HAProxy that \
         makes one handshake after the other gets that certificate. It is as exact as these looks are frequent. Goal: p50 at most 100 ms on \
         PostgreSQL.\n\n{}",
        table.markdown()
    ))
}
