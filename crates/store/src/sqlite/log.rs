//! SQLite's log, kept open. What is committed lies in the log alone until it is written into the database file. While one connection stays
//! open SQLite never removes its log, so a log that is gone was removed by somebody else; what it holds can still be read by this
//! process, and by nobody once it has ended.

use std::{
    fs::File,
    io,
    mem::ManuallyDrop,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
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
use crate::{Error, Outage, Result};

/// How long the last connection of this process is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// As `PATIENCE`, for SQLite.
const SOON: &str = "PRAGMA busy_timeout = 1000";

/// How often it is looked at.
const PACE: Duration = Duration::from_millis(5);

/// The log and its index, as they were when they were opened.
pub(super) struct Log {
    files: [(PathBuf, Option<Identity>); 2],
    length: Length,
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
        let length = Length::of(&files[1].0);
        Ok(Self { files, length, connection: Mutex::new(Some(connection)), saved: OnceCell::new() })
    }

    /// Fails when what is committed would go to a file that nobody finds.
    pub(super) fn check(&self) -> Result<(), Outage> {
        let is_there = |(path, opened): &(PathBuf, Option<Identity>)| {
            opened.is_none() || Identity::at(path).map_or(true, |now| now == *opened)
        };
        match self.files.iter().all(is_there) && !self.length.is_cut_off(&self.files[0].0) {
            true => Ok(()),
            false => Err(Outage::LogRemoved),
        }
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.files[0].1
    }

    /// The log's index: SQLite's lock for writing lies on it.
    pub(super) fn index(&self) -> Option<Identity> {
        self.files[1].1
    }

    /// Puts a removed log back in its place, once; nothing is committed from then on. The database file is left alone: half a log in it,
    /// on a full disk or under a reader, would damage it.
    pub(super) async fn save(&self, at: &'static str) -> Result<()> {
        self.saved.get_or_try_init(|| self.put_back(at)).await.copied()
    }

    async fn put_back(&self, at: &'static str) -> Result<()> {
        let [(path, Some(identity)), _] = &self.files else { return Ok(()) };
        if Identity::at(path).is_ok_and(|there| there == Some(*identity)) {
            tracing::error!("{}", Outage::LogRemoved);
            return Ok(());
        }
        let mut connection = self.connection.lock().await;
        let Some(connection) = connection.as_mut() else { return Ok(()) };
        // Whoever commits at this moment is waited for. The lock is not given back.
        connection
            .execute("BEGIN IMMEDIATE")
            .await
            .map_err(|source| Error::Database { at, source })?;
        let (path, identity) = (path.clone(), *identity);
        let put = tokio::task::spawn_blocking(move || copy_open_file(identity, &path)).await;
        let failed = |source| Error::File { path: self.files[0].0.display().to_string(), source };
        match put.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(()) => tracing::error!("{}; the log was put back", Outage::LogRemoved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::error!(
                    "{}; this system does not let it be put back, and the last changes may be lost",
                    Outage::LogRemoved
                );
            }
            Err(error) => {
                connection.execute("ROLLBACK").await.ok();
                return Err(failed(error));
            }
        }
        Ok(())
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
        if !self.write_back().await? {
            tracing::warn!(
                "another process reads the database: the last changes stay in its log, without which a copy of the file is not whole"
            );
        }
        if let Some(connection) = self.connection.lock().await.take() {
            close_without_log(connection).await?;
        }
        // Connections that were dropped close behind our back; another process may have the file open for long.
        let deadline = Instant::now() + PATIENCE;
        while self.files.iter().any(|(path, _)| path.exists()) && Instant::now() < deadline {
            sleep(PACE).await;
        }
        Ok(())
    }
}

/// How long the log has to be, by the head of its index. A log that was cut off is not noticed by SQLite, which would write what it reads
/// beyond its end, nothing, over what is whole.
struct Length(Option<ManuallyDrop<File>>);

impl Length {
    /// Closing a descriptor of the index takes SQLite's locks on it away: this one stays open until the process ends.
    fn of(index: &Path) -> Self {
        Self(File::open(index).ok().map(ManuallyDrop::new))
    }

    fn is_cut_off(&self, log: &Path) -> bool {
        let before = self.least();
        let Ok(there) = std::fs::metadata(log) else { return false };
        // Whoever empties it in order says so in the index first.
        before.is_some_and(|least| there.len() < least) && self.least() == before
    }

    fn least(&self) -> Option<u64> {
        /// Where the head tells the size of a page and the number of frames, in the order of bytes of this machine.
        const PLACE: u64 = 14;
        let mut told = [0; 6];
        self.0.as_ref()?.read_exact_at(&mut told, PLACE).ok()?;
        let [a, b, c, d, e, f] = told;
        let page = match u16::from_ne_bytes([a, b]) {
            1 => 65_536,
            page => u64::from(page),
        };
        match u64::from(u32::from_ne_bytes([c, d, e, f])) {
            0 => Some(0),
            frames => Some(32 + frames * (24 + page)),
        }
    }
}

/// Closes the last connection, so that the file says of itself that it has no log anywhere: see `place`. Not while somebody else has it open.
pub(super) async fn close_without_log(mut connection: SqliteConnection) -> sqlx::Result<()> {
    connection.execute(SOON).await?;
    if let Err(error) = connection.execute("PRAGMA journal_mode = DELETE").await {
        tracing::debug!(%error, "the database stays in a mode with a log");
    }
    connection.close().await
}

/// Where the kernel lists what this process has open.
const OPEN: &str = "/proc/self/fd";

/// Writes a file that has no name any more, and that this process has open, to a path.
fn copy_open_file(identity: Identity, path: &Path) -> io::Result<()> {
    let open = std::fs::read_dir(OPEN)?.flatten().map(|entry| entry.path());
    let nameless = open
        .into_iter()
        .find(|open| Identity::at(open).is_ok_and(|there| there == Some(identity)))
        .ok_or(io::ErrorKind::NotFound)?;
    let unfinished = beside(path, ".unfinished");
    files::write(Point::FILE_DATABASE, &unfinished, b"", Access::Private).map_err(cause)?;
    let copied = File::options().write(true).open(&unfinished).and_then(|mut copy| {
        io::copy(&mut File::open(nameless)?, &mut copy)?;
        copy.sync_all()
    });
    if let Err(error) = copied {
        // What is half there takes the room that is missing.
        std::fs::remove_file(&unfinished).ok();
        return Err(error);
    }
    files::replace(Point::FILE_DATABASE, &unfinished, path).map_err(cause)
}

fn cause(error: files::Error) -> io::Error {
    match error {
        files::Error::Write { source, .. } => source,
        other => io::Error::other(other),
    }
}
