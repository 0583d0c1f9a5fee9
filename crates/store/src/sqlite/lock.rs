//! One process at a time: a lock on the database file itself, so that every path to it (a hard link, a mounted file) leads to the same
//! lock. The kernel lets go of it when the process ends, however it ends. The file `.lock` beside the path only says who holds it.
//!
//! SQLite's own locks are POSIX locks, which a process loses as soon as it closes *any* descriptor of the file. So a database file is
//! opened here once, before SQLite opens it, and that descriptor is kept until the process ends; nothing else may open the file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{ErrorKind, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::now;
use crate::{Error, Outage, Result};

/// How often a file is opened anew that is replaced in the very moment of locking it.
const TRIES: u32 = 5;

/// Every database file that this process has ever opened.
static KNOWN: Mutex<Vec<Arc<DatabaseFile>>> = Mutex::new(Vec::new());

/// A file, whatever path leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A database file and the one descriptor of it.
struct DatabaseFile {
    identity: Identity,
    file: File,
    /// Has somebody in this process taken it?
    taken: AtomicBool,
}

/// Held: the database is ours.
pub(crate) struct FileLock {
    path: PathBuf,
    database: Arc<DatabaseFile>,
    _note: File,
}

impl FileLock {
    /// Takes the lock of a database file, which is made, for its owner alone, where it is missing.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        for _ in 0..TRIES {
            let database = DatabaseFile::open(path)?;
            database.take(path)?;
            match note(path) {
                Ok(note) => {
                    let lock = Self { path: path.to_owned(), database, _note: note };
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

    /// Fails when the path no longer leads to the file that is locked: what is written to it would be lost.
    pub(super) fn check(&self) -> Result<(), Outage> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) if Identity::of(&metadata) == self.database.identity => Ok(()),
            Ok(_) => Err(Outage::Replaced),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Outage::Replaced),
            // That it cannot be looked at says nothing of the file.
            Err(_) => Ok(()),
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
fn note(path: &Path) -> Result<File> {
    let beside = beside(path);
    let mut note = private(&beside)?;
    match note.try_lock() {
        Ok(()) => {}
        // An earlier release locks this file alone.
        Err(TryLockError::WouldBlock) => return Err(in_use_by(path, said(&mut note))),
        Err(TryLockError::Error(source)) => return Err(failed(&beside, source)),
    }
    let line = format!("process {} since {}\n", std::process::id(), now());
    let written = note.set_len(0).and_then(|()| note.rewind());
    if let Err(error) = written.and_then(|()| note.write_all(line.as_bytes())) {
        tracing::warn!(file = %beside.display(), %error, "who has the database cannot be noted");
    }
    Ok(note)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|source| failed(path, source))
}

/// The note is not locked to see whether it is true: that would refuse it to whoever rightly takes it in that moment. The kernel's list
/// says who has the database.
fn in_use(path: &Path, identity: Identity) -> Error {
    let note = File::open(beside(path)).ok().and_then(|mut note| said(&mut note));
    in_use_by(path, holder(listed_holder(identity), note))
}

/// Who holds a database, by the kernel's list and the note beside it. The list tells nothing of processes in other containers, and the
/// note may be of somebody who came before, or be missing where the holder came by another path.
fn holder(listed: Option<u32>, note: Option<String>) -> Option<String> {
    match (listed, note) {
        (Some(pid), Some(note)) if note.starts_with(&format!("process {pid} ")) => Some(note),
        (Some(pid), _) => Some(format!("process {pid}, which opened it by another path")),
        (None, note) => note.map(|note| format!("another process (last noted: {note})")),
    }
}

fn said(note: &mut File) -> Option<String> {
    let mut said = String::new();
    note.read_to_string(&mut said).ok()?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty())
}

/// Who holds the lock, as the kernel lists it.
fn listed_holder(identity: Identity) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    holder_in(&locks, identity.inode)
}

fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    // 1: FLOCK  ADVISORY  WRITE 703 00:2b:12345 0 EOF
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields.get(1) == Some(&"FLOCK")).find_map(|fields| {
        let of = fields.get(5)?.rsplit(':').next()?;
        let pid: u32 = fields.get(4)?.parse().ok()?;
        (of.parse() == Ok(inode) && pid != 0).then_some(pid)
    })
}

fn in_use_by(path: &Path, holder: Option<String>) -> Error {
    let holder = holder.unwrap_or_else(|| "another process".to_owned());
    Error::FileInUse { path: path.display().to_string(), holder }
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_names_who_locks_a_file() {
        let locks = "1: POSIX  ADVISORY  READ 11 00:2b:77 124 124\n\
                     1: -> FLOCK  ADVISORY  WRITE 12 00:2b:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 00:2b:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 703 00:2b:77 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Some(703));
        assert_eq!(holder_in(locks, 78), None);
    }

    #[test]
    fn who_is_named_is_whom_the_kernel_lists() {
        let note = || Some("process 703 since noon".to_owned());
        let named = |listed, note| holder(listed, note).unwrap_or_default();
        assert_eq!(named(Some(703), note()), "process 703 since noon");
        assert_eq!(named(Some(70), note()), "process 70, which opened it by another path");
        assert_eq!(named(Some(7), None), "process 7, which opened it by another path");
        assert_eq!(named(None, note()), "another process (last noted: process 703 since noon)");
        assert_eq!(holder(None, None), None);
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
            let refused = (0..2_000).find_map(|_| note(&path).err());
            is_over.store(true, Ordering::Release);
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
