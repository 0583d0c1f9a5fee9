//! What a process costs, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Linux shows times to programs in hundredths of a second, whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

/// The CPU time that a process has used, all its threads together.
pub fn cpu(pid: u32) -> Result<Duration> {
    Ok(stat(pid)?.own)
}

/// The CPU time that the ended children of this process have used.
pub fn cpu_of_ended_children() -> Result<Duration> {
    Ok(stat(std::process::id())?.ended_children)
}

/// The CPU time of a process and all its children, also those that have ended: a PostgreSQL server.
pub fn cpu_of_family(pid: u32) -> Result<Duration> {
    let head = stat(pid)?;
    let mut sum = head.own + head.ended_children;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(other) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that ended just now is among the ended children at the next look.
        if let Ok(child) = stat(other)
            && child.parent == pid
        {
            sum += child.own;
        }
    }
    Ok(sum)
}

/// The resident memory of a process, in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    status_line(pid, "VmRSS:")
}

/// The most memory that a process ever had resident, in bytes.
pub fn peak_resident(pid: u32) -> Result<u64> {
    status_line(pid, "VmHWM:")
}

/// Begins to look anew for the most memory that a process has resident.
#[expect(clippy::disallowed_methods, reason = "it is the kernel's file, and keeps nothing")]
pub fn forget_peak(pid: u32) -> Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

fn status_line(pid: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

fn stat(pid: u32) -> Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name may hold anything, also spaces and brackets.
    let (_, rest) = text.rsplit_once(')').context("not a stat line")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| -> Result<u32> {
        Ok(fields.get(index).context("a short stat line")?.parse()?)
    };
    Ok(Stat {
        parent: number(1)?,
        own: TICK * (number(11)? + number(12)?),
        ended_children: TICK * (number(13)? + number(14)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_cost() {
        let own = std::process::id();
        let mut sum = 0_u64;
        while cpu(own).unwrap() < Duration::from_millis(20) {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        assert!(cpu_of_family(own).unwrap() >= Duration::from_millis(20), "{sum}");
        assert!(resident(own).unwrap() > 500_000);
        assert!(peak_resident(own).unwrap() >= resident(own).unwrap());
    }
}
