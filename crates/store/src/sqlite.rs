//! SQLite: one process, one file, nothing to install. A file per noun; this one opens the store and says what all of them share.
//!
//! One connection writes, a few read. A commit is on the disk before it is answered (WAL with `synchronous=FULL`): nothing that
//! was promised is lost to a power cut.

mod account;
mod add;
mod admit;
mod alert;
mod certificate;
mod challenge;
mod claim;
mod clock;
mod commit;
mod domain;
mod edge;
mod event;
mod fence;
mod key;
mod lock;
mod maintenance;
mod migration;
mod order;
mod patch;
mod removal;
mod replica;
mod restore;
mod rollback;
mod stranger;
mod task;
mod token;
mod vital;
mod webhook;
mod work;
mod writer;

use std::{path::Path, time::Duration};

use holdfast_model::{State, Timestamp, Wanted};
use sqlx::{
    Sqlite,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::{OnceCell, watch};

pub(crate) use self::migration::migrate;
use self::{
    clock::now,
    writer::{Tx, Writer},
};
use crate::{
    MasterKey, OpenOptions, Result, Secret, Topic, Wake,
    bell::Bell,
    keyring::Keyring,
    pool::{Pool, Statement},
};

/// More readers than this wait for the disk, not for each other.
const READERS: u32 = 4;

/// The store on SQLite.
pub(crate) struct SqliteStore {
    readers: Pool<Sqlite>,
    keyring: Keyring,
    bell: Bell,
    cluster_secret: OnceCell<Secret>,
    writer: Writer,
}

fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(10))
        .statement_cache_capacity(256)
        .pragma("journal_size_limit", "67108864")
}

/// Under which master key the file was sealed.
pub(crate) async fn master_key_id(file: &str) -> Result<Option<String>> {
    let file = Path::new(file);
    key::master_key_id(&Writer::new(file, options(file))?).await
}

impl SqliteStore {
    pub(crate) async fn open(
        file: &str,
        master: Option<MasterKey>,
        settings: &OpenOptions,
    ) -> Result<Self> {
        let file = Path::new(file);
        let writer = Writer::new(file, options(file))?;
        let reader = options(file).pragma("query_only", "ON");
        let store = Self {
            readers: Pool::new(reader, settings.connections.min(READERS), "BEGIN"),
            keyring: Keyring::new(master),
            bell: Bell::new(),
            cluster_secret: OnceCell::new(),
            writer,
        };
        store.take_master_key().await?;
        store.void_claims().await?;
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

fn sql(text: &'static str) -> Statement<Sqlite> {
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
