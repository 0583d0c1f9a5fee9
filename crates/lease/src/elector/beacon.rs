//! Keeping a beacon lit, for ever: a session whose end counts as this process's death.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::Shared;
use super::driver::Command;
use super::hearing::tell;
use crate::error::StoreError;
use crate::store::Beacon;

/// The promise that *every* effect of a lease is a guarded write in the same PostgreSQL that keeps the lease
/// (`fence::postgres::guard`): none goes out by mail, by HTTP, to a file or to another database.
///
/// With a beacon two processes may believe for a while that they hold the lease: a session ends when its process dies, but also
/// when a connection is cut, and the server cannot tell which. Guarded writes of the one that was followed are refused; anything
/// else it does happens twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullyGuarded;

/// The beacon of an elector.
pub(super) enum Lamp {
    /// The store has none.
    Missing,
    /// Nobody has asked for it yet.
    Unlit(Box<dyn Beacon>),
    /// A task keeps it.
    Kept,
}

/// Lights the beacon, watches its session, and lights it again whenever that ends.
pub(super) async fn keep(
    mut beacon: Box<dyn Beacon>,
    commands: mpsc::WeakUnboundedSender<Command>,
    shared: Arc<Shared>,
) {
    let mut condition = shared.condition.subscribe();
    let keeping = async {
        loop {
            match limited(&shared, beacon.light()).await {
                Ok(()) => {
                    tell(&commands, Command::Beacon(true))?;
                    let why = watch(&mut *beacon, &shared).await;
                    // First of all: others may take what is held by it from now on.
                    tell(&commands, Command::Beacon(false))?;
                    warn!(holder = %shared.holder, %why, "the session of the beacon ended");
                }
                Err(error) => debug!(%error, "the beacon cannot be lit"),
            }
            shared.clock.sleep_until(shared.clock.now() + shared.timing.retry).await;
        }
        #[expect(unreachable_code, reason = "gives the block its type")]
        Some(())
    };
    tokio::select! {
        _ = keeping => {}
        _ = condition.wait_for(|condition| condition.ended) => {}
    }
}

/// Returns when the session has ended: it says so itself, or the server does when it is asked.
async fn watch(beacon: &mut dyn Beacon, shared: &Shared) -> StoreError {
    loop {
        let next = shared.clock.now() + shared.timing.renew_every;
        tokio::select! {
            why = beacon.ended() => return why,
            () = shared.clock.sleep_until(next) => {}
        }
        if let Err(why) = limited(shared, beacon.check()).await {
            return why;
        }
    }
}

async fn limited(
    shared: &Shared,
    request: impl Future<Output = Result<(), StoreError>>,
) -> Result<(), StoreError> {
    let limit = shared.clock.now() + shared.timing.request_timeout;
    tokio::select! {
        answer = request => answer,
        () = shared.clock.sleep_until(limit) => {
            Err(StoreError::new("asking for the beacon", "no answer in time"))
        }
    }
}
