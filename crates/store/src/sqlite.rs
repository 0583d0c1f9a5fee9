//! SQLite: one process, one file, nothing to install. A file per noun; this one opens the store and says what all of them share.
//!
//! One connection writes, a few read. A commit is on the disk before it is answered (WAL with `synchronous=FULL`): nothing that
//! was promised is lost to a power cut.

mod account;
mod add;
mod admit;
mod alert;
mod ca;
mod ca_failure;
mod ca_wait;
mod certificate;
mod challenge;
mod claim;
mod clock;
mod commit;
mod difference;
mod domain;
mod edge;
mod event;
mod fence;
mod held;
mod holder;
mod key;
mod lock;
mod log;
mod maintenance;
mod migration;
mod moment;
mod order;
mod patch;
mod place;
mod removal;
mod replica;
mod restore;
mod retention;
mod rollback;
mod room;
mod statistics;
mod stranger;
mod task;
mod token;
mod vital;
mod webhook;
mod work;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use holdfast_lease::session::Life;
use holdfast_model::{State, Timestamp, Wanted};
use sqlx::{
    ConnectOptions as _, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    sync::{OnceCell, watch},
    time::timeout,
};

pub use self::place::{Misplacement, check_place, resolve};
pub(crate) use self::{
    clock::now,
    lock::FileLock,
    migration::migrate,
    place::{KEPT, beside, is_of},
};
use self::{
    held::Held,
    room::Room,
    writer::{Tx, Writer},
};
use crate::{
    Error, MasterKey, OpenOptions, Result, Secret, Topic, Wake,
    bell::Bell,
    keyring::Keyring,
    pool::{PATIENCE, Pool, Source, Statement},
    shortage::Shortage,
};

/// More readers than this wait for the disk, not for each other.
const READERS: u32 = 4;

/// How much longer than for a lock a connection is waited for.
const MARGIN: Duration = Duration::from_secs(1);

/// The store on SQLite.
pub(crate) struct SqliteStore {
    readers: Pool<Sqlite>,
    keyring: Keyring,
    bell: Bell,
    cluster_secret: OnceCell<Secret>,
    room: Room,
    /// The write-ahead log beside the file.
    log: PathBuf,
    writer: Writer,
}

fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(PATIENCE)
        .statement_cache_capacity(256)
        .pragma("journal_size_limit", "67108864")
}

/// Connections that read.
struct Readers {
    options: SqliteConnectOptions,
    held: Arc<Held>,
}

#[async_trait]
impl Source<Sqlite> for Readers {
    async fn connect(&self, at: &'static str, _: &Shortage) -> Result<SqliteConnection> {
        // One that came later would open another log than the others have.
        self.held.check_and_save(at).await?;
        let failed = |source| Error::Database { at, source };
        // Whose lock is in the way is told by SQLite itself, when it has waited for as long.
        let made = timeout(PATIENCE + MARGIN, self.options.connect()).await;
        made.map_err(|_| failed(sqlx::Error::PoolTimedOut))?.map_err(failed)
    }

    fn ends_connection(&self, error: &sqlx::Error) -> bool {
        error.as_database_error().is_none()
    }

    fn longest_life(&self) -> Duration {
        Life::LONGEST
    }

    #[cfg(test)]
    async fn measure(&self, at: &'static str, connection: &mut SqliteConnection) {
        crate::plans::measure(at, connection).await;
    }
}

/// Under which master key the file was sealed.
pub(crate) async fn master_key_id(file: &str) -> Result<Option<String>> {
    let held = Held::take(Path::new(file)).await?;
    let writer = Writer::new(held, Arc::default());
    let id = key::master_key_id(&writer).await?;
    writer.close().await?;
    Ok(id)
}

impl SqliteStore {
    pub(crate) async fn open(
        file: &str,
        master: Option<MasterKey>,
        settings: &OpenOptions,
    ) -> Result<Self> {
        let held = Held::take(Path::new(file)).await?;
        let file = held.path();
        let reader =
            Readers { options: options(file).pragma("query_only", "ON"), held: held.clone() };
        let (room, log) = (Room::of(file), beside(file, "-wal"));
        let readers = Pool::new(reader, settings.connections.min(READERS), "BEGIN");
        let writer = Writer::new(held, readers.damage().clone());
        let store = Self {
            readers,
            keyring: Keyring::new(master),
            bell: Bell::new(),
            cluster_secret: OnceCell::new(),
            room,
            log,
            writer,
        };
        store.take_master_key().await?;
        store.void_claims().await?;
        if let Err(error) = store.optimize(None).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "statistics could not be refreshed; it is tried again daily");
        }
        Ok(store)
    }

    fn tell(&self, topics: &[Topic]) {
        topics.iter().for_each(|topic| self.bell.ring(*topic));
    }
}

impl Wake for SqliteStore {
    fn wake(&self, topic: Topic) -> watch::Receiver<u64> {
        self.bell.listen(topic)
    }
}

#[cfg_attr(test, track_caller)]
fn sql(text: &'static str) -> Statement<Sqlite> {
    #[cfg(test)]
    crate::plans::note(text);
    sqlx::query(text)
}

fn time(at: Timestamp) -> i64 {
    at.as_micros()
}

fn maybe_time(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

/// The states this release knows, as a JSON list; rows in others are left alone.
fn known_states() -> String {
    let names: Vec<_> = State::ALL.iter().map(|state| format!("\"{state}\"")).collect();
    format!("[{}]", names.join(","))
}

/// The requests this release knows, likewise.
fn known_wants() -> String {
    let names: Vec<_> =
        Wanted::ALL.iter().map(|wanted| format!("\"{}\"", wanted.as_str())).collect();
    format!("[{}]", names.join(","))
}
