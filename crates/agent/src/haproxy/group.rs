//! Writes several files at once: each appears whole and durably, or not at all, as by the gateway's writer of single files;
//! the directory is synced once for all of them. All of this blocks.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use holdfast_gateway::files;
use holdfast_gateway::point::{Point, around_sync};
use rustix::fs::{Advice, fadvise};
use tempfile::NamedTempFile;

use crate::{Error, Result};

/// Writes these, readable by their owner alone. A result each, in the same order: one that fails leaves the others alone.
pub(super) fn write_all(files: &[(PathBuf, &[u8])]) -> Vec<Result<()>> {
    let written: Vec<_> = files.iter().map(|(path, contents)| prepare(path, contents)).collect();
    // All are on their way to the disk before one is waited for: a journal then takes them together.
    let synced: Vec<_> = written.into_iter().map(|file| file.and_then(sync)).collect();
    let moved =
        files.iter().zip(synced).map(|((path, _), file)| file.and_then(|file| put(file, path)));
    let mut results: Vec<_> = moved.collect();
    let directories: BTreeSet<_> = files.iter().map(|(path, _)| directory(path)).collect();
    for unsynced in directories {
        let Err(error) = File::open(unsynced).and_then(|directory| directory.sync_all()) else {
            continue;
        };
        for ((path, _), result) in files.iter().zip(&mut results) {
            if result.is_ok() && directory(path) == unsynced {
                *result = Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
    }
    files
        .iter()
        .zip(results)
        .map(|((path, _), result)| result.map_err(|error| failed(path, error)))
        .collect()
}

fn prepare(path: &Path, contents: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(".holdfast-")
        .suffix(".new")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory(path))?;
    file.write_all(contents)?;
    // Begins to write it out; if that cannot be done ahead, the sync does it.
    fadvise(file.as_file(), 0, None, Advice::DontNeed).ok();
    Ok(file)
}

fn sync(file: NamedTempFile) -> io::Result<NamedTempFile> {
    file.as_file().sync_all().map(|()| file)
}

fn put(file: NamedTempFile, path: &Path) -> io::Result<()> {
    around_sync(Point::FILE_EDGE, || file.persist(path)).map(drop).map_err(|refused| refused.error)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, source: io::Error) -> Error {
    files::Error::Write { path: path.to_owned(), source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_whole_or_not_there_and_one_that_fails_leaves_the_others_alone() {
        let scratch = holdfast_testkit::Scratch::new().unwrap();
        let at = |name: &str| scratch.path().join(name);
        scratch.write("b.pem", "old and longer").unwrap();
        let nowhere = at("nowhere").join("c.pem");
        let results =
            write_all(&[(at("a.pem"), b"a"), (nowhere.clone(), b"c"), (at("b.pem"), b"new")]);
        assert!(matches!(results[..], [Ok(()), Err(Error::Disk { .. }), Ok(())]), "{results:?}");
        assert!(results[1].as_ref().unwrap_err().note().detail.contains(nowhere.to_str().unwrap()));
        let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        assert_eq!((read("a.pem"), read("b.pem")), ("a".to_owned(), "new".to_owned()));
        let mode = std::fs::metadata(at("b.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = std::fs::read_dir(scratch.path()).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".new")));
    }
}
