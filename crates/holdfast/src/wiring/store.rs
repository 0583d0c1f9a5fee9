//! The store, opened as configured: its schema brought up to date, its master key at hand.

use std::{path::Path, time::Duration};

use holdfast_store::{Error, MasterKey, OpenOptions, SharedStore};
use tokio::time::{Instant, sleep};

use super::{admin_token, cluster, marker::Marker, master_key};
use crate::{
    config::{Config, DatabaseUrl, Security},
    failure::{Failure, chain},
};

/// How long a server waits for a database that starts beside it.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a look at every page of a database file may take.
pub(crate) const CHECK: Duration = Duration::from_secs(60);

/// How often it looks.
const PACE: Duration = Duration::from_millis(500);

/// Opens it. A master key is made only when the database holds nothing sealed. An empty database is not taken for new where one
/// was set up before.
pub(crate) async fn open(config: &Config) -> Result<SharedStore, Failure> {
    if let Some(marker) = Marker::of(config) {
        marker.check().await?;
    }
    open_at(&config.database.url, &config.security).await
}

/// Refuses a database file that is damaged: whatever is written to it makes that worse. False where not all of it could be looked at in
/// time. PostgreSQL checks what it reads by itself.
pub(crate) async fn refuse_damaged(url: &DatabaseUrl) -> Result<bool, Failure> {
    let DatabaseUrl::Sqlite(file) = url else { return Ok(true) };
    match holdfast_store::check_file(file, CHECK).await {
        Ok(is_whole) => Ok(is_whole),
        Err(error) => match error.outage().filter(|outage| !outage.is_transient()) {
            Some(outage) => Err(Failure::failed(format!("{}. {}", chain(&error), outage.fix()))),
            // Opening it says why better.
            None => Ok(true),
        },
    }
}

/// Opens the database of this URL, also one that was lost: for a restore.
pub(crate) async fn open_at(
    url: &DatabaseUrl,
    security: &Security,
) -> Result<SharedStore, Failure> {
    let url = url.expose();
    let (key, made) = match master_key::configured(security)? {
        Some(key) => (key, None),
        None => first_key(security, &url).await?,
    };
    match (holdfast_store::open(&url, Some(key), OpenOptions::default()).await, made) {
        (Err(Error::WrongMasterKey { .. }), Some(path)) => Err(outrun(path)),
        (opened, _) => opened.map_err(failed),
    }
}

/// Makes a master key and says where it is; if something is sealed already, whoever sealed it may have left the key there
/// since we looked.
async fn first_key<'a>(
    security: &'a Security,
    url: &str,
) -> Result<(MasterKey, Option<&'a Path>), Failure> {
    holdfast_store::migrate(url).await.map_err(failed)?;
    let sealed_under = holdfast_store::master_key_id(url).await.map_err(failed)?;
    match (sealed_under, &security.master_key_file) {
        (None, Some(path)) => Ok((master_key::make(path)?, Some(path))),
        (None, None) => {
            Err(Failure::usage("There is no master key; set security.master_key_file."))
        }
        (Some(id), _) => match master_key::configured(security)? {
            Some(key) => Ok((key, None)),
            None => Err(failed(Error::MasterKeyMissing(id))),
        },
    }
}

/// Another replica made a key in the same moment, and it alone counts: ours has sealed nothing.
fn outrun(path: &Path) -> Failure {
    std::fs::remove_file(path).ok();
    let path = path.display();
    Failure::failed(format!(
        "Another replica made the master key in this very moment; copy its key file to {path} and start again."
    ))
}

/// Opens it for a server and sees to it that somebody can use it. What a first start makes, one of those that start at once makes.
pub(crate) async fn begin(config: &Config, instance: &str) -> Result<SharedStore, Failure> {
    let store = match is_first_start(config).await? {
        true => cluster::bootstrap(config, instance, open(config)).await??,
        false => open(config).await?,
    };
    let ensured = admin_token::ensure(&store, config);
    match admin_token::is_to_be_made(&store, config).await? {
        true => cluster::bootstrap(config, instance, ensured).await??,
        false => ensured.await?,
    }
    if let Some(marker) = Marker::of(config) {
        // Seals something, if nothing is sealed yet: what the marker says is true from then on.
        store.cluster_secret().await.map_err(failed)?;
        marker.set();
    }
    Ok(store)
}

/// Does a database that others may use at the same time hold nothing yet?
async fn is_first_start(config: &Config) -> Result<bool, Failure> {
    if matches!(config.database.url, DatabaseUrl::Sqlite(_)) {
        return Ok(false);
    }
    let url = config.database.url.expose();
    holdfast_store::migrate(&url).await.map_err(failed)?;
    let sealed_under = holdfast_store::master_key_id(&url).await.map_err(failed)?;
    Ok(sealed_under.is_none())
}

/// The same, with some patience for a database that is just starting.
pub(crate) async fn begin_patiently(
    config: &Config,
    instance: &str,
) -> Result<SharedStore, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match begin(config, instance).await {
            Err(Failure::Unreachable(why)) if Instant::now() < deadline => {
                tracing::warn!(%why, "the database is not there yet");
                holdfast_store::waits_for(Some(why));
                sleep(PACE).await;
            }
            opened => return opened,
        }
    }
}

/// Ends the use of a database in order. What was committed is safe without it, so a failure is only told.
pub(crate) async fn close(store: &SharedStore) {
    if let Err(error) = store.close().await {
        let error = chain(&error);
        tracing::warn!(
            error,
            "the database was not closed in order; its log is read at the next start"
        );
        // Its connections end with the process, and in no other way: the last to be closed would write the log into the file.
        std::mem::forget(store.clone());
    }
}

/// The same after a replica has ended, unless that would do harm.
pub(crate) async fn close_after<T>(store: &SharedStore, ended: &Result<T, Failure>) {
    if !matches!(ended, Err(Failure::AtOnce(_))) {
        close(store).await;
    }
}

/// A database that does not answer was not reached; whatever else it says is a failure.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn failed(error: Error) -> Failure {
    let text = chain(&error);
    if let Error::Misplaced { why, .. } = error {
        return Failure::failed(format!("{text}. {}", why.fix()));
    }
    match (error.outage(), error.is_transient()) {
        (Some(outage), true) => {
            Failure::unreachable(format!("{outage} ({text}). {}", outage.fix()))
        }
        (Some(outage), false) => Failure::failed(format!("{outage} ({text}). {}", outage.fix())),
        (None, true) => Failure::unreachable(format!(
            "{text}; see that the database runs and that database.url is right."
        )),
        (None, false) => Failure::failed(format!("{text}.")),
    }
}
