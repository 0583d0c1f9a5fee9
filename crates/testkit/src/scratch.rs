//! Directories of running tests, removed when they end, or by a later run when they could not.
//!
//! Each is locked by its owner; one whose lock is free belongs to a process that was killed. They lie
//! in the system's directory for temporary files: PostgreSQL refuses to run as root, and its user may not
//! enter a home directory; socket paths must be short.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// A directory that is removed on drop.
pub struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes an empty directory.
    pub fn new() -> Result<Self> {
        let base = base()?;
        let runs = base.join("run");
        fs::create_dir_all(&runs)?;
        // Held so that no other process takes a directory for abandoned before its lock is taken.
        let gate = lock_file(&base.join("run.lock"))?;
        gate.lock()?;
        let abandoned = abandoned(&runs);
        let directory = tempfile::Builder::new().prefix("").tempdir_in(&runs)?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let lock = lock_file(&directory.path().join(".lock"))?;
        lock.lock()?;
        // Removing may take long, and others wait at the gate; what is removed is locked by us.
        drop(gate);
        for (directory, _lock) in abandoned {
            // A server that is just dying may still write there: the next run finds what is left.
            fs::remove_dir_all(directory).ok();
        }
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file in it, and says where it is.
    #[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// What all test processes of this user share.
pub(crate) fn base() -> Result<PathBuf> {
    let uid = rustix::process::getuid();
    let base = std::env::temp_dir().join(format!("holdfast-testkit-{}", uid.as_raw()));
    fs::create_dir_all(&base)?;
    let owner = fs::metadata(&base)?.uid();
    ensure!(owner == uid.as_raw(), "{} belongs to another user: remove it", base.display());
    Ok(base)
}

pub(crate) fn lock_file(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))
}

/// Directories whose owner is gone, locked by us from now on.
fn abandoned(runs: &Path) -> Vec<(PathBuf, File)> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut abandoned = Vec::new();
    for directory in entries.map(|entry| entry.path()) {
        if let Ok(lock) = lock_file(&directory.join(".lock"))
            && lock.try_lock().is_ok()
        {
            abandoned.push((directory, lock));
        }
    }
    abandoned
}
