//! Up to three replicas over one PostgreSQL. The first answers the CA; all of them order.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::Ground;
use super::super::site::{Backend, Database};
use crate::network::Network;
use crate::process;
use crate::replica::{EdgeMode, Plan, Replica};

const PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Fleet {
    pub(super) replicas: Vec<Replica>,
    pub(super) database: Database,
    suffix: String,
    batches: usize,
}

impl Fleet {
    /// Starts one of each role; `extra` is more configuration, `claim` how long a claim lasts.
    pub(super) async fn start(
        ground: &Ground,
        network: &Network,
        database: Database,
        roles: &[&'static str],
        claim: u32,
        extra: &str,
    ) -> Result<Self> {
        let suffix = "fleet.test".to_owned();
        let target = network.lead(&suffix, address(0)).await?;
        let mut replicas = Vec::new();
        for (number, role) in (0..).zip(roles) {
            let mut plan = Plan::new(address(number), &database.url(), &target, EdgeMode::None)?;
            plan.role = role;
            plan.claim_seconds = claim;
            plan.extra = extra.to_owned();
            replicas.push(Replica::start(&ground.holdfast, network, &plan).await?);
        }
        Ok(Self { replicas, database, suffix, batches: 0 })
    }

    /// An empty PostgreSQL.
    pub(super) async fn postgres() -> Result<Database> {
        Database::start(Backend::Postgres).await
    }

    pub(super) fn first(&self) -> Result<&Replica> {
        self.replicas.first().context("a fleet has a replica")
    }

    /// Names that were not used before, and what they begin with.
    pub(super) fn fresh_names(&mut self, count: usize) -> (String, Vec<String>) {
        self.batches += 1;
        let prefix = format!("b{}-", self.batches);
        let names = (0..count).map(|number| format!("{prefix}n{number}.{}", self.suffix));
        let names = names.collect();
        (prefix, names)
    }

    /// Adds so many domains at once, and waits until all are Active.
    pub(super) async fn provision(&mut self, count: usize) -> Result<Duration> {
        let (prefix, names) = self.fresh_names(count);
        self.first()?.api().provision(&prefix, &names, PATIENCE).await
    }

    /// The CPU time of all replicas.
    pub(super) fn cpu(&self) -> Result<Duration> {
        self.replicas.iter().map(|replica| process::cpu(replica.pid())).sum()
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 30 + number)
}
