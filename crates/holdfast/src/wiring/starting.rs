//! Opening the store, which may wait for others: for a lock on the schema, for a database that is just starting. It does not wait in
//! silence, and a replica answers its probes meanwhile.

use std::{pin::pin, time::Duration};

use holdfast_server::{serve, starting_router};
use holdfast_store::{SharedStore, tell_waits};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{replica, store};
use crate::{config::Config, failure::Failure};

/// A start that takes longer answers probes meanwhile.
const SOON: Duration = Duration::from_secs(1);

/// The longest wait for answers under way, before the address is another's.
const GRACE: Duration = Duration::from_secs(2);

/// Opens the store for a server. From a moment on `/health/live` is 200 and the rest of `/health` 503, with what is waited for.
pub(crate) async fn begin(config: &Config, instance: &str) -> Result<SharedStore, Failure> {
    let (sender, waits) = watch::channel(None);
    let mut opening = pin!(tell_waits(sender, store::begin_patiently(config, instance)));
    if let Ok(opened) = timeout(SOON, &mut opening).await {
        return opened;
    }
    let stop = CancellationToken::new();
    // Also where this future is dropped: a shutdown ends it.
    let _stopping = stop.clone().drop_guard();
    let probes = answer_probes(config, waits, stop.clone()).await;
    let opened = opening.await;
    stop.cancel();
    if let Some(probes) = probes {
        timeout(GRACE, probes).await.ok();
    }
    opened
}

/// An address that cannot be had is no reason not to open the store: the listener that is opened next says so.
async fn answer_probes(
    config: &Config,
    waits: watch::Receiver<Option<String>>,
    stop: CancellationToken,
) -> Option<JoinHandle<()>> {
    match replica::door(&config.server).await {
        Ok(door) => Some(tokio::spawn(serve(door, starting_router(waits), stop, Duration::ZERO))),
        Err(why) => {
            tracing::warn!(%why, "probes are not answered before the database is open");
            None
        }
    }
}

/// Opens the store for a command, and says on standard error what it waits for.
pub(crate) async fn saying_waits<T>(opening: impl Future<Output = T>) -> T {
    let (sender, mut waits) = watch::channel(None);
    let mut opening = pin!(tell_waits(sender, opening));
    loop {
        tokio::select! {
            opened = &mut opening => return opened,
            Ok(()) = waits.changed() => {
                if let Some(what) = waits.borrow_and_update().as_deref() {
                    eprintln!("waiting: {what}");
                }
            }
        }
    }
}
