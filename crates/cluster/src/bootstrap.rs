//! The first start: what must be made once is made by whoever holds `bootstrap-coordinator`. The unique rows that make things
//! "once" stand by themselves; the lease lets the others wait for them instead of running into them.

use std::{sync::Arc, time::Duration};

use holdfast_lease::{Elector, Holder, Name, Options, Wish, clock::BootClock};
use tokio::time::timeout;

use crate::{BOOTSTRAP, Backend, Result};

/// Shorter than other leases: whoever starts should not wait long for one who was killed while starting.
const LEASE: Duration = Duration::from_secs(6);
/// How long to wait for others; longer than one of them can hold it after its death.
const PATIENCE: Duration = Duration::from_secs(12);

/// Does what is done once, while nobody else does.
///
/// # Errors
/// When leases cannot be kept at all with this configuration. One that cannot be had in time is done without.
pub async fn bootstrap<T>(
    backend: &Backend,
    key_prefix: &str,
    instance: &str,
    work: impl Future<Output = T>,
) -> Result<T> {
    if backend.is_alone() {
        return Ok(work.await);
    }
    let mut options = Options::with_lease(LEASE, LEASE / 3);
    key_prefix.clone_into(&mut options.key_prefix);
    let store = backend.open(&options)?;
    let elector = Elector::start_as(store, &options, Holder::new(instance)?, Arc::new(BootClock))?;
    let done = around(&elector, &Name::new(BOOTSTRAP)?, PATIENCE, work).await;
    elector.shut_down(LEASE / 3).await.ok();
    Ok(done)
}

/// Does work while this process holds a lease, or, if it cannot be had in time, without it.
pub(crate) async fn around<T>(
    elector: &Elector,
    name: &Name,
    patience: Duration,
    work: impl Future<Output = T>,
) -> T {
    // Dropped at the end, it lets go, and wakes who waits.
    let lease = elector.contend(name, Wish::default());
    match timeout(patience, lease.elected()).await {
        Ok(Ok(term)) => tracing::debug!(lease = %name, %term, "held for a moment"),
        Ok(Err(error)) => tracing::warn!(lease = %name, %error, "going on without the lease"),
        Err(_) => {
            tracing::warn!(lease = %name, ?patience, "not to be had in time; going on without it");
        }
    }
    work.await
}
