//! The edge: certificates per second through the agent into HAProxy, beside a bare loop of the same commands; how long until
//! one is seen; what twenty thousand cost.

mod bare;
mod certificate;
mod idle;
mod listing;
mod plane;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_testkit::{Haproxy, Process};
use tokio::time::Instant;

use self::bare::Bare;
use self::certificate::Certificate;
use self::idle::Idle;
use self::plane::Plane;
use super::Ground;
use crate::process;
use crate::sample::Sample;
use crate::table::Table;

/// How many are added, and then renewed, in one run.
const COUNT: usize = 2_000;

/// How many are loaded meanwhile.
const LOADED: [usize; 2] = [0, 15_000];

/// How many a reconciliation finds unchanged.
const UNCHANGED: usize = 20_000;

/// How many single changes are timed.
const SINGLE: usize = 100;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(300);

/// A HAProxy with its agent and a control plane in memory.
struct Edge {
    haproxy: Haproxy,
    plane: Plane,
    agent: Process,
    /// From the agent's start until it had compared everything.
    compared: Duration,
}

impl Edge {
    async fn start(ground: &Ground, loaded: usize) -> Result<Self> {
        let mut haproxy = Haproxy::prepare()?;
        let present = (0..loaded).map(|n| Certificate::new(&format!("l{n}.test")));
        let present = present.collect::<Result<Vec<_>>>()?;
        certificate::lay_out(&haproxy, &present)?;
        haproxy.start().await?;
        let plane = Plane::start(&present).await?;
        haproxy.scratch().write("token", plane::TOKEN)?;
        let config = format!(
            "[agent]\nname = \"edge\"\nserver = \"{}\"\ntoken_file = \"token\"\ndata = \"data\"\n\
             [haproxy]\nsocket = \"{}\"\ndirectory = \"certs\"\ncrt_list = \"crt-list\"\nprobe = \"{}\"\n",
            plane.url(),
            haproxy.socket().display(),
            haproxy.https(),
        );
        let config = haproxy.scratch().write("agent.toml", config)?;
        let mut command = Command::new(&ground.holdfast);
        command.arg("agent").arg("--config").arg(config);
        let begun = Instant::now();
        let agent = Process::spawn("agent", &command)?;
        agent.wait_for_line(PATIENCE, |line| line.contains("the edge was compared")).await?;
        Ok(Self { haproxy, plane, agent, compared: begun.elapsed() })
    }

    /// Deploys these, and waits until all were seen; how many per second.
    async fn rate(&self, certificates: &[Certificate], cost: &mut Sample) -> Result<f64> {
        let (begun, cpu) = (Instant::now(), process::cpu(self.agent.pid())?);
        self.plane.deploy(certificates);
        self.plane.until_seen(certificates, PATIENCE).await?;
        let (count, spent) = (certificates.len() as f64, process::cpu(self.agent.pid())? - cpu);
        cost.push(spent.as_secs_f64() * 1_000.0 / count);
        Ok(count / begun.elapsed().as_secs_f64())
    }
}

#[derive(Default)]
struct Rates {
    new: Sample,
    new_bare: Sample,
    renewed: Sample,
    renewed_bare: Sample,
    /// The agent's processor time per certificate, in milliseconds.
    new_cost: Sample,
    renewed_cost: Sample,
}

fn names(prefix: &str) -> Result<Vec<Certificate>> {
    (0..COUNT).map(|n| Certificate::new(&format!("{prefix}n{n}.test"))).collect()
}

async fn rates(ground: &Ground, loaded: usize) -> Result<Rates> {
    let edge = Edge::start(ground, loaded).await?;
    let mut rates = Rates::default();
    for run in 0..ground.runs {
        let bare_names = names(&format!("b{run}"))?;
        // HAProxy hangs up on who says nothing for ten seconds.
        rates.new_bare.push(Bare::connect(&edge.haproxy).await?.add(&bare_names).await?);
        let ours = format!("a{run}");
        rates.new.push(edge.rate(&names(&ours)?, &mut rates.new_cost).await?);
        let mut bare = Bare::connect(&edge.haproxy).await?;
        rates.renewed_bare.push(bare.renew(&bare_names).await?);
        rates.renewed.push(edge.rate(&names(&ours)?, &mut rates.renewed_cost).await?);
        ground.say(format!(
            "{loaded} loaded, run {}: new {:.0} of {:.0}/s, renewed {:.0} of {:.0}/s; {:.2} and {:.2} ms of the agent's processor time each",
            run + 1,
            rates.new.median(),
            rates.new_bare.median(),
            rates.renewed.median(),
            rates.renewed_bare.median(),
            rates.new_cost.median(),
            rates.renewed_cost.median()
        ));
    }
    Ok(rates)
}

/// From the deployment of one certificate to the report that it was seen, in milliseconds.
async fn latency(ground: &Ground) -> Result<Sample> {
    let edge = Edge::start(ground, 0).await?;
    let mut sample = Sample::default();
    for n in 0..SINGLE {
        let one = [Certificate::new(&format!("s{n}.test"))?];
        let begun = Instant::now();
        edge.plane.deploy(&one);
        edge.plane.until_seen(&one, PATIENCE).await?;
        sample.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(sample)
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let mut table = Table::new(&[
        "certificates per second",
        "agent",
        "bare loop",
        "of it",
        "agent's processor time per certificate, ms",
    ]);
    for loaded in LOADED {
        let rates = rates(ground, loaded).await?;
        for (what, ours, bare, cost) in [
            ("new", &rates.new, &rates.new_bare, &rates.new_cost),
            ("renewed", &rates.renewed, &rates.renewed_bare, &rates.renewed_cost),
        ] {
            let share = format!("{:.0} %", 100.0 * ours.median() / bare.median());
            let what = format!("{what}, {loaded} loaded");
            table.row([what, ours.shown(0), bare.shown(0), share, cost.shown(2)]);
        }
    }
    let latency = latency(ground).await?;
    let full = Edge::start(ground, UNCHANGED).await?;
    let resident = process::resident(full.agent.pid()).context("the agent's memory")?;
    let peak = process::peak_resident(full.agent.pid())?;
    let idle = Idle::watch(&full).await?;
    let listing = listing::measure(ground).await?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    Ok(format!(
        "{COUNT} certificates at a time; each is written to disk durably, loaded, listed, looked at by a handshake and reported. The bare \
         loop sends HAProxy the same commands in the same way and does nothing else. Median (lowest–highest) of {} interleaved runs.\n\n{}\n\
         One certificate, from its deployment to the report of the handshake: p50 {:.0} ms, p95 {:.0} ms. {UNCHANGED} unchanged \
         certificates on disk, in HAProxy and in the listing are compared {:.1} s after the agent's start; it then has {:.0} MB resident \
         ({:.0} MB at the peak). {}\n\n{listing}",
        ground.runs,
        table.markdown(),
        latency.quantile(0.5),
        latency.quantile(0.95),
        full.compared.as_secs_f64(),
        megabytes(resident),
        megabytes(peak),
        idle.shown(),
    ))
}
