//! One installation that is measured: a replica over a database of its own, with what the database costs.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use holdfast_testkit::{Durability, Postgres, Scratch};

use crate::network::Network;
use crate::process;
use crate::replica::{EdgeMode, Plan, Replica};

/// Longest time for one batch.
const PATIENCE: Duration = Duration::from_secs(180);

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Postgres,
    Sqlite,
}

impl Backend {
    pub(crate) const BOTH: [Self; 2] = [Self::Postgres, Self::Sqlite];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }

    /// An address of its own, so that several replicas share the CA's ports.
    pub(crate) const fn address(self, edge: EdgeMode) -> Ipv4Addr {
        let last = match (self, edge) {
            (Self::Postgres, EdgeMode::None) => 10,
            (Self::Postgres, EdgeMode::Builtin) => 11,
            (Self::Sqlite, EdgeMode::None) => 12,
            (Self::Sqlite, EdgeMode::Builtin) => 13,
            (Self::Postgres, EdgeMode::Agents) => 14,
            (Self::Sqlite, EdgeMode::Agents) => 15,
        };
        Ipv4Addr::new(127, 0, 0, last)
    }
}

/// A database that ends with its owner.
pub(crate) enum Database {
    Postgres { server: Box<Postgres>, url: String },
    Sqlite(Scratch),
}

impl Database {
    /// An empty one, whose commits reach the disk.
    pub(crate) async fn start(backend: Backend) -> Result<Self> {
        Ok(match backend {
            Backend::Postgres => {
                let server = Box::new(Postgres::start(Durability::Durable).await?);
                let url = server.database().await?;
                Self::Postgres { server, url }
            }
            Backend::Sqlite => Self::Sqlite(Scratch::new()?),
        })
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres { url, .. } => url.clone(),
            Self::Sqlite(directory) => {
                format!("sqlite:{}", directory.path().join("holdfast.db").display())
            }
        }
    }

    /// The CPU time of all its processes; SQLite has none of its own.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        match self {
            Self::Postgres { server, .. } => process::cpu_of_family(server.process().pid()),
            Self::Sqlite(_) => Ok(Duration::ZERO),
        }
    }
}

/// What one batch took and cost.
pub(crate) struct Batch {
    pub(crate) took: Duration,
    pub(crate) replica_cpu: Duration,
    pub(crate) database_cpu: Duration,
}

/// A replica and its database.
pub(crate) struct Site {
    pub(crate) backend: Backend,
    // Ends before its database does.
    pub(crate) replica: Replica,
    pub(crate) database: Database,
    pub(crate) target: String,
    pub(crate) suffix: String,
    batches: AtomicUsize,
}

impl Site {
    /// Starts both; domains below a name of its own lead to it.
    pub(crate) async fn start(
        holdfast: &Path,
        network: &Network,
        backend: Backend,
        edge: EdgeMode,
    ) -> Result<Self> {
        Self::over(holdfast, network, backend, edge, Database::start(backend).await?).await
    }

    /// Starts the replica over a database that is there.
    pub(crate) async fn over(
        holdfast: &Path,
        network: &Network,
        backend: Backend,
        edge: EdgeMode,
        database: Database,
    ) -> Result<Self> {
        let address = backend.address(edge);
        let suffix = format!("{}{}.test", backend.word(), address.octets().last().unwrap_or(&0));
        let target = network.lead(&suffix, address).await?;
        let plan = Plan::new(address, &database.url(), &target, edge)?;
        let replica = Replica::start(holdfast, network, &plan).await?;
        Ok(Self { backend, replica, database, target, suffix, batches: AtomicUsize::new(0) })
    }

    /// A name that was not used before.
    pub(crate) fn fresh_name(&self) -> String {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        format!("single{number}.{}", self.suffix)
    }

    /// Adds so many domains at once, and waits until all are Active.
    pub(crate) async fn provision(&self, count: usize) -> Result<Batch> {
        let prefix = format!("b{}-", self.batches.fetch_add(1, Ordering::Relaxed));
        let names: Vec<String> =
            (0..count).map(|number| format!("{prefix}n{number}.{}", self.suffix)).collect();
        let before = (process::cpu(self.replica.pid())?, self.database.cpu()?);
        let took = self.replica.api().provision(&prefix, &names, PATIENCE).await?;
        Ok(Batch {
            took,
            replica_cpu: process::cpu(self.replica.pid())? - before.0,
            database_cpu: self.database.cpu()? - before.1,
        })
    }
}
