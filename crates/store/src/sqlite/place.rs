//! Where a database file lies. SQLite keeps its log beside the path by which a file is opened, so whoever comes by another path does not
//! see what the log holds. Symbolic links are followed once, when the file is opened. A file with a second name is refused while its log
//! may lie beside that one, and a mount of the file alone always.

use std::{
    fs::Metadata,
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

/// Longer chains of symbolic links are not followed; the kernel's own limit.
const LINKS: u32 = 40;

/// What SQLite and we put beside a database file, by what is added to its name.
const BESIDE: [&str; 6] = ["", "-wal", "-shm", "-journal", ".lock", ".restoring"];

/// A file, whatever path leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    pub(super) inode: u64,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// What is at a path; none where nothing is.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Why a database cannot be used by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misplacement {
    /// The file has a second name.
    SeveralNames,
    /// The file is mounted without its directory.
    MountedAlone,
    /// Another file was put in the place of the one that the log beside it belongs to.
    AnothersLog,
    /// It is a directory, a device or a pipe.
    NotAFile,
}

impl Misplacement {
    /// What is wrong, as the rest of a sentence that begins with the path.
    #[must_use]
    pub const fn predicate(self) -> &'static str {
        match self {
            Self::SeveralNames => {
                "has a second name (a hard link) and was not closed in order under this one, so its log may lie beside the other"
            }
            Self::MountedAlone => {
                "is mounted by itself, so SQLite's log would lie outside of the mount"
            }
            Self::AnothersLog => {
                "was put in the place of another database, whose log still lies beside it and would be written into it"
            }
            Self::NotAFile => "is not a regular file",
        }
    }

    /// What to do, in a sentence.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::SeveralNames => {
                "Keep the name that has a -wal beside it and remove the other (`find -samefile` finds it); make copies with `holdfast backup`."
            }
            Self::MountedAlone => "Mount the directory that holds it.",
            Self::AnothersLog => {
                "Put the other database back; or, if this file is whole by itself, remove the -wal and -shm beside it. `holdfast restore` does it right."
            }
            Self::NotAFile => "Name a file in database.url.",
        }
    }
}

/// The path of a file with every symbolic link followed, also where the file is not there yet.
///
/// # Errors
/// When the directory cannot be reached.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            resolved => return resolved,
        }
        let Ok(target) = path.read_link() else { break };
        path = directory(&path).join(target);
    }
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
    Ok(directory(&path).canonicalize()?.join(name))
}

pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Is this path, by its name or by what it leads to, one of the files of a database?
pub(crate) fn is_of(database: &Path, path: &Path) -> bool {
    let resolved = |path: &Path| resolve(path).unwrap_or_else(|_| path.to_owned());
    let identity = |path: &Path| Identity::at(path).ok().flatten();
    let (database, path) = (resolved(database), resolved(path));
    BESIDE
        .iter()
        .map(|suffix| beside(&database, suffix))
        .any(|own| own == path || identity(&own).is_some_and(|own| identity(&path) == Some(own)))
}

/// Fails where the log of another opener would not be seen. What cannot be looked at is left to whoever opens it.
///
/// # Errors
/// Says what is wrong with the place.
pub fn check_place(path: &Path) -> Result<(), Misplacement> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    match () {
        () if !metadata.is_file() => Err(Misplacement::NotAFile),
        () if is_mount(path) => Err(Misplacement::MountedAlone),
        () if metadata.nlink() > 1 && may_have_its_log_elsewhere(path) => {
            Err(Misplacement::SeveralNames)
        }
        () => Ok(()),
    }
}

/// Where the header says so of itself, a file has a log, and where none lies beside it, it may lie beside another name. The file is opened
/// for that: not in a process in which SQLite has it open.
fn may_have_its_log_elsewhere(path: &Path) -> bool {
    /// The version of the format that a reader must know: 2 is one with a log.
    const READ_VERSION: u64 = 19;
    let mut version = [0];
    let read =
        std::fs::File::open(path).and_then(|file| file.read_exact_at(&mut version, READ_VERSION));
    let has_log = read.is_ok() && version == [2];
    has_log && !beside(path, "-wal").exists()
}

/// A restore that was killed leaves the database under a second name beside its own; it is not needed while the first one stands.
pub(super) fn remove_names_of_killed_restores(database: &Path) {
    let own = ["", "-wal", "-journal"]
        .map(|suffix| Identity::at(&beside(database, suffix)).ok().flatten());
    let name = beside(database, KEPT).file_name().map(ToOwned::to_owned).unwrap_or_default();
    let entries = std::fs::read_dir(directory(database)).into_iter().flatten().flatten();
    for entry in entries {
        let is_kept = entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes());
        let path = entry.path();
        if is_kept && Identity::at(&path).ok().flatten().is_some_and(|it| own.contains(&Some(it))) {
            tracing::info!(file = %path.display(), "removing the second name that a killed restore left");
            std::fs::remove_file(&path).ok();
        }
    }
}

/// Added to the name of a database that a restore replaces, before the time.
pub(crate) const KEPT: &str = ".before-restore-";

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(target_os = "linux")]
fn is_mount(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|file| file.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount(_: &Path) -> bool {
    false
}
