//! `redis-cli`, for what a test kit has to ask of a server.

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// Asks a server on this machine; its answer.
pub(crate) async fn ask(port: u16, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string()]).args(arguments).kill_on_drop(true);
    let output = command.output().await.context("starting redis-cli")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let also = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "redis-cli {arguments:?}: {said}{also}");
    ensure!(!said.starts_with("ERR") && !said.starts_with("(error)"), "{arguments:?}: {said}");
    Ok(said)
}
