//! Redis behind Sentinels: a primary, a replica, and three who agree on which of them is which.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Redis;
use super::tls::Identity;
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the service that the Sentinels watch.
const SERVICE: &str = "mymaster";

/// A running set of two servers and three Sentinels; dropping it stops them.
pub struct RedisSentinels {
    servers: [Redis; 2],
    sentinels: Vec<Sentinel>,
    /// With it they speak TLS alone, also among themselves.
    identity: Option<Identity>,
}

struct Sentinel {
    process: Process,
    port: u16,
    _directory: Scratch,
}

impl RedisSentinels {
    /// Starts them, and waits until the Sentinels know the servers and each other.
    pub async fn start() -> Result<Self> {
        Self::start_as(None).await
    }

    /// The same, speaking TLS alone, with a certificate of their own.
    pub async fn start_with_tls() -> Result<Self> {
        Self::start_as(Some(Identity::new()?)).await
    }

    async fn start_as(identity: Option<Identity>) -> Result<Self> {
        let identity_of = identity.as_ref();
        let server = async |arguments: &[&str]| match identity_of {
            Some(identity) => identity.server(arguments).await,
            None => Redis::start_with(arguments).await,
        };
        let primary = server(&[]).await?;
        let of = format!("127.0.0.1 {}", primary.port());
        let replica = server(&["--replicaof", &of]).await?;
        let synced = |line: &str| line.contains("sync: Finished with success");
        replica.process().wait_for_line(PATIENCE, synced).await.context("replicating")?;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Sentinel::start(primary.port(), identity.as_ref()).await?);
        }
        let all = Self { servers: [primary, replica], sentinels, identity };
        for sentinel in &all.sentinels {
            sentinel.wait_until_it_knows_everyone().await?;
        }
        Ok(all)
    }

    /// Their URL, as leases want it.
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port));
        let scheme = if self.identity.is_some() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{SERVICE}", hosts.collect::<Vec<_>>().join(","))
    }

    /// PEM of the root of their certificate, if they have one.
    pub fn root_pem(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.pki.root_pem.as_str())
    }

    /// The server that was the primary at first.
    pub fn first(&self) -> &Redis {
        &self.servers[0]
    }

    /// The server that was its replica at first.
    pub fn second(&self) -> &Redis {
        &self.servers[1]
    }

    /// Kills the primary, and waits until the Sentinels have made the replica one.
    pub async fn fail_over(&self) -> Result<()> {
        self.first().process().kill().await?;
        let switched = |line: &str| line.contains("+switch-master");
        for sentinel in &self.sentinels {
            let switch = sentinel.process.wait_for_line(PATIENCE, switched).await;
            switch.context("waiting for the failover")?;
        }
        Ok(())
    }
}

impl Sentinel {
    async fn start(primary: u16, identity: Option<&Identity>) -> Result<Self> {
        let (directory, port) = (Scratch::new()?, free_port()?);
        // Sentinels rewrite their own file.
        let settings = format!(
            "{}bind 127.0.0.1\ndir {}\n\
             sentinel monitor {SERVICE} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {SERVICE} 1000\n\
             sentinel failover-timeout {SERVICE} 5000\n",
            doors(port, identity),
            directory.path().display()
        );
        let file = directory.write("sentinel.conf", settings)?;
        let mut command = Command::new("redis-sentinel");
        command.arg(file);
        let process = Process::spawn("redis-sentinel", &command)?;
        let ready = |line: &str| line.contains("+monitor master");
        process.wait_for_line(PATIENCE, ready).await.context("starting a Sentinel")?;
        Ok(Self { process, port, _directory: directory })
    }

    async fn wait_until_it_knows_everyone(&self) -> Result<()> {
        crate::eventually(PATIENCE, "a Sentinel to know everyone", async || {
            let log = self.process.log();
            let told = |what: &str| log.lines().filter(|line| line.contains(what)).count();
            match (told("+slave "), told("+sentinel ")) {
                (1.., 2..) => Ok(()),
                (replicas, others) => Err(format!("{replicas} replicas, {others} others")),
            }
        })
        .await;
        Ok(())
    }
}

/// The lines of a Sentinel's settings that say what it speaks, and where.
fn doors(port: u16, identity: Option<&Identity>) -> String {
    let Some(identity) = identity else { return format!("port {port}\n") };
    let own = identity.settings.iter().map(|[name, value]| format!("{name} {value}\n"));
    format!("port 0\ntls-port {port}\n{}", own.collect::<String>())
}
