//! A server whose disk can be filled.

use std::process::Command;
use std::sync::atomic::AtomicU64;

use anyhow::Result;

use super::{Durability, Postgres, copy_template, server_command, started, user};
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::small_disk::SmallDisk;
use crate::spawner::bound_to_us;

/// Copies the first word into the second, then becomes the rest.
const COPY: &str = r#"cp -a "$0" "$1" && shift && exec "$@""#;

impl Postgres {
    /// Starts a server of its own with its data on a small disk. It cannot be restarted: the disk goes with its process.
    pub async fn start_on_small_disk(kibibytes: u32) -> Result<(Self, SmallDisk)> {
        let (directory, port) = (Scratch::new()?, free_port()?);
        copy_template(&directory).await?;
        let mount = directory.path().join("disk");
        std::fs::create_dir(&mount)?;
        let disk = SmallDisk::new(&mount, kibibytes);
        let durability = Durability::Relaxed;
        let mut server = server_command(&mount.join("data"), port, durability, &[])?;
        // The log of changes must not be what fills the disk.
        server.args(["-c", "max_wal_size=32MB", "-c", "min_wal_size=32MB"]);
        let mut copied = Command::new("sh");
        copied.args(["-c", COPY]).arg(directory.path().join("data")).arg(&mount);
        let server = as_its_user(&server);
        copied.arg(server.get_program()).args(server.get_args());
        let process = Process::spawn_as("postgres", &disk.command(&copied), "QUIT", None)?;
        let process = started(process).await?;
        let (environment, databases) = (Vec::new(), AtomicU64::new(0));
        let server = Self { process, port, durability, environment, databases, directory };
        Ok((server, disk))
    }
}

/// Within the mount namespace everything runs as root, which PostgreSQL refuses.
fn as_its_user(server: &Command) -> Command {
    if user().is_some() {
        return bound_to_us(server, "QUIT", user());
    }
    let mut other = Command::new("unshare");
    other.args(["--user", "--map-user=1000", "--map-group=1000"]);
    other.arg(server.get_program()).args(server.get_args());
    bound_to_us(&other, "QUIT", None)
}
