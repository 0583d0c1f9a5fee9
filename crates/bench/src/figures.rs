//! The figures, one file each: what is measured, and the table that comes of it.

mod challenge;
mod edge;
mod ha;
mod issuance;
mod latency;
mod lease;
mod scale;
mod site;
mod up;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::machine;
use crate::progress::Progress;
use crate::report::Report;

/// A figure, or what belongs together of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Figure {
    /// Certificates per second beside a bare loop, lego, certbot and Caddy.
    Issuance,
    /// One idle domain, from the request to Active.
    Latency,
    /// Leases: operations, batches, handoff, crash, idle cost, beside the bare ones and etcd.
    Lease,
    /// `holdfast up`: time until ready, memory.
    Up,
    /// 1,000 to 100,000 domains stored, none due.
    Scale,
    /// Challenge answers per second beside nginx.
    Challenge,
    /// Certificates per second through an agent into HAProxy, beside a bare loop of the same commands.
    Edge,
    /// Several replicas: issuance, failover, requests, a million domains.
    Ha,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Up,
        Self::Latency,
        Self::Challenge,
        Self::Edge,
        Self::Scale,
        Self::Issuance,
        Self::Ha,
        Self::Lease,
    ];

    /// Its name, as typed and as in the document's markers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Issuance => "issuance",
            Self::Latency => "latency",
            Self::Lease => "lease",
            Self::Up => "up",
            Self::Scale => "scale",
            Self::Challenge => "challenge",
            Self::Edge => "edge",
            Self::Ha => "ha",
        }
    }
}

/// A part of [`Figure::Lease`] that can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Acquire, renew and release.
    Operations,
    /// One renewal of many leases.
    Batch,
    /// `is_leader()`.
    Asking,
    /// Step down, and the next one leads.
    Handoff,
    /// A leader killed.
    Crash,
    /// What is asked of the store when nothing happens.
    Idle,
}

/// What every figure needs.
pub struct Ground {
    /// The release binary.
    pub holdfast: PathBuf,
    /// How many interleaved runs a figure is the median of.
    pub runs: usize,
    /// The parts of the lease figure to measure; all if there are none.
    pub parts: Vec<Part>,
    /// Where it is said how far things are.
    pub progress: Progress,
    /// Where the tables go; none to print them alone.
    pub report: Option<Report>,
}

impl Ground {
    /// Measures one figure, prints its table and writes it down.
    pub async fn measure(&self, figure: Figure) -> Result<()> {
        ensure!(self.holdfast.is_file(), "there is no {}: run ./dev", self.holdfast.display());
        let load = machine::load()?;
        self.progress.part(figure.name());
        self.progress.say(format!("load before: {load:.2}"));
        let table = match figure {
            Figure::Issuance => issuance::measure(self).await?,
            Figure::Latency => latency::measure(self).await?,
            Figure::Lease => lease::measure(self).await?,
            Figure::Up => up::measure(self).await?,
            Figure::Scale => scale::measure(self).await?,
            Figure::Challenge => challenge::measure(self).await?,
            Figure::Edge => edge::measure(self).await?,
            Figure::Ha => ha::measure(self).await?,
        };
        println!("\n{table}");
        match &self.report {
            Some(report) => report.write(figure.name(), load, &table),
            None => Ok(()),
        }
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    pub(crate) fn say(&self, line: impl AsRef<str>) {
        self.progress.say(line);
    }
}
