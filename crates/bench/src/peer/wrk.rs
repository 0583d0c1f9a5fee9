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

/// What a load gave.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests per second.
    pub rate: f64,
    /// What 99 of 100 requests did not exceed, in milliseconds.
    pub p99_ms: f64,
}

/// Asks for a URL again and again, every answer of which must be good; requests per second.
pub async fn wrk(url: &str, load: Load) -> Result<f64> {
    Ok(wrk_with(url, load, &[]).await?.rate)
}

/// The same with more options, such as a header or a script.
pub async fn wrk_with(url: &str, load: Load, options: &[&str]) -> Result<Pace> {
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--latency", "--connections", &load.connections.to_string()]);
    command.args(["--duration", &format!("{}s", load.seconds)]).args(options).arg(url);
    let output = command.output().await.context("starting wrk")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "wrk: {said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{url}: {said}");
    let after = |word: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(word));
        line.map(str::trim).with_context(|| format!("wrk did not say {word} {said}"))
    };
    Ok(Pace { rate: after("Requests/sec:")?.parse()?, p99_ms: milliseconds(after("99%")?)? })
}

/// wrk's way of writing a time: `1.20ms`, `830.00us`, `1.02s`.
fn milliseconds(text: &str) -> Result<f64> {
    for (unit, factor) in [("us", 0.001), ("ms", 1.0), ("s", 1000.0)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<f64>()? * factor);
        }
    }
    anyhow::bail!("`{text}` is no time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let read = |text| milliseconds(text).unwrap();
        assert_eq!((read("750.00us"), read("1.20ms"), read("1.5s")), (0.75, 1.2, 1500.0));
        assert!(milliseconds("1.2 weeks").is_err());
    }
}
