//! A leader killed: how long until another process leads.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_lease::clock::{BootClock, Clock as _, Moment};
use holdfast_testkit::{Process, Redis};

use super::{handoff, millis, postgres};
use crate::figures::Ground;
use crate::sample::Sample;
use crate::table::Table;

/// Short, so that the figure does not take an hour; the renewal comes after a third.
const TTL: Duration = Duration::from_secs(3);

const PATIENCE: Duration = Duration::from_secs(60);

/// What others say of themselves, crash and graceful.
const PUBLISHED: [(&str, &str, &str); 6] = [
    ("Kubernetes client-go", "15–17 s", "2 s"),
    ("Consul", "32–45 s", ""),
    ("River", "15–21 s", "50 ms"),
    ("Oban", "up to 60 s", ""),
    ("pglock", "20 s", ""),
    ("etcd", "TTL", "ms"),
];

/// What was measured, in milliseconds: each kill, of each of [`TITLES`].
#[derive(Default)]
pub(super) struct Samples([Sample; 3]);

const TITLES: [&str; 3] = ["PostgreSQL with a beacon", "PostgreSQL", "Redis"];

pub(super) async fn measure(ground: &Ground) -> Result<Samples> {
    let ((_server, url), redis) = (postgres().await?, Redis::start().await?);
    let kinds = [(&url, true, 8), (&url, false, 2), (&redis.url(), false, 2)];
    let mut samples = Samples::default();
    for run in 0..ground.runs {
        for (((url, beacon, kills), title), sample) in kinds.iter().zip(TITLES).zip(&mut samples.0)
        {
            let mut scene = Scene::start(url, *beacon).await?;
            for _ in 0..*kills {
                sample.push(millis(scene.kill_the_leader().await?));
            }
            ground.say(format!("run {}: {title}: {} ms so far", run + 1, sample.shown(0)));
        }
    }
    Ok(samples)
}

/// The table; what a graceful handoff takes stands beside it where it was measured.
pub(super) fn shown(samples: &Samples, graceful: Option<&handoff::Samples>) -> String {
    let limit = format!("{:.0}", millis(TTL) + 250.0);
    let limits = ["100".to_owned(), limit.clone(), limit];
    let mut table =
        Table::new(&["", "crash to new leader, p50 (lowest–highest), ms", "limit", "graceful"]);
    let median = |sample: &Sample| format!("{:.2} ms", sample.median());
    let graceful = graceful.map_or(Default::default(), |graceful| {
        [String::new(), median(&graceful.postgres), median(&graceful.redis)]
    });
    for (((title, sample), limit), graceful) in
        TITLES.iter().zip(&samples.0).zip(limits).zip(graceful)
    {
        let shown = format!("**{}**, {} kills", sample.shown(0), sample.len());
        table.row([(*title).to_owned(), shown, limit, graceful]);
    }
    for (title, crash, graceful) in PUBLISHED {
        table.row([format!("{title}, as published"), crash.to_owned(), "".into(), graceful.into()]);
    }
    format!(
        "**Crash**: SIGKILL of the leading process, until another has been elected; TTL {} s. What is published of others is at \
         their own defaults, and not measured here.\n\n{}\n",
        TTL.as_secs(),
        table.markdown()
    )
}

/// Two processes that contend.
struct Scene {
    url: String,
    beacon: bool,
    leader: Process,
    next: Process,
    term: i64,
}

impl Scene {
    async fn start(url: &str, beacon: bool) -> Result<Self> {
        let leader = contender(url, beacon)?;
        let (term, _) = elected(&leader, 0).await?;
        let next = contender(url, beacon)?;
        following(&next).await?;
        Ok(Self { url: url.to_owned(), beacon, leader, next, term })
    }

    async fn kill_the_leader(&mut self) -> Result<Duration> {
        let killed = BootClock.now();
        self.leader.kill().await?;
        let (term, at) = elected(&self.next, self.term).await?;
        self.term = term;
        let fresh = contender(&self.url, self.beacon)?;
        following(&fresh).await?;
        self.leader = std::mem::replace(&mut self.next, fresh);
        Ok(at.since(killed))
    }
}

fn contender(url: &str, beacon: bool) -> Result<Process> {
    let program: PathBuf = std::env::current_exe()?.with_file_name("contender");
    let mut command = Command::new(&program);
    command.args(["--url", url, "--lasts-ms", &TTL.as_millis().to_string()]);
    if beacon {
        command.arg("--beacon");
    }
    Process::spawn("contender", &command).with_context(|| program.display().to_string())
}

/// The term above this one in which a contender was elected, and when.
async fn elected(contender: &Process, above: i64) -> Result<(i64, Moment)> {
    let parse = |line: &str| {
        let (term, at) = line.strip_prefix("elected ")?.split_once(" at ")?;
        Some((term.parse::<i64>().ok()?, at.parse::<u64>().ok()?))
    };
    let wanted = |line: &str| parse(line).is_some_and(|(term, _)| term > above);
    let line = contender.wait_for_line(PATIENCE, wanted).await?;
    let (term, at) = parse(&line).context("a line that was just read")?;
    Ok((term, Moment::from_nanos(at)))
}

async fn following(contender: &Process) -> Result<()> {
    contender.wait_for_line(PATIENCE, |line| line == "following").await.map(drop)
}
