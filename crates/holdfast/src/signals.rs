//! Being asked to end: the first time in good order, the second time at once.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What scripts see of a process that was told twice.
const AT_ONCE: i32 = 130;

/// A token that SIGTERM or SIGINT cancels; a second one ends the process on the spot.
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
}

impl Asked {
    fn listen() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn once(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
