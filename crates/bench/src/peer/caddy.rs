//! Caddy: started with names that it has no certificates for, until it has them all.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_testkit::{Process, Scratch};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{PATIENCE, Peer, Took, lead};
use crate::network::Network;
use crate::process;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 22);
const CERTIFICATES: usize = 20;

/// Caddy; each run is a new process with new names, and the account of the first.
pub struct Caddy {
    home: Scratch,
    runs: usize,
}

impl Caddy {
    /// Makes its account by a first certificate: with many at once it would make several, and mix up their keys.
    pub async fn prepare(network: &Network) -> Result<Self> {
        lead(network, "caddy.test", ADDRESS).await?;
        let mut caddy = Self { home: Scratch::new()?, runs: 0 };
        caddy.obtain(network, 1).await?;
        Ok(caddy)
    }

    async fn obtain(&mut self, network: &Network, count: usize) -> Result<(Duration, Duration)> {
        self.runs += 1;
        let names: Vec<String> =
            (0..count).map(|number| format!("r{}-n{number}.caddy.test", self.runs)).collect();
        let file = self.home.write("Caddyfile", self.config(network, &names))?;
        let mut command = Command::new("caddy");
        command.env("HOME", self.home.path()).args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file);
        let begun = Instant::now();
        let caddy = Process::spawn("caddy", &command)?;
        while !all_issued(network, &names).await? {
            ensure!(begun.elapsed() < PATIENCE, "not all issued:\n{}", caddy.log());
            sleep(Duration::from_millis(20)).await;
        }
        Ok((begun.elapsed(), process::cpu(caddy.pid())?))
    }

    fn config(&self, network: &Network, names: &[String]) -> String {
        let mut config = format!(
            "{{\nadmin off\nstorage file_system {}\nhttp_port {}\nhttps_port {}\ndefault_bind {ADDRESS}\nemail ops@caddy.test\n}}\n",
            self.home.path().join("storage").display(),
            network.http_port(),
            network.tls_port()
        );
        let (directory, root) = (network.directory(), network.root_file());
        let root = root.display();
        for name in names {
            let _ = write!(
                config,
                "{name} {{\nbind {ADDRESS}\ntls {{\nissuer acme {{\ndir {directory}\ntrusted_roots {root}\n}}\n}}\nrespond ok\n}}\n"
            );
        }
        config
    }
}

async fn all_issued(network: &Network, names: &[String]) -> Result<bool> {
    for name in names {
        let orders = network.orders(Some(name)).await?;
        let valid = |order: &Value| order.get("status").is_some_and(|status| status == "valid");
        if !orders.iter().any(valid) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Peer for Caddy {
    fn name(&self) -> &'static str {
        "Caddy"
    }

    fn certificates(&self) -> usize {
        CERTIFICATES
    }

    fn at_once(&self) -> usize {
        CERTIFICATES
    }

    fn issue<'a>(&'a mut self, network: &'a Network) -> Took<'a> {
        Box::pin(self.obtain(network, CERTIFICATES))
    }
}
