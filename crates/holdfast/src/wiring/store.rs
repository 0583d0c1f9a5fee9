//! The store, opened as configured: its schema brought up to date, its master key at hand.

use std::time::Duration;

use holdfast_store::{Error, MasterKey, OpenOptions, SharedStore};
use tokio::time::{Instant, sleep};

use super::master_key;
use crate::{
    config::Config,
    failure::{Failure, chain},
};

/// How long a server waits for a database that starts beside it.
const PATIENCE: Duration = Duration::from_secs(8);

/// How often it looks.
const PACE: Duration = Duration::from_millis(500);

/// Opens it. A master key is made only when the database holds nothing sealed.
pub(crate) async fn open(config: &Config) -> Result<SharedStore, Failure> {
    let url = config.database.url.expose();
    if let Some(key) = master_key::configured(&config.security)? {
        return connect(&url, Some(key)).await;
    }
    // Without a key it opens only if there is nothing that would need one.
    drop(connect(&url, None).await?);
    let Some(path) = &config.security.master_key_file else { return connect(&url, None).await };
    let key = master_key::make(path)?;
    tracing::info!(file = %path.display(), id = key.id(), "a master key was made");
    let opened = holdfast_store::open(&url, Some(key), OpenOptions::default()).await;
    if matches!(opened, Err(Error::WrongMasterKey { .. })) {
        // Another replica made one in the same moment, and it alone counts: ours has sealed nothing.
        std::fs::remove_file(path).ok();
        return Err(Failure::failed(format!(
            "Another replica made the master key in this very moment; copy its key file to {} and start again.",
            path.display()
        )));
    }
    opened.map_err(failed)
}

/// Opens it for a server, which waits a while for a database that is just starting.
pub(crate) async fn open_patiently(config: &Config) -> Result<SharedStore, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open(config).await {
            Err(Failure::Unreachable(why)) if Instant::now() < deadline => {
                tracing::warn!(%why, "the database is not there yet");
                sleep(PACE).await;
            }
            opened => return opened,
        }
    }
}

async fn connect(url: &str, key: Option<MasterKey>) -> Result<SharedStore, Failure> {
    holdfast_store::open(url, key, OpenOptions::default()).await.map_err(failed)
}

/// A database that does not answer was not reached; whatever else it says is a failure.
pub(crate) fn failed(error: Error) -> Failure {
    let text = chain(&error);
    match error.is_transient() {
        true => Failure::unreachable(format!(
            "{text}; see that the database runs and that database.url is right."
        )),
        false => Failure::failed(format!("{text}.")),
    }
}
