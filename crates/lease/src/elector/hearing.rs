//! Listening for wake-ups, for ever: connects anew whenever the connection ends.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::debug;

use super::Shared;
use super::driver::Command;
use crate::store::Listener;

pub(super) async fn listen(
    mut listener: Box<dyn Listener>,
    commands: mpsc::WeakUnboundedSender<Command>,
    shared: Arc<Shared>,
) {
    let mut condition = shared.condition.subscribe();
    let hear = async {
        loop {
            if listener.connect().await.is_ok() {
                tell(&commands, Command::Listening(true))?;
                loop {
                    match listener.next().await {
                        Ok(name) => tell(&commands, Command::Woken(name))?,
                        Err(error) => {
                            debug!(%error, "wake-ups are lost");
                            break;
                        }
                    }
                }
            }
            tell(&commands, Command::Listening(false))?;
            shared.clock.sleep_until(shared.clock.now() + shared.timing.retry).await;
        }
        #[expect(unreachable_code, reason = "gives the block its type")]
        Some(())
    };
    tokio::select! {
        _ = hear => {}
        _ = condition.wait_for(|condition| condition.ended) => {}
    }
}

/// None when nobody is there to be told.
fn tell(commands: &mpsc::WeakUnboundedSender<Command>, command: Command) -> Option<()> {
    commands.upgrade()?.send(command).ok()
}
