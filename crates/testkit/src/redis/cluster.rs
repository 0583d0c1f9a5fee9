//! A Redis Cluster of three servers without replicas.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Redis, cli};
use crate::port::free_port;

const SLOTS: u16 = 16_384;

/// A running Cluster; dropping it stops its servers.
pub struct RedisCluster {
    servers: Vec<Redis>,
}

impl RedisCluster {
    /// Starts three servers, shares the slots among them, and waits until all of them say that the Cluster is whole.
    pub async fn start() -> Result<Self> {
        let (mut servers, mut buses) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            // The default, ten thousand above, may be anybody's.
            let bus = free_port()?.to_string();
            let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            servers.push(Redis::start_with(&settings).await?);
            buses.push(bus);
        }
        let cluster = Self { servers };
        cluster.join(&buses).await.context("making a Cluster")?;
        cluster.wait_until_it_is_whole().await;
        Ok(cluster)
    }

    /// Its URL, as leases want it.
    pub fn url(&self) -> String {
        let hosts = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        format!("redis+cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Its servers.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    async fn join(&self, buses: &[String]) -> Result<()> {
        let mut from = 0;
        for (index, server) in (1_u16..).zip(&self.servers) {
            let to = if index == 3 { SLOTS } else { from + SLOTS / 3 };
            let (first, last) = (from.to_string(), (to - 1).to_string());
            cli::ask(server.port(), &["CLUSTER", "SET-CONFIG-EPOCH", &index.to_string()]).await?;
            cli::ask(server.port(), &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
            from = to;
        }
        let first = self.servers.first().context("no server")?;
        for (server, bus) in self.servers.iter().zip(buses).skip(1) {
            let port = server.port().to_string();
            cli::ask(first.port(), &["CLUSTER", "MEET", "127.0.0.1", &port, bus]).await?;
        }
        Ok(())
    }

    async fn wait_until_it_is_whole(&self) {
        for server in &self.servers {
            crate::eventually(Duration::from_secs(60), "the Cluster to be whole", async || {
                let info = cli::ask(server.port(), &["CLUSTER", "INFO"]).await;
                let info = info.map_err(|error| format!("{error:#}"))?;
                let whole =
                    info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
                if whole { Ok(()) } else { Err(info) }
            })
            .await;
        }
    }
}
