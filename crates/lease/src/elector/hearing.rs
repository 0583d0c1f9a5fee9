//! Listening for wake-ups, for ever: connects anew whenever the connection ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tracing::debug;

use super::Shared;
use super::driver::Command;
use crate::error::StoreError;
use crate::identity::Name;
use crate::store::Listener;

/// After so many leases in silence the connection is checked: often enough to keep it alive on its way, too rarely to cost anything.
const SILENCE: u32 = 4;

pub(super) async fn listen(
    mut listener: Box<dyn Listener>,
    commands: mpsc::WeakUnboundedSender<Command>,
    shared: Arc<Shared>,
) {
    let mut condition = shared.condition.subscribe();
    let hear = async {
        loop {
            if connect(&mut *listener, &shared).await.is_ok() {
                tell(&commands, Command::Listening(true))?;
                loop {
                    match next(&mut *listener, &shared).await {
                        Ok(Some(name)) => tell(&commands, Command::Woken(name))?,
                        Ok(None) => {}
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

async fn connect(listener: &mut dyn Listener, shared: &Shared) -> Result<(), StoreError> {
    limited(listener.connect(), shared).await
}

/// The next lease that may have changed; none if nothing was told for long, and the connection is still there.
async fn next(listener: &mut dyn Listener, shared: &Shared) -> Result<Option<Name>, StoreError> {
    let long = shared.clock.now() + shared.timing.ttl * SILENCE;
    tokio::select! {
        told = AssertUnwindSafe(listener.next()).catch_unwind() => {
            return told.unwrap_or_else(|_| Err(panicked())).map(Some);
        }
        () = shared.clock.sleep_until(long) => {}
    }
    limited(listener.check(), shared).await.map(|()| None)
}

async fn limited(
    request: impl Future<Output = Result<(), StoreError>>,
    shared: &Shared,
) -> Result<(), StoreError> {
    let late = || StoreError::new("listening for wake-ups", "no answer in time");
    let limit = shared.clock.now() + shared.timing.request_timeout;
    tokio::select! {
        answer = AssertUnwindSafe(request).catch_unwind() => {
            answer.unwrap_or_else(|_| Err(panicked()))
        }
        () = shared.clock.sleep_until(limit) => Err(late()),
    }
}

/// A listener's panic is a lost connection: the task that hears must not end in silence.
fn panicked() -> StoreError {
    StoreError::new("listening for wake-ups", "the listener panicked")
}

/// None when nobody is there to be told.
pub(super) fn tell(commands: &mpsc::WeakUnboundedSender<Command>, command: Command) -> Option<()> {
    commands.upgrade()?.send(command).ok()
}
