//! `holdfast up`: how soon it is ready, and how much memory it takes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use holdfast_testkit::{Process, Scratch, free_port};
use tokio::time::{Instant, sleep};

use super::Ground;
use crate::api::Api;
use crate::process;
use crate::sample::Sample;
use crate::table::Table;

const START_LIMIT: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

/// After this long nothing of the start is going on any more.
const SETTLED: Duration = Duration::from_secs(2);

/// Domains that are added before memory is looked at a second time.
const DOMAINS: usize = 100;

/// A running `holdfast up`.
pub(super) struct Up {
    process: Process,
    api: Api,
    start_to_ready: Duration,
    _data: Option<Scratch>,
}

impl Up {
    /// Starts it in a directory of its own.
    pub(super) async fn start(holdfast: &Path) -> Result<Self> {
        let data = Scratch::new()?;
        let up = Self::start_in(holdfast, data.path()).await?;
        Ok(Self { _data: Some(data), ..up })
    }

    async fn start_in(holdfast: &Path, data: &Path) -> Result<Self> {
        let mut command = Command::new(holdfast);
        command.arg("up").arg("--data").arg(data);
        let api: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()?).into();
        command.args(["--api", &api.to_string()]);
        for option in ["--http", "--https", "--ca", "--dns"] {
            let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()?).into();
            command.args([option, &address.to_string()]);
        }
        let url = format!("http://{api}");
        let open = Api::new(&url, "")?;
        let begun = Instant::now();
        let process = Process::spawn("holdfast up", &command)?;
        tokio::select! {
            ready = open.ready(START_LIMIT) => ready.with_context(|| process.log())?,
            ended = process.wait(START_LIMIT) => bail!("it ended ({ended:?}):\n{}", process.log()),
        }
        let start_to_ready = begun.elapsed();
        let token = std::fs::read_to_string(data.join("admin.token"))?;
        Ok(Self { process, api: Api::new(&url, token.trim())?, start_to_ready, _data: None })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    fn resident_mb(&self) -> Result<f64> {
        Ok(process::resident(self.process.pid())? as f64 / 1e6)
    }
}

#[derive(Default)]
struct Samples {
    first_start_ms: Sample,
    next_start_ms: Sample,
    idle_mb: Sample,
    busy_mb: Sample,
    peak_mb: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let mut samples = Samples::default();
    for number in 0..ground.runs {
        run(ground, &mut samples).await?;
        ground.say(format!(
            "run {}: first start {} ms, next start {} ms, {} MB idle",
            number + 1,
            samples.first_start_ms.shown(0),
            samples.next_start_ms.shown(0),
            samples.idle_mb
        ));
    }
    let mut table = Table::new(&["", "median (lowest–highest)", "goal"]);
    let mut row = |what: &str, sample: &Sample, unit: &str, goal: &str| {
        table.row([what.to_owned(), format!("**{}** {unit}", sample.shown(0)), goal.to_owned()]);
    };
    row(
        "first start to ready (keys, schema, CA made)",
        &samples.first_start_ms,
        "ms",
        "< 1,000 ms",
    );
    row("next start to ready", &samples.next_start_ms, "ms", "< 1,000 ms");
    row("resident when idle", &samples.idle_mb, "MB", "< 60 MB");
    row(&format!("resident after {DOMAINS} domains"), &samples.busy_mb, "MB", "< 60 MB");
    row("the most it ever had", &samples.peak_mb, "MB", "");
    Ok(format!(
        "{} runs, each in an empty directory. Ready is the first 200 of `/health/ready`, counted from the start of the process. \
         Control plane, SQLite, CA, DNS zone and edge are one process.\n\n{}",
        ground.runs,
        table.markdown()
    ))
}

async fn run(ground: &Ground, samples: &mut Samples) -> Result<()> {
    let data = Scratch::new()?;
    let up = Up::start_in(&ground.holdfast, data.path()).await?;
    samples.first_start_ms.push(up.start_to_ready.as_secs_f64() * 1000.0);
    sleep(SETTLED).await;
    samples.idle_mb.push(up.resident_mb()?);
    let names: Vec<String> = (0..DOMAINS).map(|number| format!("shop{number}.test")).collect();
    up.api.provision("shop", &names, PATIENCE).await?;
    samples.busy_mb.push(up.resident_mb()?);
    samples.peak_mb.push(process::peak_resident(up.process.pid())? as f64 / 1e6);
    up.process.terminate(START_LIMIT).await?;
    let again = Up::start_in(&ground.holdfast, data.path()).await?;
    samples.next_start_ms.push(again.start_to_ready.as_secs_f64() * 1000.0);
    Ok(())
}
