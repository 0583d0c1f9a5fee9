//! Being asked to end: the first time in good order, the second time at once.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What scripts see of a process that was told twice.
const AT_ONCE: i32 = 130;

/// A token that SIGTERM, SIGINT or SIGHUP cancels; a second one ends the process on the spot.
pub(crate) fn shutdown() -> anyhow::Result<CancellationToken> {
    let mut asked = Asked::listen().context("signals cannot be listened for")?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        asked.once().await;
        tracing::info!("asked to end; asked again, it ends at once");
        token.cancel();
        asked.once().await;
        std::process::exit(AT_ONCE);
    });
    Ok(shutdown)
}

struct Asked {
    terminate: Signal,
    interrupt: Signal,
    /// Where the terminal is closed; none under `nohup`, which has it ignored.
    hang_up: Option<Signal>,
}

impl Asked {
    fn listen() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hang_up = match ignores_hang_up() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { terminate, interrupt, hang_up })
    }

    async fn once(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = heard(self.hang_up.as_mut()) => {}
        }
    }
}

async fn heard(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Was this process started with SIGHUP ignored?
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|ignored| ignored & 1 != 0)
}

/// The ignored signals of `/proc/PID/status`; SIGHUP is the lowest bit.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored("Name:\tx\n"), None);
    }
}
