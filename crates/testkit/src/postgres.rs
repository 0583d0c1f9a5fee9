//! A PostgreSQL server of this process's own, on a data directory copied from a template.
//!
//! One server shared by all test processes would be started once, but its tests would see each other: the
//! snapshot horizon is the whole server's, and a test that stops the server stops everybody's. Copying and
//! starting takes about 150 ms, so each process has its own, and each test a fresh database in it.

mod small;
mod standby;
mod template;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::sync::OnceCell;

pub(crate) use self::template::user;
use crate::faketime::{Faketime, by_this_clock};
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

const START_LIMIT: Duration = Duration::from_secs(30);

/// The superuser of the server, who needs no password.
pub(crate) const ROLE: &str = "holdfast";

/// Whether commits reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// They do, as in production: for figures.
    Durable,
    /// They survive a killed server, but not a power cut: for tests.
    Relaxed,
}

impl Durability {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Durability::Durable => &["fsync=on", "synchronous_commit=on", "shared_buffers=128MB"],
            Durability::Relaxed => &[
                "fsync=off",
                "shared_buffers=32MB",
                "autovacuum_naptime=5s",
                "max_prepared_transactions=4",
            ],
        }
    }
}

/// A running PostgreSQL server; dropping it stops it and removes its data.
pub struct Postgres {
    process: Process,
    port: u16,
    durability: Durability,
    environment: Vec<OsString>,
    databases: AtomicU64,
    // Removed last, when the server no longer writes to it.
    directory: Scratch,
}

impl Postgres {
    /// The server of this process, started at the first call.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(Durability::Relaxed)).await
    }

    /// Starts a server of its own, for a test that stops it or measures it.
    pub async fn start(durability: Durability) -> Result<Self> {
        Self::start_in(durability, Vec::new()).await
    }

    /// Starts a server of its own that lives by this clock, for a test that steps it.
    pub async fn start_by(clock: &Faketime) -> Result<Self> {
        Self::start_in(Durability::Relaxed, clock.environment()).await
    }

    async fn start_in(durability: Durability, environment: Vec<OsString>) -> Result<Self> {
        let (directory, port) = (Scratch::new()?, free_port()?);
        copy_template(&directory).await?;
        let process = run(&directory, port, durability, &environment).await?;
        let databases = AtomicU64::new(0);
        Ok(Self { process, port, durability, environment, databases, directory })
    }

    /// Creates an empty database, and returns its URL.
    pub async fn database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect(&self.url("postgres")).await?;
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        connection.close().await?;
        Ok(self.url(&name))
    }

    /// The URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where its data is.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The server's process, to pause it or to read its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Ends the server as a crash would: all connections break, nothing is flushed.
    pub async fn crash(&self) -> Result<()> {
        self.process.signal(Signal::QUIT)?;
        self.process.wait(START_LIMIT).await?;
        Ok(())
    }

    /// Starts the server again, on the same port and data, after a [`Postgres::crash`] or instead of one.
    pub async fn restart(&mut self) -> Result<()> {
        self.crash().await?;
        self.process = run(&self.directory, self.port, self.durability, &self.environment).await?;
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own way to end at once also ends its children and frees its shared memory; a kill would not.
        self.process.signal(Signal::QUIT).ok();
        for _ in 0..1000 {
            if self.process.status().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

async fn run(
    directory: &Scratch,
    port: u16,
    durability: Durability,
    environment: &[OsString],
) -> Result<Process> {
    let data = directory.path().join("data");
    let command = server_command(&data, port, durability, environment)?;
    started(Process::spawn_as("postgres", &command, "QUIT", user())?).await
}

async fn copy_template(directory: &Scratch) -> Result<()> {
    let data = directory.path().join("data");
    tokio::task::spawn_blocking(move || template::copy_to(&data)).await?
}

fn server_command(
    data: &Path,
    port: u16,
    durability: Durability,
    environment: &[OsString],
) -> Result<Command> {
    let mut command = by_this_clock(environment, template::program("postgres")?.as_os_str());
    command.arg("-D").arg(data);
    let port = format!("port={port}");
    let common = [
        port.as_str(),
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=200",
    ];
    for setting in common.iter().chain(durability.settings()) {
        command.args(["-c", setting]);
    }
    Ok(command)
}

async fn started(process: Process) -> Result<Process> {
    let ready = |line: &str| line.contains("ready to accept");
    process.wait_for_line(START_LIMIT, ready).await.context("starting PostgreSQL")?;
    Ok(process)
}
