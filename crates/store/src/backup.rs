//! Backing up and replacing an SQLite database file. PostgreSQL has tools of its own for both.
//!
//! A backup is one file, made from a snapshot while the server writes on. A restore works on a copy beside the database, which takes
//! its place in one step: whenever the process is killed, the old database or the new one is there, whole. The old one stays
//! under another name.

use std::{
    fs::{File, Permissions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    time::Duration,
};

use holdfast_gateway::{
    files::{self, Access},
    point::Point,
};
use rustix::{fs::OFlags, process::geteuid};
use sqlx::{
    ConnectOptions as _, Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions,
};
use tokio::time::{Instant, sleep};

use crate::{
    Error, Outage,
    migration::{SQLITE, newest},
    sqlite::{FileLock, KEPT, beside, check_place, is_of, now, resolve},
};

/// How long a lock that another connection holds is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked at.
const PACE: Duration = Duration::from_millis(20);

/// A look at all pages asks so often, in steps of SQLite's machine, whether its time is up.
const STEPS: i32 = 1_000;

/// What SQLite reads into a database file that it lies beside, by what is added to the file's name.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Why a database was not backed up or replaced.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no such file.
    #[error("{0} does not exist")]
    Missing(String),
    /// There is nothing in the file.
    #[error("{0} is empty")]
    Empty(String),
    /// A backup is already there.
    #[error("{0} already exists")]
    Exists(String),
    /// Somebody else makes or reads a backup in the same directory.
    #[error("{0}: another backup or restore is being made there; try again when it has ended")]
    Underway(String),
    /// The file holds something else.
    #[error("{0} is not a database of Holdfast")]
    NotOurs(String),
    /// The file is damaged.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// What SQLite found.
        why: String,
    },
    /// Another process has it open.
    #[error("{0} is open in another process (`fuser {0}` names it); end that one and try again")]
    Busy(String),
    /// A newer release wrote it.
    #[error("{path} was written by a newer release (schema {applied}; this release knows {known})")]
    Newer {
        /// The file.
        path: String,
        /// The newest step of its schema.
        applied: i64,
        /// The newest step this release knows.
        known: i64,
    },
    /// Backup and database are one file, or the backup is a file that belongs to the database.
    #[error("{0} is the database itself, or one of the files that belong to it")]
    Itself(String),
    /// A directory, a device or a pipe.
    #[error("{0} is not a regular file")]
    NotAFile(String),
    /// SQLite could not do it.
    #[error("{path} cannot be read or written")]
    Database {
        /// The file.
        path: String,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The file system refused.
    #[error(transparent)]
    File(#[from] files::Error),
    /// A process uses the database.
    #[error(transparent)]
    Store(#[from] Error),
}

impl BackupError {
    /// What keeps the file from being used, if that is what this error says.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Damaged { .. } => Some(Outage::Corrupt),
            Self::NotOurs(_) => Some(Outage::NotADatabase),
            Self::Busy(_) => Some(Outage::Locked),
            Self::Database { source, .. } => Outage::of(source),
            Self::Store(error) => error.outage(),
            _ => None,
        }
    }
}

type Result<T, E = BackupError> = std::result::Result<T, E>;

/// Copies a database into a file of its own, safely also while a server writes to it; the copy is checked before it gets its name.
/// Gives its size.
///
/// # Errors
/// When the database is missing, empty or damaged, or the file is already there and not to be overwritten.
pub async fn back_up(database: &Path, to: &Path, overwrite: bool) -> Result<u64> {
    exists(database)?;
    let database = resolved(database)?;
    see_whole(&database)?;
    let unfinished = beside(to, ".unfinished");
    let mut touched = with_logs(to).chain(with_logs(&unfinished));
    if let Some(own) = touched.find(|file| is_of(&database, file)) {
        return Err(BackupError::Itself(shown(&own)));
    }
    if std::fs::metadata(to).is_ok_and(|there| !there.is_file()) {
        return Err(BackupError::NotAFile(shown(to)));
    }
    let _directory = hold_directory(to, File::try_lock).await?;
    if !overwrite && let Some(there) = with_logs(to).find(|file| file.exists()) {
        return Err(BackupError::Exists(shown(&there)));
    }
    let size = place_copy(&database, to, &unfinished, overwrite).await;
    size.inspect_err(|_| {
        for file in with_logs(&unfinished) {
            std::fs::remove_file(file).ok();
        }
    })
}

/// Looks at every page of a database file, for at most this long; false where the time was too short for all of them. Nothing
/// is changed.
///
/// # Errors
/// When the file is missing, empty, damaged or no database, or cannot be read.
pub async fn check_file(database: &Path, limit: Duration) -> Result<bool> {
    exists(database)?;
    let mut connection = reading(database).connect().await.map_err(|e| failed(database, e))?;
    let deadline = Instant::now() + limit;
    let mut handle = connection.lock_handle().await.map_err(|e| failed(database, e))?;
    handle.set_progress_handler(STEPS, move || Instant::now() < deadline);
    drop(handle);
    match pages(&mut connection, database).await {
        Err(BackupError::Database { source, .. }) if is_interrupted(&source) => Ok(false),
        looked => looked.map(|()| true),
    }
}

/// Copies, checks the copy and gives it its name.
async fn place_copy(database: &Path, to: &Path, unfinished: &Path, overwrite: bool) -> Result<u64> {
    remove_logs(unfinished)?;
    copy(&reading(database), database, unfinished, to).await?;
    check(unfinished, &reading(unfinished)).await?;
    let size = std::fs::metadata(unfinished).map_or(0, |metadata| metadata.len());
    match overwrite {
        true => {
            remove_logs(to)?;
            files::replace(Point::FILE_DATABASE, unfinished, to)?;
        }
        false => files::place_new(Point::FILE_DATABASE, unfinished, to)?,
    }
    Ok(size)
}

/// A restore under way: the database is held against other processes, and a checked copy of the backup lies beside it.
pub struct Replacement {
    database: PathBuf,
    copy: PathBuf,
    ownership: Ownership,
    _lock: FileLock,
}

impl Replacement {
    /// Checks the backup, takes the database for this process and copies the backup beside it. The database itself is not touched.
    ///
    /// # Errors
    /// When the backup is none, or damaged, or a process has the database.
    pub async fn prepare(backup: &Path, database: &Path) -> Result<Self> {
        exists(backup)?;
        let database = resolved(database)?;
        if is_of(&database, backup) {
            return Err(BackupError::Itself(shown(backup)));
        }
        let _directory = match hold_directory(backup, File::try_lock_shared).await {
            Err(error @ BackupError::Underway(_)) => return Err(error),
            // A backup may be read where its directory may not.
            held => held.ok(),
        };
        let source = reading(backup).immutable(!beside(backup, "-wal").exists());
        check(backup, &source).await?;
        let ownership = Ownership::of_replacement(&database)?;
        let lock = take(&database, ownership)?;
        let beside = beside(&database, ".restoring");
        let replacement = Self { database, copy: beside, ownership, _lock: lock };
        replacement.clear();
        copy(&source, backup, &replacement.copy, &replacement.database).await?;
        Ok(replacement)
    }

    /// The copy: what follows a restore is done to it before it takes the database's place.
    #[must_use]
    pub fn copy(&self) -> &Path {
        &self.copy
    }

    /// Puts the copy in the database's place. Nobody may have it open any more. Gives the name under which the old database is kept.
    ///
    /// # Errors
    /// When the copy is still open, or the file system refuses; the old database is then as it was.
    pub async fn put_in_place(self) -> Result<Option<PathBuf>> {
        settle(&self.copy).await?;
        check(&self.copy, &reading(&self.copy)).await?;
        self.ownership.give(&self.copy)?;
        let is_empty = std::fs::metadata(&self.database).map_or(0, |old| old.len()) == 0;
        let kept = if is_empty { None } else { Some(self.keep_old().await?) };
        // What is left of a log belongs to the old database and must never be read into the new one.
        remove_logs(&self.database)?;
        files::replace(Point::FILE_DATABASE, &self.copy, &self.database)?;
        Ok(kept)
    }

    /// Removes the copy and what belongs to it, also of a restore that was killed.
    fn clear(&self) {
        for file in with_logs(&self.copy).chain([beside(&self.copy, ".lock")]) {
            std::fs::remove_file(file).ok();
        }
    }

    /// Gives the old database another name beside its own. Its log is folded into it first, so that it is whole by itself; where
    /// it is too damaged for that, the log is kept with it.
    async fn keep_old(&self) -> Result<PathBuf> {
        let kept = free_name(&self.database);
        match settle(&self.database).await {
            Ok(()) => {}
            Err(error @ (BackupError::Damaged { .. } | BackupError::NotOurs(_))) => {
                tracing::warn!(%error, "the old database is damaged; it is kept with its log");
                for suffix in ["-wal", "-journal"] {
                    let log = beside(&self.database, suffix);
                    if log.exists() {
                        files::keep_as(Point::FILE_DATABASE, &log, &beside(&kept, suffix))?;
                    }
                }
            }
            Err(error) => return Err(error),
        }
        files::keep_as(Point::FILE_DATABASE, &self.database, &kept)?;
        Ok(kept)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whose a file is, and who may use it: a restore by root must not shut out the server, which runs as another user.
#[derive(Clone, Copy)]
struct Ownership {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Ownership {
    /// That of the database which is replaced; where there is none, its directory's, for the owner alone.
    fn of_replacement(database: &Path) -> Result<Self> {
        let (metadata, mode) = match std::fs::metadata(database) {
            Ok(metadata) => (Ok(metadata), None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (std::fs::metadata(directory(database)), Some(0o600))
            }
            Err(error) => (Err(error), None),
        };
        let metadata = metadata.map_err(|source| refused(database, source))?;
        let mode = mode.unwrap_or(metadata.mode() & 0o777);
        Ok(Self { owner: metadata.uid(), group: metadata.gid(), mode })
    }

    /// Gives it to a file. What the system refuses to anybody but root is left as it is.
    fn give(self, path: &Path) -> Result<()> {
        self.try_to_give(path).map_err(|source| refused(path, source))
    }

    fn try_to_give(self, path: &Path) -> io::Result<()> {
        // Whoever owns the directory may put a link there, and must not get what it leads to.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let now = file.metadata()?;
        if now.uid() != self.owner
            && let Err(error) = fchown(&file, Some(self.owner), None)
            && geteuid().is_root()
        {
            return Err(error);
        }
        let has_group = now.gid() == self.group || fchown(&file, None, Some(self.group)).is_ok();
        // What the group may do is not for another group.
        let mode = if has_group { self.mode } else { self.mode & !0o070 };
        match now.mode() & 0o777 == mode {
            true => Ok(()),
            false => file.set_permissions(Permissions::from_mode(mode)),
        }
    }
}

/// Takes the lock of a database. What is made for that belongs to the database's owner at once, so that a restore that fails or is killed
/// leaves nothing that keeps the server from starting.
fn take(database: &Path, ownership: Ownership) -> Result<FileLock> {
    let files = [database.to_owned(), beside(database, ".lock")];
    let missing: Vec<_> = files.into_iter().filter(|file| !file.exists()).collect();
    let lock = FileLock::take(database)?;
    missing.iter().try_for_each(|file| ownership.give(file))?;
    Ok(lock)
}

/// Locks the directory of a backup until the file that is given is dropped: of two backups at once each would write into the copy of
/// the other. Where the file system has no such locks, nothing is locked.
async fn hold_directory(
    backup: &Path,
    lock: fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<File> {
    let opened = File::open(directory(backup));
    let held = opened.map_err(|source| files::Error::Write { path: backup.to_owned(), source })?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lock(&held) {
            Ok(()) => return Ok(held),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(BackupError::Underway(shown(backup)));
            }
            Err(TryLockError::WouldBlock) => sleep(PACE).await,
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "backups into this directory cannot exclude each other");
                return Ok(held);
            }
        }
    }
}

/// A database file and what may lie beside it.
fn with_logs(file: &Path) -> impl Iterator<Item = PathBuf> {
    [""].into_iter().chain(LOGS).map(|suffix| beside(file, suffix))
}

/// Removes what SQLite would read into a file that is about to get this name.
fn remove_logs(file: &Path) -> Result<()> {
    for log in LOGS.map(|suffix| beside(file, suffix)) {
        match std::fs::remove_file(&log) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(&log, error)),
            _ => {}
        }
    }
    Ok(())
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refused(path: &Path, source: io::Error) -> BackupError {
    Error::File { path: shown(path), source }.into()
}

fn reading(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(file).read_only(true).busy_timeout(PATIENCE)
}

/// Is there anything to read? SQLite deletes the log beside an empty file that it opens, and the log may be all that is left.
fn exists(file: &Path) -> Result<()> {
    match std::fs::metadata(file) {
        Ok(there) if !there.is_file() => Err(BackupError::NotAFile(shown(file))),
        Ok(there) if there.len() == 0 => Err(BackupError::Empty(shown(file))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(BackupError::Missing(shown(file))),
        Err(source) => Err(refused(file, source)),
    }
}

fn resolved(database: &Path) -> Result<PathBuf> {
    resolve(database).map_err(|source| refused(database, source))
}

/// Fails where the log of a server that runs would not be seen.
fn see_whole(database: &Path) -> Result<()> {
    check_place(database).map_err(|why| Error::Misplaced { path: shown(database), why }.into())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A name that says when, and that nothing has yet.
fn free_name(database: &Path) -> PathBuf {
    let second = now().to_string().replace([':', '-'], "");
    let second = second.split('.').next().unwrap_or_default().trim_end_matches('Z').to_owned();
    let name = beside(database, &format!("{KEPT}{second}"));
    let others = (2..).map(|number| beside(&name, &format!("-{number}")));
    std::iter::once(name.clone()).chain(others).find(|name| !name.exists()).unwrap_or(name)
}

/// Copies a snapshot of a database into a file that its owner alone may read, and that is to become `target`.
async fn copy(source: &SqliteConnectOptions, from: &Path, to: &Path, target: &Path) -> Result<()> {
    // SQLite fills an empty file that is there; so it never was anybody else's to read.
    files::write(Point::FILE_DATABASE, to, b"", Access::Private)?;
    let copied = async {
        let mut connection = source.clone().connect().await?;
        sqlx::query("VACUUM INTO $1").bind(shown(to)).execute(&mut connection).await?;
        connection.close().await
    };
    copied.await.map_err(|source| {
        let at_fault = if is_of_writing(&source) { target } else { from };
        failed(at_fault, source)
    })
}

/// Is this a whole database of ours, of a schema that this release knows?
async fn check(file: &Path, options: &SqliteConnectOptions) -> Result<()> {
    let mut connection = options.clone().connect().await.map_err(|e| failed(file, e))?;
    pages(&mut connection, file).await?;
    let schema = "SELECT coalesce(max(version), 0) FROM holdfast_migration, revision";
    let applied: i64 = match sqlx::query(schema).fetch_one(&mut connection).await {
        Ok(row) => row.try_get(0).map_err(|source| failed(file, source))?,
        Err(sqlx::Error::Database(said)) if said.message().contains("no such table") => 0,
        Err(source) => return Err(failed(file, source)),
    };
    connection.close().await.map_err(|source| failed(file, source))?;
    let known = newest(SQLITE);
    match applied {
        0 => Err(BackupError::NotOurs(shown(file))),
        applied if applied > known => Err(BackupError::Newer { path: shown(file), applied, known }),
        _ => Ok(()),
    }
}

/// Does every page fit the others?
async fn pages(connection: &mut SqliteConnection, file: &Path) -> Result<()> {
    let verdict = text(connection, "PRAGMA integrity_check(1)").await;
    match verdict.map_err(|source| failed(file, source))? {
        verdict if verdict == "ok" => Ok(()),
        why => Err(BackupError::Damaged { path: shown(file), why }),
    }
}

/// Folds a database's log into it and removes the log, which only the last connection to it can do.
async fn settle(file: &Path) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(PATIENCE);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let settled = async {
            let mut connection = options.clone().connect().await?;
            let mode = text(&mut connection, "PRAGMA journal_mode = DELETE").await;
            connection.close().await?;
            mode
        };
        match settled.await {
            Ok(mode) if mode == "delete" => return Ok(()),
            Err(source) if !is_busy(&source) => return Err(failed(file, source)),
            _ if Instant::now() > deadline => return Err(BackupError::Busy(shown(file))),
            _ => sleep(PACE).await,
        }
    }
}

async fn text(connection: &mut SqliteConnection, statement: &'static str) -> sqlx::Result<String> {
    sqlx::query(statement).fetch_one(connection).await?.try_get(0)
}

fn code(error: &sqlx::Error) -> Option<i64> {
    let sqlx::Error::Database(said) = error else { return None };
    said.code()?.parse().ok()
}

/// SQLITE_BUSY and SQLITE_LOCKED, with whatever they carry in their high bits.
fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & 0xff, 5 | 6))
}

/// SQLITE_INTERRUPT
fn is_interrupted(error: &sqlx::Error) -> bool {
    code(error) == Some(9)
}

/// SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE
fn is_of_writing(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code, 13 | 778 | 1034 | 1546))
}

fn failed(file: &Path, source: sqlx::Error) -> BackupError {
    let path = shown(file);
    match code(&source).map(|code| code & 0xff) {
        // SQLITE_NOTADB
        Some(26) => BackupError::NotOurs(path),
        // SQLITE_BUSY, SQLITE_LOCKED
        Some(5 | 6) => BackupError::Busy(path),
        // SQLITE_CORRUPT
        Some(11) => BackupError::Damaged { path, why: source.to_string() },
        _ => BackupError::Database { path, source },
    }
}
