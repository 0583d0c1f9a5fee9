//! The file writer: whole files appear at once, durably, or not at all.
//!
//! A file is written beside its place under a hidden name, synced, moved into place, and then the directory is
//! synced: after a power cut there is the old file or the new one. A file that another program wrote
//! (a database) is moved into place the same way. The functions block (they wait for the disk); code that serves requests calls them through `spawn_blocking`.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::point::{Point, around_sync};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone (0600): keys and tokens.
    Private,
    /// Everyone (0644).
    Public,
    /// Whom these permission bits let, whatever the process's umask; the group is that of a directory with the set-group-ID bit.
    Mode(u32),
}

impl Access {
    fn permissions(self) -> Permissions {
        Permissions::from_mode(match self {
            Access::Private => 0o600,
            Access::Public => 0o644,
            Access::Mode(mode) => mode,
        })
    }
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// [`create_new`] found a file already there, and left it as it was.
    #[error("{} already exists", path.display())]
    Exists {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{} could not be written", path.display())]
    Write {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Writes a file, in place of one that may be there.
pub fn write(point: Point, path: &Path, contents: &[u8], access: Access) -> Result<(), Error> {
    around_sync(point, || {
        let prepared = prepare(path, contents, access)?;
        prepared.persist(path).map_err(|refused| failed(path, refused.error))?;
        sync_directory(path)
    })
}

/// Writes files that belong together: none takes its place before all are written, and where one cannot take it, those before it get
/// back what they held. A kill in between leaves some of the new beside some of the old.
pub fn write_together(point: Point, files: &[(&Path, &[u8])], access: Access) -> Result<(), Error> {
    around_sync(point, || {
        let prepared = files.iter().map(|(path, contents)| prepare(path, contents, access));
        let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
        let mut placed: Vec<(&Path, Option<Vec<u8>>)> = Vec::new();
        for (file, (path, _)) in prepared.into_iter().zip(files) {
            let before = std::fs::read(path).ok();
            if let Err(refused) = file.persist(path) {
                placed.into_iter().rev().for_each(|(path, before)| give_back(path, before, access));
                return Err(failed(path, refused.error));
            }
            placed.push((path, before));
        }
        placed.first().map_or(Ok(()), |(path, _)| sync_directory(path))
    })
}

/// What cannot be given back is left as it is: the error that led here is the one to tell.
fn give_back(path: &Path, before: Option<Vec<u8>>, access: Access) {
    match before {
        None => drop(std::fs::remove_file(path)),
        Some(before) => {
            prepare(path, &before, access).map(|file| file.persist(path).map(drop).ok()).ok();
        }
    }
}

/// Writes a file that must not be there yet: of several writers at once, exactly one succeeds.
pub fn create_new(point: Point, path: &Path, contents: &[u8], access: Access) -> Result<(), Error> {
    around_sync(point, || {
        let prepared = prepare(path, contents, access)?;
        prepared.persist_noclobber(path).map_err(|refused| failed(path, refused.error))?;
        sync_directory(path)
    })
}

/// Moves a finished file from beside its place into it, over one that may be there.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn replace(point: Point, finished: &Path, path: &Path) -> Result<(), Error> {
    around_sync(point, || {
        let moved = sync(finished).and_then(|()| std::fs::rename(finished, path));
        moved.map_err(|source| failed(path, source))?;
        sync_directory(path)
    })
}

/// Gives a finished file a name that must not be there yet; `finished` is a name of it no more.
pub fn place_new(point: Point, finished: &Path, path: &Path) -> Result<(), Error> {
    around_sync(point, || {
        let moved = sync(finished).and_then(|()| rename_new(finished, path));
        moved.map_err(|source| failed(path, source))?;
        sync_directory(path)
    })
}

/// Keeps a finished file under a second name, which must not be there yet: by a link, or as a copy where there are no links.
pub fn keep_as(point: Point, path: &Path, second: &Path) -> Result<(), Error> {
    around_sync(point, || {
        let kept = std::fs::hard_link(path, second).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(error),
            _ => copy_new(path, second),
        });
        kept.map_err(|source| failed(second, source))?;
        sync_directory(second)
    })
}

/// Renames to a name that must not be there yet.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match renameat_with(CWD, from, CWD, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_onto_claim(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Where the file system cannot do it in one step, an empty file takes the name first.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
fn rename_onto_claim(from: &Path, to: &Path) -> io::Result<()> {
    File::create_new(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        std::fs::remove_file(to).ok();
    })
}

/// Copies a file to a name that must not be there yet; what was begun and failed is removed.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut copy = File::create_new(to)?;
    let copied = copy
        .set_permissions(source.metadata()?.permissions())
        .and_then(|()| io::copy(&mut source, &mut copy))
        .and_then(|_| copy.sync_all());
    copied.inspect_err(|_| {
        std::fs::remove_file(to).ok();
    })
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn prepare(path: &Path, contents: &[u8], access: Access) -> Result<NamedTempFile, Error> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".holdfast-")
            .suffix(".new")
            .permissions(access.permissions())
            .tempfile_in(directory(path))?;
        if matches!(access, Access::Mode(_)) {
            file.as_file().set_permissions(access.permissions())?;
        }
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|source| failed(path, source))
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    File::open(directory(path))
        .and_then(|directory| directory.sync_all())
        .map_err(|source| failed(path, source))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path },
        _ => Error::Write { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> (Vec<u8>, u32) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        (std::fs::read(path).unwrap(), mode)
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(Point::FILE_OTHER, &path, b"a longer first text", Access::Public).unwrap();
        write(Point::FILE_OTHER, &path, b"second", Access::Private).unwrap();
        assert_eq!(read(&path), (b"second".to_vec(), 0o600));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_that_belong_together_change_together_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (key, chain) = (at("key"), at("chain"));
        let write = |texts: [&[u8]; 2]| {
            let files = [(key.as_path(), texts[0]), (chain.as_path(), texts[1])];
            write_together(Point::FILE_OTHER, &files, Access::Private)
        };
        write([b"key 1", b"chain 1"]).unwrap();
        write([b"key 2", b"chain 2"]).unwrap();
        assert_eq!((read(&key).0, read(&chain).0), (b"key 2".to_vec(), b"chain 2".to_vec()));
        // Nothing can take the place of a directory.
        std::fs::remove_file(&chain).unwrap();
        std::fs::create_dir(&chain).unwrap();
        write([b"key 3", b"chain 3"]).unwrap_err();
        assert_eq!(read(&key), (b"key 2".to_vec(), 0o600));
        std::fs::remove_file(&key).unwrap();
        write([b"key 3", b"chain 3"]).unwrap_err();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_mode_holds_whatever_the_umask() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write(Point::FILE_OTHER, &path, b"text", Access::Mode(0o666)).unwrap();
        assert_eq!(read(&path), (b"text".to_vec(), 0o666));
    }

    #[test]
    fn an_existing_file_is_never_overwritten_by_create_new() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        create_new(Point::FILE_OTHER, &path, b"first", Access::Private).unwrap();
        let refused = create_new(Point::FILE_OTHER, &path, b"second", Access::Private);
        assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
        assert_eq!(read(&path), (b"first".to_vec(), 0o600));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_creators_one_wins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let create = |n: u8| create_new(Point::FILE_OTHER, &path, &[n], Access::Private).is_ok();
        let wins = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..16).map(|n| scope.spawn(move || create(n))).collect();
            tries.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1);
    }

    #[test]
    fn a_finished_file_never_takes_a_name_that_is_there() {
        for place in [rename_new, rename_onto_claim, copy_new] {
            let directory = tempfile::tempdir().unwrap();
            let (finished, path) = (directory.path().join("new"), directory.path().join("file"));
            write(Point::FILE_OTHER, &finished, b"text", Access::Private).unwrap();
            place(&finished, &path).unwrap();
            assert_eq!(read(&path), (b"text".to_vec(), 0o600));
            write(Point::FILE_OTHER, &finished, b"other", Access::Private).unwrap();
            assert_eq!(place(&finished, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(read(&path).0, b"text");
        }
    }

    /// Two file systems have no links between them, as some have none at all.
    #[test]
    fn where_there_are_no_links_a_copy_is_kept() {
        let (here, elsewhere) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let (path, second) = (here.path().join("file"), elsewhere.path().join("second"));
        write(Point::FILE_OTHER, &path, b"text", Access::Private).unwrap();
        keep_as(Point::FILE_OTHER, &path, &second).unwrap();
        assert_eq!((read(&path), read(&second)), (read(&second), (b"text".to_vec(), 0o600)));
        let refused = keep_as(Point::FILE_OTHER, &path, &second);
        assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
    }

    #[test]
    fn a_missing_directory_is_an_error_that_names_the_file() {
        let refused = write(Point::FILE_OTHER, Path::new("/nonexistent/key"), b"", Access::Public)
            .unwrap_err();
        assert_eq!(refused.to_string(), "/nonexistent/key could not be written");
    }
}
