//! One process at a time: a lock file beside the database, held as long as the store is open. The kernel lets go of it when the
//! process ends, however it ends. What the file says is for people.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::now;
use crate::{Error, Result};

/// Held: the database is ours.
pub(super) struct FileLock(#[expect(dead_code, reason = "dropped, it unlocks")] File);

impl FileLock {
    /// Takes the lock of a database file, which is made, for its owner alone, where it is missing.
    pub(super) fn take(file: &Path) -> Result<Self> {
        private(file)?;
        let path = beside(file);
        let mut lock = private(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(file, &mut lock)),
            Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
        }
        let line = format!("process {} since {}\n", std::process::id(), now());
        let written = lock.set_len(0).and_then(|()| lock.rewind());
        written.and_then(|()| lock.write_all(line.as_bytes())).map_err(|e| failed(&path, e))?;
        Ok(Self(lock))
    }
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|source| failed(path, source))
}

fn in_use(file: &Path, lock: &mut File) -> Error {
    let mut holder = String::new();
    let read = lock.read_to_string(&mut holder);
    let holder = match (read, holder.trim()) {
        (Ok(_), said) if !said.is_empty() => said.to_owned(),
        _ => "another process".to_owned(),
    };
    Error::FileInUse { path: file.display().to_string(), holder }
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), source }
}
