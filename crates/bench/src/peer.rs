//! Other people's ACME clients, as Debian has them, at the same CA.

mod caddy;
mod certbot;
mod lego;
mod nginx;
mod wrk;

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

pub use self::caddy::Caddy;
pub use self::certbot::Certbot;
pub use self::lego::Lego;
pub use self::nginx::Nginx;
pub use self::wrk::{Load, Pace, wrk, wrk_with};
use crate::network::Network;

/// Longest time for one run of a client.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one run took, and its CPU time.
type Took<'a> = Pin<Box<dyn Future<Output = Result<(Duration, Duration)>> + 'a>>;

/// An ACME client to compare with.
pub trait Peer {
    /// Its name.
    fn name(&self) -> &'static str;

    /// How many certificates it gets in one run.
    fn certificates(&self) -> usize;

    /// How many of them it works on at once.
    fn at_once(&self) -> usize;

    /// Gets that many certificates.
    fn issue<'a>(&'a mut self, network: &'a Network) -> Took<'a>;
}

/// Lets names below `suffix` lead straight to where a client listens.
async fn lead(network: &Network, suffix: &str, address: Ipv4Addr) -> Result<()> {
    network.record(&format!("*.{suffix}"), "A", &address.to_string()).await
}

/// Runs a client to its end, which must be a good one.
async fn run(mut command: Command) -> Result<()> {
    command.kill_on_drop(true);
    let ran = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = ran.context("the client did not end")?.context("starting the client")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let also = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{command:?}: {said}{also}");
    Ok(())
}
