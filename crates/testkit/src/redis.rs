//! A Redis server without persistence, and its kin: with TLS, behind Sentinels, in a Cluster.

mod cli;
mod cluster;
mod sentinel;
mod tls;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

pub use self::cluster::RedisCluster;
pub use self::sentinel::RedisSentinels;
pub use self::tls::RedisTls;
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

/// A running Redis server; dropping it stops it.
pub struct Redis {
    process: Process,
    port: u16,
    arguments: Vec<String>,
    directory: Scratch,
}

impl Redis {
    /// Starts a server that remembers nothing across a restart.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts a server with further arguments, such as `--appendonly yes` or `--replicaof HOST PORT`.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        Self::start_on(arguments, "--port").await
    }

    /// Starts a server whose port is the one of this setting.
    async fn start_on(arguments: &[&str], port_setting: &str) -> Result<Self> {
        let (directory, port) = (Scratch::new()?, free_port()?);
        let mut settings = vec!["--port".to_owned(), "0".to_owned()];
        settings.extend([port_setting.to_owned(), port.to_string()]);
        settings.extend(arguments.iter().copied().map(str::to_owned));
        let process = run(&directory, &settings).await?;
        Ok(Self { process, port, arguments: settings, directory })
    }

    /// Asks it something by `redis-cli`, such as `["CLIENT", "KILL", "TYPE", "pubsub"]`; its answer.
    pub async fn ask(&self, arguments: &[&str]) -> Result<String> {
        cli::ask(self.port, arguments).await
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process, to pause it, kill it or read its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it and starts it again, on the same port and directory.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill().await?;
        self.process = run(&self.directory, &self.arguments).await?;
        Ok(())
    }
}

async fn run(directory: &Scratch, arguments: &[String]) -> Result<Process> {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", ""]);
    command.arg("--dir").arg(directory.path()).args(arguments);
    let process = Process::spawn("redis", &command)?;
    let ready = |line: &str| line.contains("Ready to accept connections");
    process.wait_for_line(Duration::from_secs(30), ready).await.context("starting Redis")?;
    Ok(process)
}
