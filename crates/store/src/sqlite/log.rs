//! SQLite's log, kept open. What is committed lies in the log alone until it is written into the database file. While one connection stays
//! open SQLite never removes its log, so a log that is gone was removed by somebody else; what it holds can still be saved by that
//! connection, and by nobody once this process has ended.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use tokio::{
    sync::{Mutex, OnceCell},
    time::{Instant, sleep},
};

use super::place::{Identity, beside};
use crate::Outage;

/// How long the last connection of this process is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked at.
const PACE: Duration = Duration::from_millis(5);

/// The log and its index, as they were when they were opened.
pub(super) struct Log {
    files: [(PathBuf, Option<Identity>); 2],
    /// Does nothing but keep the log, until it ends.
    connection: Mutex<Option<SqliteConnection>>,
    saved: OnceCell<()>,
}

impl Log {
    /// Opens the log of a database, which is set up for one where it was not.
    pub(super) async fn open(file: &Path, options: &SqliteConnectOptions) -> sqlx::Result<Self> {
        let mut connection = options.connect().await?;
        // SQLite opens both files when it first reads.
        connection.execute("SELECT count(*) FROM sqlite_schema").await?;
        let files = ["-wal", "-shm"].map(|suffix| {
            let path = beside(file, suffix);
            let identity = Identity::at(&path).ok().flatten();
            (path, identity)
        });
        Ok(Self { files, connection: Mutex::new(Some(connection)), saved: OnceCell::new() })
    }

    /// Fails when what is committed would go to a file that nobody finds.
    pub(super) fn check(&self) -> Result<(), Outage> {
        let is_there = |(path, opened): &(PathBuf, Option<Identity>)| {
            opened.is_none() || Identity::at(path).map_or(true, |now| now == *opened)
        };
        if self.files.iter().all(is_there) { Ok(()) } else { Err(Outage::LogRemoved) }
    }

    /// The log's index: SQLite's lock for writing lies on it.
    pub(super) fn index(&self) -> Option<Identity> {
        self.files[1].1
    }

    /// Writes what a removed log holds into the database file, once. Whoever asks meanwhile waits for it.
    pub(super) async fn save(&self) {
        self.saved.get_or_init(|| self.try_to_save()).await;
    }

    async fn try_to_save(&self) {
        tracing::error!("{}", Outage::LogRemoved);
        match self.write_back().await {
            Ok(true) => {
                tracing::warn!("everything that the log held was saved into the database file");
            }
            Ok(false) => tracing::error!(
                "not all of the removed log could be saved: another process reads the database; the last changes are lost"
            ),
            Err(error) => tracing::error!(
                %error,
                "what the removed log held could not be saved; the last changes may be lost"
            ),
        }
    }

    /// Writes the log into the database file and empties it. Was that all of it?
    async fn write_back(&self) -> sqlx::Result<bool> {
        let mut connection = self.connection.lock().await;
        let Some(connection) = connection.as_mut() else { return Ok(true) };
        let row = connection.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        let (frames, written): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        Ok(frames == written)
    }

    /// Writes the log into the database file and closes it. With the last connection that closes, SQLite removes the log.
    pub(super) async fn close(&self) -> sqlx::Result<()> {
        self.write_back().await?;
        if let Some(connection) = self.connection.lock().await.take() {
            connection.close().await?;
        }
        // Connections that were dropped close behind our back; another process may have the file open for long.
        let deadline = Instant::now() + PATIENCE;
        while self.files.iter().any(|(path, _)| path.exists()) && Instant::now() < deadline {
            sleep(PACE).await;
        }
        Ok(())
    }
}
