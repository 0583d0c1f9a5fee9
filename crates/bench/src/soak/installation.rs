//! One installation under attack: its replicas, its database, and what it was asked for.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result};
use holdfast_testkit::{Durability, Postgres, Scratch};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::balancer::Balancer;
use super::ledger::{Ledger, Life};
use crate::api::Api;
use crate::network::Network;
use crate::replica::{EdgeMode, Plan, Replica};

/// Short, so that what a killed replica held goes on soon.
const CLAIM_SECONDS: u32 = 2;

/// How much of a log is told when something went wrong.
const LAST_WORDS: usize = 60;

/// What it stores in.
pub(super) enum Storage {
    Postgres { server: Box<Postgres>, url: String },
    Sqlite { _directory: Scratch },
}

pub(super) struct Installation {
    pub(super) title: &'static str,
    pub(super) replicas: Vec<Replica>,
    pub(super) storage: Storage,
    pub(super) ledger: Ledger,
    suffix: &'static str,
    names: usize,
    _balancer: Option<Balancer>,
}

impl Installation {
    pub(super) async fn on_postgres(holdfast: &Path, network: &Network) -> Result<Self> {
        let (suffix, front) = ("pg.test", Ipv4Addr::new(127, 0, 0, 30));
        let server = Box::new(Postgres::start(Durability::Relaxed).await?);
        let url = server.database().await?;
        let target = network.lead(suffix, front).await?;
        let (mut replicas, mut addresses) = (Vec::new(), Vec::new());
        for last in [31, 32] {
            let address = Ipv4Addr::new(127, 0, 0, last);
            let mut plan = Plan::new(address, &url, &target, EdgeMode::None)?;
            plan.claim_seconds = CLAIM_SECONDS;
            replicas.push(Replica::start(holdfast, network, &plan).await?);
            addresses.push(SocketAddr::from((address, network.http_port())));
        }
        let balancer = Balancer::start((front, network.http_port()).into(), addresses).await?;
        let storage = Storage::Postgres { server, url };
        Ok(Self::new("PostgreSQL", suffix, replicas, storage, Some(balancer)))
    }

    pub(super) async fn on_sqlite(holdfast: &Path, network: &Network) -> Result<Self> {
        let (suffix, address) = ("lite.test", Ipv4Addr::new(127, 0, 0, 33));
        let directory = Scratch::new()?;
        let url = format!("sqlite:{}", directory.path().join("holdfast.db").display());
        let target = network.lead(suffix, address).await?;
        let mut plan = Plan::new(address, &url, &target, EdgeMode::Builtin)?;
        plan.claim_seconds = CLAIM_SECONDS;
        let replicas = vec![Replica::start(holdfast, network, &plan).await?];
        let storage = Storage::Sqlite { _directory: directory };
        Ok(Self::new("SQLite", suffix, replicas, storage, None))
    }

    fn new(
        title: &'static str,
        suffix: &'static str,
        replicas: Vec<Replica>,
        storage: Storage,
        balancer: Option<Balancer>,
    ) -> Self {
        let ledger = Ledger::default();
        Self { title, replicas, storage, ledger, suffix, names: 0, _balancer: balancer }
    }

    /// A name that never was.
    pub(super) fn new_name(&mut self) -> String {
        self.names += 1;
        format!("s{}.{}", self.names, self.suffix)
    }

    /// Asks for an addition; a lost answer is no answer.
    pub(super) async fn add(&mut self, api: &Api, life: &Life) -> Result<()> {
        let body = json!({ "name": life.name, "orchestration_id": life.orchestration });
        let (status, answer) = api.web().send(Method::POST, "/v1/domains", Some(&body)).await?;
        let text = String::from_utf8_lossy(&answer);
        anyhow::ensure!(status.is_success(), "adding {}: {status} {text}", life.name);
        let domain: Value = serde_json::from_slice(&answer)?;
        let id = domain.get("id").and_then(Value::as_str).context("a domain without an id")?;
        if let Some(life) = self.ledger.life_mut(&life.orchestration) {
            life.id = Some(id.to_owned());
        }
        Ok(())
    }

    /// The newest lines of every replica's log.
    pub(super) fn last_words(&self) -> String {
        let tail = |log: String| {
            let lines: Vec<&str> = log.lines().collect();
            lines.split_at(lines.len().saturating_sub(LAST_WORDS)).1.join("\n")
        };
        let told = self.replicas.iter().map(|replica| tail(replica.log()));
        told.map(|tail| format!("--- {}\n{tail}\n", self.title)).collect()
    }
}

/// Is a removed domain really gone?
pub(super) async fn is_gone(api: &Api, id: &str) -> Result<bool> {
    let (status, _) = api.web().send(Method::GET, &format!("/v1/domains/{id}"), None).await?;
    Ok(status == StatusCode::GONE)
}
