//! What was measured on, and when: a figure without it is worth nothing.

use std::fs;

use anyhow::{Context as _, Result};
use holdfast_model::Timestamp;
use time::OffsetDateTime;

/// This machine, in one line.
#[must_use]
pub fn facts() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model)
        .to_owned();
    let memory = read("/proc/meminfo");
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())
        .map_or(0.0, |kilobytes: f64| kilobytes / 1024.0 / 1024.0);
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    format!("{cores} cores ({processor}), {memory:.0} GB memory, Linux {kernel}")
}

/// How many processes wanted to run lately: over the last minute.
pub fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().next().context("an empty /proc/loadavg")?.parse()?)
}

/// Today, in UTC.
#[must_use]
pub fn today() -> String {
    OffsetDateTime::from(now()).date().to_string()
}

/// The wall clock, which all processes of this machine share.
#[expect(clippy::disallowed_methods, reason = "compared with what processes of this machine wrote")]
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::from(OffsetDateTime::now_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_cores_and_a_kernel() {
        let facts = facts();
        assert!(!facts.starts_with("0 cores") && facts.contains("Linux "), "{facts}");
        assert!(load().unwrap() >= 0.0);
        assert_eq!(today().len(), 10);
    }
}
