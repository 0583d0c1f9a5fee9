//! wrk: requests per second.

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// How it asks.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// For how long.
    pub seconds: u64,
}

/// Asks for a URL again and again, every answer of which must be good; requests per second.
pub async fn wrk(url: &str, load: Load) -> Result<f64> {
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--connections", &load.connections.to_string()]).args([
        "--duration",
        &format!("{}s", load.seconds),
        url,
    ]);
    let output = command.output().await.context("starting wrk")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "wrk: {said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{url}: {said}");
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    Ok(line.with_context(|| format!("wrk said no rate: {said}"))?.trim().parse()?)
}
