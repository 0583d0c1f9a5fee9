//! Writes several files at once: each appears whole and durably, or not at all, as by the gateway's writer of single files;
//! the directory is synced once for all of them. All of this blocks.
//!
//! In our own directory, what a file held before stays beside it, and what comes next is written over that. To make files and to free
//! them costs a file system more than to write them, and renewals need neither this way. Whoever still reads what is written over
//! opened it two writings ago, under the same name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use holdfast_gateway::files;
use holdfast_gateway::point::{Point, around_sync};
use rustix::fs::{Advice, CWD, OFlags, RenameFlags, fadvise, renameat_with};
use rustix::process::geteuid;
use tempfile::{NamedTempFile, TempPath};

use crate::{Error, Result};

/// Writes these, readable by their owner alone; no path twice. `own` is the directory where nobody else writes. A result each, in
/// the same order: one that fails leaves the others alone.
pub(super) fn write_all(files: &[(PathBuf, &[u8])], own: &Path) -> Vec<Result<()>> {
    let prepared = files.iter().map(|(path, contents)| prepare(path, contents, own));
    let written: Vec<_> = prepared.collect();
    // All are on their way to the disk before one is waited for: a journal then takes them together.
    let synced: Vec<_> = written.into_iter().map(|file| file.and_then(sync)).collect();
    let moved = files
        .iter()
        .zip(synced)
        .map(|((path, _), file)| file.and_then(|file| put(file, path, own)));
    let mut results: Vec<_> = moved.collect();
    let directories: BTreeSet<_> = files.iter().map(|(path, _)| directory(path)).collect();
    for unsynced in directories {
        let Err(error) = File::open(unsynced).and_then(|directory| directory.sync_all()) else {
            continue;
        };
        for ((path, _), result) in files.iter().zip(&mut results) {
            if result.is_ok() && directory(path) == unsynced {
                *result = Err(io::Error::new(error.kind(), error.to_string()));
                // On the disk this may still be the file itself: it must not be written over.
                if let Some(Err(error)) = beside(path, own).map(fs::remove_file) {
                    tracing::warn!(path = %path.display(), %error, "what this file held before cannot be removed");
                }
            }
        }
    }
    files
        .iter()
        .zip(results)
        .map(|((path, _), result)| result.map_err(|error| failed(path, error)))
        .collect()
}

/// Where the last contents of a file of ours are kept: `.NAME~` beside `NAME.pem`.
pub(super) fn beside(path: &Path, own: &Path) -> Option<PathBuf> {
    let is_ours =
        directory(path) == own && path.extension().is_some_and(|extension| extension == "pem");
    let mut hidden = OsString::from(".");
    hidden.push(path.file_stem().filter(|_| is_ours)?);
    hidden.push("~");
    Some(path.with_file_name(hidden))
}

/// The file whose last contents are kept here.
pub(super) fn before(beside: &Path) -> Option<PathBuf> {
    let name = beside.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix('~')?;
    Some(beside.with_file_name(format!("{name}.pem")))
}

/// Writes beside the file; what cannot be finished goes away.
fn prepare(path: &Path, contents: &[u8], own: &Path) -> io::Result<NamedTempFile> {
    let mut file = match beside(path, own) {
        // Whatever is wrong with what was before: it is not to cost the next.
        Some(at) => reserved(at).or_else(|_| temporary(directory(path)))?,
        None => temporary(directory(path))?,
    };
    file.write_all(contents)?;
    file.as_file().set_len(contents.len() as u64)?;
    // Begins to write it out; if that cannot be done ahead, the sync does it.
    fadvise(file.as_file(), 0, None, Advice::DontNeed).ok();
    Ok(file)
}

fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".holdfast-")
        .suffix(".new")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)
}

fn reserved(at: PathBuf) -> io::Result<NamedTempFile> {
    let file = match usable(&at)? {
        Some(file) => file,
        None => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&at)?,
    };
    Ok(NamedTempFile::from_parts(file, TempPath::try_from_path(at)?))
}

/// What is there, if it is as we would make it; what is not is taken away.
fn usable(at: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match OpenOptions::new().write(true).custom_flags(flags).open(at) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.ok(),
    };
    let is_ours = |file: &File| file.metadata().is_ok_and(|is| is_as_made(&is));
    match file.filter(is_ours) {
        Some(file) => Ok(Some(file)),
        None => fs::remove_file(at).map(|()| None),
    }
}

/// One with a second name is somebody's copy of what was here.
fn is_as_made(is: &Metadata) -> bool {
    let is_private = is.mode() & 0o7777 == 0o600 && is.uid() == geteuid().as_raw();
    is.is_file() && is.nlink() == 1 && is_private
}

fn sync(file: NamedTempFile) -> io::Result<NamedTempFile> {
    file.as_file().sync_all().map(|()| file)
}

/// Puts it in its place. In our own directory it changes places with what was there, if there was anything and that can be done.
fn put(file: NamedTempFile, path: &Path, own: &Path) -> io::Result<()> {
    let keeps = beside(path, own).is_some_and(|at| file.path() == at);
    around_sync(Point::FILE_EDGE, || {
        if keeps && renameat_with(CWD, file.path(), CWD, path, RenameFlags::EXCHANGE).is_ok() {
            return file.keep().map(drop).map_err(|refused| refused.error);
        }
        file.persist(path).map(drop).map_err(|refused| refused.error)
    })
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, source: io::Error) -> Error {
    files::Error::Write { path: path.to_owned(), source }.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use holdfast_testkit::Scratch;

    use super::*;

    struct Ground(Scratch);

    impl Ground {
        fn new() -> Self {
            Self(Scratch::new().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.at(name)).unwrap()
        }

        fn write(&self, name: &str, contents: &str) {
            write_all(&[(self.at(name), contents.as_bytes())], self.0.path()).remove(0).unwrap();
        }

        fn names(&self) -> BTreeSet<String> {
            let entries = fs::read_dir(self.0.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            // The scratch directory has a file of its own.
            names.filter(|name| name != ".lock").collect()
        }
    }

    #[test]
    fn each_is_whole_or_not_there_and_one_that_fails_leaves_the_others_alone() {
        let ground = Ground::new();
        ground.0.write("b.pem", "old and longer").unwrap();
        let nowhere = ground.at("nowhere").join("c.pem");
        let results = write_all(
            &[(ground.at("a.pem"), b"a"), (nowhere.clone(), b"c"), (ground.at("b.pem"), b"new")],
            ground.0.path(),
        );
        assert!(matches!(results[..], [Ok(()), Err(Error::Disk { .. }), Ok(())]), "{results:?}");
        assert!(results[1].as_ref().unwrap_err().note().detail.contains(nowhere.to_str().unwrap()));
        assert_eq!(
            (ground.read("a.pem"), ground.read("b.pem")),
            ("a".to_owned(), "new".to_owned())
        );
        let mode = fs::metadata(ground.at("b.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(ground.names(), [".b~", "a.pem", "b.pem"].map(str::to_owned).into());
    }

    #[test]
    fn renewals_write_over_what_was_before_and_make_no_files() {
        let ground = Ground::new();
        let inode = |name: &str| fs::metadata(ground.at(name)).unwrap().ino();
        ground.write("a.pem", "the first, which is the longest");
        ground.write("a.pem", "the second");
        let mut inodes = [inode("a.pem"), inode(".a~")];
        for text in ["the third, not so short", "the fourth"] {
            ground.write("a.pem", text);
            inodes.reverse();
            assert_eq!(
                (ground.read("a.pem"), [inode("a.pem"), inode(".a~")]),
                (text.to_owned(), inodes)
            );
        }
        assert_eq!(ground.read(".a~"), "the third, not so short");
        assert_eq!(before(&ground.at(".a~")), Some(ground.at("a.pem")));
    }

    #[test]
    fn in_the_directories_of_others_nothing_stays_beside_a_file() {
        let ground = Ground::new();
        for text in ["first", "second", "third"] {
            let file = (ground.at("a.pem"), text.as_bytes());
            write_all(&[file], Path::new("/elsewhere")).remove(0).unwrap();
        }
        assert_eq!((ground.read("a.pem"), ground.names().len()), ("third".to_owned(), 1));
    }

    #[test]
    fn what_is_somebody_elses_is_not_written_over() {
        let ground = Ground::new();
        ground.write("a.pem", "first");
        fs::hard_link(ground.at("a.pem"), ground.at("copy")).unwrap();
        for text in ["second", "third"] {
            ground.write("a.pem", text);
        }
        assert_eq!(ground.read("copy"), "first");
        ground.0.write("important", "mine").unwrap();
        fs::remove_file(ground.at(".a~")).unwrap();
        symlink(ground.at("important"), ground.at(".a~")).unwrap();
        ground.write("a.pem", "fourth");
        assert_eq!(
            (ground.read("important"), ground.read("a.pem")),
            ("mine".to_owned(), "fourth".to_owned())
        );
        assert_eq!(ground.read(".a~"), "third");
    }
}
