//! One round: every arm once, and what each took and cost.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::super::site::{Backend, Site};
use super::{DOMAINS, IN_FLIGHT};
use crate::bare::BareLoop;
use crate::network::Network;
use crate::process;
use crate::sample::Sample;

/// What one arm did in one round; costs are CPU milliseconds per certificate.
pub(super) struct Arm {
    /// None is the bare loop.
    backend: Option<Backend>,
    pub(super) rate: f64,
    pub(super) client_ms: f64,
    pub(super) database_ms: f64,
    pub(super) ca_ms: f64,
}

fn per_certificate(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0 / DOMAINS as f64
}

impl Arm {
    /// The loop runs in this process, which does nothing else meanwhile.
    pub(super) async fn bare(bare: &BareLoop, network: &Network) -> Result<Self> {
        let own = std::process::id();
        let before = (process::cpu(own)?, process::cpu(network.pid())?);
        let took = bare.issue(DOMAINS, IN_FLIGHT).await?;
        Ok(Self {
            backend: None,
            rate: DOMAINS as f64 / took.as_secs_f64(),
            client_ms: per_certificate(process::cpu(own)? - before.0),
            database_ms: 0.0,
            ca_ms: per_certificate(process::cpu(network.pid())? - before.1),
        })
    }

    pub(super) async fn holdfast(site: &Site, network: &Network) -> Result<Self> {
        let before = process::cpu(network.pid())?;
        let batch = site.provision(DOMAINS).await?;
        Ok(Self {
            backend: Some(site.backend),
            rate: DOMAINS as f64 / batch.took.as_secs_f64(),
            client_ms: per_certificate(batch.replica_cpu),
            database_ms: per_certificate(batch.database_cpu),
            ca_ms: per_certificate(process::cpu(network.pid())? - before),
        })
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.backend.map_or("bare loop", Backend::title);
        write!(
            f,
            "{title:<10} {:>6.1}/s, CPU ms per certificate: client {:.1}, database {:.1}, CA {:.1}",
            self.rate, self.client_ms, self.database_ms, self.ca_ms
        )
    }
}

/// All rounds.
#[derive(Default)]
pub(super) struct Rounds(Vec<Vec<Arm>>);

impl Rounds {
    pub(super) fn add(&mut self, round: Vec<Arm>) {
        self.0.push(round);
    }

    /// What an arm gave in each round.
    pub(super) fn sample(&self, of: Option<Backend>, value: impl Fn(&Arm) -> f64) -> Sample {
        self.0.iter().filter_map(|round| find(round, of)).map(value).collect()
    }

    /// An arm's rate as a share of the bare loop's, round by round.
    pub(super) fn ratio(&self, of: Backend) -> Sample {
        let ratio = |round: &Vec<Arm>| Some(find(round, Some(of))?.rate / find(round, None)?.rate);
        self.0.iter().filter_map(ratio).collect()
    }
}

fn find(round: &[Arm], of: Option<Backend>) -> Option<&Arm> {
    round.iter().find(|arm| arm.backend == of)
}
