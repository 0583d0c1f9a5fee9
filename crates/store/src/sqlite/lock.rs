//! One process at a time: a lock on the database file itself, so that every path to it (a hard link, a mounted file) leads to the same
//! lock. The kernel lets go of it when the process ends, however it ends. The file `.lock` beside the path only says who holds it.
//!
//! SQLite's own locks are POSIX locks, which a process loses as soon as it closes *any* descriptor of the file. So a database file is
//! opened here once, before SQLite opens it, and that descriptor is kept until the process ends; nothing else may open the file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    holder, now,
    place::{self, Identity, beside, resolve},
};
use crate::{Error, Misplacement, Outage, Result};

/// How often a file is opened anew that is replaced in the very moment of locking it.
const TRIES: u32 = 5;

/// Every database file that this process has ever opened.
static KNOWN: Mutex<Vec<Arc<DatabaseFile>>> = Mutex::new(Vec::new());

/// A database file and the one descriptor of it.
struct DatabaseFile {
    identity: Identity,
    file: File,
    /// Has somebody in this process taken it?
    taken: AtomicBool,
}

/// Held: the database is ours.
pub(crate) struct FileLock {
    /// As it was named, and with every symbolic link followed.
    named: PathBuf,
    path: PathBuf,
    database: Arc<DatabaseFile>,
    note: File,
}

impl FileLock {
    /// Takes the lock of a database file, which is made, for its owner alone, where it is missing.
    pub(crate) fn take(named: &Path) -> Result<Self> {
        let path = resolve(named).map_err(|source| failed(named, source))?;
        if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(misplaced(&path, Misplacement::NotAFile));
        }
        for _ in 0..TRIES {
            let database = DatabaseFile::open(&path)?;
            database.take(&path)?;
            match unambiguous(&path).and_then(|()| note(&path, database.identity)) {
                Ok(note) => {
                    let (named, path) = (named.to_owned(), path.clone());
                    let lock = Self { named, path, database, note };
                    if lock.check().is_ok() {
                        return Ok(lock);
                    }
                }
                Err(error) => {
                    database.release();
                    return Err(error);
                }
            }
        }
        Err(Error::Unusable { at: "lock the file", outage: Outage::Replaced })
    }

    /// The file with every symbolic link followed, beside which its log lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes which log belongs to which file, for whoever finds both after a crash.
    pub(super) fn note_log(&self, log: Option<Identity>) {
        let Some(log) = log else { return };
        let line = pair(self.identity(), log);
        if let Err(error) = (&self.note).write_all(line.as_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "which log the database has cannot be noted");
        }
    }

    pub(super) fn identity(&self) -> Identity {
        self.database.identity
    }

    /// Fails when a path no longer leads to the file that is locked: what is written to it would be lost.
    pub(super) fn check(&self) -> Result<(), Outage> {
        // That it cannot be looked at says nothing of the file.
        let is_ours = |path| Identity::at(path).map_or(true, |at| at == Some(self.identity()));
        match is_ours(&self.path) && (self.named == self.path || is_ours(&self.named)) {
            true => Ok(()),
            false => Err(Outage::Replaced),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.database.release();
    }
}

impl DatabaseFile {
    /// The file at a path, by the descriptor that this process has of it already, if it has one.
    fn open(path: &Path) -> Result<Arc<Self>> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(metadata) = std::fs::metadata(path)
            && let Some(database) = find(&known, Identity::of(&metadata))
        {
            return Ok(database);
        }
        let file = private(path)?;
        let metadata = file.metadata().map_err(|source| failed(path, source))?;
        let identity = Identity::of(&metadata);
        let database = Arc::new(Self { identity, file, taken: AtomicBool::new(false) });
        // Also one that came to this path in between stays open: closing it would drop the locks of the other.
        known.push(database.clone());
        Ok(find(&known, identity).unwrap_or(database))
    }

    fn take(&self, path: &Path) -> Result<()> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return Err(in_use(path, self.identity));
        }
        let refused = match self.file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => in_use(path, self.identity),
            Err(TryLockError::Error(source)) => failed(path, source),
        };
        self.taken.store(false, Ordering::Release);
        Err(refused)
    }

    fn release(&self) {
        self.file.unlock().ok();
        self.taken.store(false, Ordering::Release);
    }
}

fn find(known: &[Arc<DatabaseFile>], identity: Identity) -> Option<Arc<DatabaseFile>> {
    known.iter().find(|known| known.identity == identity).cloned()
}

/// Says in the file beside the database who has it; locked, so that what it says is known to be true.
fn note(path: &Path, database: Identity) -> Result<File> {
    let file = note_of(path);
    let mut note = private(&file)?;
    match note.try_lock() {
        Ok(()) => {}
        // An earlier release locks this file alone.
        Err(TryLockError::WouldBlock) => return Err(in_use_by(path, said(&mut note))),
        Err(TryLockError::Error(source)) => return Err(failed(&file, source)),
    }
    if is_log_of_another(path, database, &mut note) {
        return Err(misplaced(path, Misplacement::AnothersLog));
    }
    let line = format!("process {} since {}\n", std::process::id(), now());
    let written = note.set_len(0).and_then(|()| note.rewind());
    if let Err(error) = written.and_then(|()| note.write_all(line.as_bytes())) {
        tracing::warn!(file = %file.display(), %error, "who has the database cannot be noted");
    }
    Ok(note)
}

/// Refuses a path whose log another opener would not find.
fn unambiguous(path: &Path) -> Result<()> {
    place::remove_names_of_killed_restores(path);
    place::check_place(path).map_err(|why| misplaced(path, why))
}

/// A file and its log, as they are noted.
fn pair(database: Identity, log: Identity) -> String {
    format!("file {database} log {log}\n")
}

/// Does the log beside a file belong to another one, which was replaced by this? Where both were replaced they belong together. An empty
/// file, which may have been made this moment, has nothing to lose.
fn is_log_of_another(path: &Path, database: Identity, note: &mut File) -> bool {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        return false;
    }
    let Ok(Some(log)) = Identity::at(&beside(path, "-wal")) else { return false };
    let mut noted = String::new();
    note.read_to_string(&mut noted).ok();
    noted.lines().any(|line| {
        line.starts_with("file ")
            && line.ends_with(&format!(" log {log}"))
            && format!("{line}\n") != pair(database, log)
    })
}

fn note_of(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

fn private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|source| failed(path, source))
}

/// The note is not locked to see whether it is true: that would refuse it to whoever rightly takes it in that moment. The kernel's list
/// says who has the database.
fn in_use(path: &Path, identity: Identity) -> Error {
    let note = File::open(note_of(path)).ok().and_then(|mut note| said(&mut note));
    in_use_by(path, told(holder::of_file(identity), note))
}

/// Who holds a database, by the kernel's list and the note beside it. The list tells nothing of processes in other containers, and the
/// note may be of somebody who came before, or be missing where the holder came by another path.
fn told(listed: Option<u32>, note: Option<String>) -> Option<String> {
    match (listed, note) {
        (Some(pid), Some(note)) if note.starts_with(&format!("process {pid} ")) => Some(note),
        (Some(pid), _) => Some(format!("process {pid}, which opened it by another path")),
        (None, note) => note.map(|note| format!("another process (last noted: {note})")),
    }
}

fn said(note: &mut File) -> Option<String> {
    let mut said = String::new();
    note.read_to_string(&mut said).ok()?;
    said.lines().next().map(|line| line.trim().to_owned()).filter(|said| !said.is_empty())
}

fn in_use_by(path: &Path, holder: Option<String>) -> Error {
    let holder = holder.unwrap_or_else(|| "another process".to_owned());
    Error::FileInUse { path: path.display().to_string(), holder }
}

fn misplaced(path: &Path, why: Misplacement) -> Error {
    Error::Misplaced { path: path.display().to_string(), why }
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_is_whom_the_kernel_lists() {
        let note = || Some("process 703 since noon".to_owned());
        let named = |listed, note| told(listed, note).unwrap_or_default();
        assert_eq!(named(Some(703), note()), "process 703 since noon");
        assert_eq!(named(Some(70), note()), "process 70, which opened it by another path");
        assert_eq!(named(Some(7), None), "process 7, which opened it by another path");
        assert_eq!(named(None, note()), "another process (last noted: process 703 since noon)");
        assert_eq!(told(None, None), None);
    }

    /// Of two that start at once one is refused, while the other writes its note.
    #[test]
    fn who_is_refused_does_not_keep_the_holder_from_its_note() {
        let directory = holdfast_testkit::Scratch::new().unwrap();
        let path = directory.path().join("holdfast.db");
        let database = DatabaseFile::open(&path).unwrap();
        database.take(&path).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    drop(in_use(&path, database.identity));
                }
            });
            let refused = (0..2_000).find_map(|_| note(&path, database.identity).err());
            is_over.store(true, Ordering::Release);
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
