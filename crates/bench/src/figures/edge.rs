//! The edge: certificates per second through the agent into HAProxy, beside a bare loop of the same commands; how long until
//! one is seen, also from a real control plane; what twenty thousand cost.

mod bare;
mod certificate;
mod committed;
mod idle;
mod listing;
mod plane;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_testkit::{Haproxy, Process};
use tokio::time::Instant;

use self::bare::{Bare, Manner};
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
        let mut haproxy = Haproxy::prepare()?.with_thread_for_commands();
        let present = (0..loaded).map(|n| Certificate::new(&format!("l{n}.test")));
        let present = present.collect::<Result<Vec<_>>>()?;
        certificate::lay_out(&haproxy, &present)?;
        haproxy.start().await?;
        let plane = Plane::start(&present).await?;
        let begun = Instant::now();
        let agent = agent(ground, &haproxy, &plane.url(), plane::TOKEN).await?;
        Ok(Self { haproxy, plane, agent, compared: begun.elapsed() })
    }

    /// Ends it. Its files stay until what is given back is dropped.
    async fn end(mut self) -> Result<Haproxy> {
        self.agent.kill().await?;
        self.haproxy.kill().await?;
        Ok(self.haproxy)
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

/// The agent beside a HAProxy, once it has compared everything.
async fn agent(ground: &Ground, haproxy: &Haproxy, server: &str, token: &str) -> Result<Process> {
    haproxy.scratch().write("token", token)?;
    let config = format!(
        "[agent]\nname = \"edge\"\nserver = \"{server}\"\ntoken_file = \"token\"\ndata = \"data\"\n\
         [haproxy]\nsocket = \"{}\"\ndirectory = \"certs\"\ncrt_list = \"crt-list\"\nprobe = \"{}\"\n",
        haproxy.socket().display(),
        haproxy.https(),
    );
    let config = haproxy.scratch().write("agent.toml", config)?;
    // As its systemd unit does.
    let mut command = Command::new("chrt");
    command.args(["--batch", "0"]).arg(&ground.holdfast).arg("agent").arg("--config").arg(config);
    let agent = Process::spawn("agent", &command)?;
    agent.wait_for_line(PATIENCE, |line| line.contains("the edge was compared")).await?;
    Ok(agent)
}

/// Certificates per second; new, or renewed.
#[derive(Default)]
struct Rates {
    ours: Sample,
    /// The bare loop that waits for each answer.
    waiting: Sample,
    /// The bare loop that sends ahead as the agent does.
    ahead: Sample,
    /// How much of either the agent reached, run by run: the machine is not the same from minute to minute.
    of_waiting: Sample,
    of_ahead: Sample,
    /// The agent's processor time per certificate, in milliseconds.
    cost: Sample,
}

impl Rates {
    /// One round with these names: as the agent's, and as those of two bare loops.
    async fn round(&mut self, edge: &Edge, run: usize, is_new: bool) -> Result<()> {
        let [mut waiting, mut ahead] = [0.0; 2];
        for (prefix, manner) in [("w", Manner::Waiting), ("s", Manner::Ahead)] {
            let certificates = names(&format!("{prefix}{run}"))?;
            // HAProxy hangs up on who says nothing for ten seconds.
            let mut bare = Bare::connect(&edge.haproxy)?;
            let put = move || bare.put(&certificates, is_new, manner);
            let rate = tokio::task::spawn_blocking(put).await??;
            match manner {
                Manner::Waiting => waiting = rate,
                Manner::Ahead => ahead = rate,
            }
        }
        let ours = edge.rate(&names(&format!("a{run}"))?, &mut self.cost).await?;
        self.ours.push(ours);
        self.waiting.push(waiting);
        self.ahead.push(ahead);
        self.of_waiting.push(100.0 * ours / waiting);
        self.of_ahead.push(100.0 * ours / ahead);
        Ok(())
    }

    fn shown(&self) -> String {
        let [ours, waiting, ahead] = [&self.ours, &self.waiting, &self.ahead].map(Sample::median);
        format!("{ours:.0} of {waiting:.0} and {ahead:.0}/s, {:.2} ms", self.cost.median())
    }

    fn row(&self, what: String) -> [String; 7] {
        [
            what,
            self.ours.shown(0),
            self.waiting.shown(0),
            self.of_waiting.shown(0),
            self.ahead.shown(0),
            self.of_ahead.shown(0),
            self.cost.shown(2),
        ]
    }
}

fn names(prefix: &str) -> Result<Vec<Certificate>> {
    (0..COUNT).map(|n| Certificate::new(&format!("{prefix}n{n}.test"))).collect()
}

/// New, and renewed.
async fn rates(ground: &Ground, edge: &Edge, loaded: usize) -> Result<[Rates; 2]> {
    let [mut new, mut renewed] = <[Rates; 2]>::default();
    for run in 0..ground.runs {
        new.round(edge, run, true).await?;
        renewed.round(edge, run, false).await?;
        let (new, renewed) = (new.shown(), renewed.shown());
        ground.say(format!("{loaded} loaded, run {}: new {new}; renewed {renewed}", run + 1));
    }
    Ok([new, renewed])
}

/// From the deployment of one certificate in memory to the report that it was seen, in milliseconds.
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
        "of it, %",
        "bare loop that sends ahead",
        "of it, %",
        "agent's processor time per certificate, ms",
    ]);
    // Where a file system has no journal, files that were just deleted slow down the making of new ones for minutes.
    let mut kept = Vec::new();
    for loaded in LOADED {
        let edge = Edge::start(ground, loaded).await?;
        let [new, renewed] = rates(ground, &edge, loaded).await?;
        kept.push(edge.end().await?);
        table.row(new.row(format!("new, {loaded} loaded")));
        table.row(renewed.row(format!("renewed, {loaded} loaded")));
    }
    let latency = latency(ground).await?;
    let committed = committed::measure(ground).await?;
    let full = Edge::start(ground, UNCHANGED).await?;
    let resident = process::resident(full.agent.pid()).context("the agent's memory")?;
    let peak = process::peak_resident(full.agent.pid())?;
    let idle = Idle::watch(&full).await?;
    let listing = listing::measure(ground).await?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    Ok(format!(
        "{COUNT} certificates at a time; each is written to disk durably, loaded, listed, looked at by a handshake and reported. The bare \
         loop sends HAProxy the same commands over one connection, blocking, and does nothing else; it waits for each answer before the next \
         command, as a script does. The other one sends what the agent sends, in its order and its longer lines, and waits only where it does. HAProxy \
         has a thread for commands, and the agent the scheduling policy of its unit. Median (lowest–highest) of {} interleaved runs; shares run by run.\n\n{}\n\
         For these rates, and for all in this paragraph, the control plane is one in memory: what is measured is the agent. One certificate, from its \
         deployment to the report of the handshake: p50 {:.0} ms, p95 {:.0} ms. {UNCHANGED} unchanged certificates on disk, in HAProxy and in \
         the listing are compared {:.1} s after the agent's start; it then has {:.0} MB resident ({:.0} MB at the peak). {}\n\n\
         {committed}\n{listing}",
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
