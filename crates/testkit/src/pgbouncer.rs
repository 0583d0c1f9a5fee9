//! PgBouncer before a PostgreSQL server of the test kit.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::port::free_port;
use crate::postgres::{ROLE, user};
use crate::process::Process;
use crate::scratch::Scratch;

const START_LIMIT: Duration = Duration::from_secs(30);

/// For how long a client has a server connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// For one transaction.
    Transaction,
    /// For one statement.
    Statement,
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        })
    }
}

/// A running PgBouncer; dropping it kills it.
pub struct PgBouncer {
    process: Process,
    server: SocketAddr,
    address: SocketAddr,
    _directory: Scratch,
}

impl PgBouncer {
    /// Pools at most `size` connections to the server on this port; `settings` are further lines of its configuration, such as
    /// `server_round_robin = 1`.
    pub async fn before(port: u16, mode: PoolMode, size: u32, settings: &str) -> Result<Self> {
        let directory = Scratch::new()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let users = directory.write("users.txt", format!("\"{ROLE}\" \"\"\n"))?;
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={port}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\nmax_client_conn = 500\n\
             pool_mode = {mode}\ndefault_pool_size = {size}\n{settings}\n",
            address.port(),
            users.display(),
        );
        let config = directory.write("pgbouncer.ini", text)?;
        let usual = Path::new("/usr/sbin/pgbouncer");
        let program = if usual.exists() { usual } else { Path::new("pgbouncer") };
        let mut command = Command::new(program);
        command.arg(config);
        let process = Process::spawn_as("pgbouncer", &command, "KILL", user())?;
        process.wait_for_line(START_LIMIT, |line| line.contains("process up")).await?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { process, server, address, _directory: directory })
    }

    /// A URL of the server behind it, led through it.
    pub fn lead(&self, url: &str) -> String {
        url.replace(&self.server.to_string(), &self.address.to_string())
    }

    /// Its process, to pause it or to read its log.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
