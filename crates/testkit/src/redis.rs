//! A Redis server without persistence.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

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
        let (directory, port) = (Scratch::new()?, free_port()?);
        let arguments = arguments.iter().copied().map(str::to_owned).collect();
        let process = run(&directory, port, &arguments).await?;
        Ok(Self { process, port, arguments, directory })
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
        self.process = run(&self.directory, self.port, &self.arguments).await?;
        Ok(())
    }
}

async fn run(directory: &Scratch, port: u16, arguments: &Vec<String>) -> Result<Process> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.arg("--dir").arg(directory.path()).args(arguments);
    let process = Process::spawn("redis", &command)?;
    let ready = |line: &str| line.contains("Ready to accept connections");
    process.wait_for_line(Duration::from_secs(30), ready).await.context("starting Redis")?;
    Ok(process)
}
