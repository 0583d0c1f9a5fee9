//! Which files of a directory are the agent's own: those that it made. Nothing else there is changed or removed.
//!
//! A name enters the manifest before its file is written and leaves it after the file is gone, so a kill at any point leaves no file of
//! ours that the manifest does not list. The manifest is a log of `+FILE` and `-FILE`, made whole again at each start. All of
//! this blocks.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::{Point, around_sync};

use crate::haproxy::unusable;
use crate::{Error, Result};

/// The first line, before the directory that the manifest is about.
const HEAD: &str = "holdfast-manifest 1 ";

/// The files in one directory that are ours.
pub(crate) struct Manifest {
    directory: PathBuf,
    path: PathBuf,
    open: Mutex<Open>,
}

struct Open {
    files: BTreeSet<String>,
    log: File,
    /// Did the last write fail? It may have left the beginning of a line.
    torn: bool,
}

impl Manifest {
    /// Reads what is listed for this directory. Without a manifest, `made_before` tells which files an earlier release made.
    pub(crate) fn open(
        data: &Path,
        directory: &Path,
        made_before: impl FnOnce() -> Result<BTreeSet<String>>,
    ) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(data);
        made.map_err(|source| unusable(data, source))?;
        let path = data.join("manifest");
        let files = match std::fs::read_to_string(&path) {
            Ok(text) => parse(&text, directory),
            Err(error) if error.kind() == ErrorKind::NotFound => made_before()?,
            Err(source) => return Err(unusable(&path, source)),
        };
        let listed = files.iter().map(|file| format!("+{file}\n"));
        let text: String =
            std::iter::once(format!("{HEAD}{}\n", directory.display())).chain(listed).collect();
        files::write(Point::FILE_EDGE, &path, text.as_bytes(), Access::Private)?;
        let log = OpenOptions::new().append(true).open(&path);
        let log = log.map_err(|source| unusable(&path, source))?;
        Ok(Self {
            directory: directory.to_owned(),
            path,
            open: Mutex::new(Open { files, log, torn: false }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is a file of this name, directly in the directory, ours?
    pub(crate) fn owns(&self, file: &str) -> bool {
        self.lock().files.contains(file)
    }

    /// Enters files that are about to be written. Those outside of the directory are no matter of the manifest.
    pub(crate) fn enter<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
        let mut open = self.lock();
        let names = paths.filter_map(|path| self.name(path));
        let new: Vec<_> = names.filter(|name| !open.files.contains(*name)).collect();
        self.log(&mut open, '+', &new)?;
        open.files.extend(new.into_iter().map(str::to_owned));
        Ok(())
    }

    /// Strikes files out that are gone.
    pub(crate) fn strike<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
        let mut open = self.lock();
        let names = paths.filter_map(|path| self.name(path));
        let gone: Vec<_> = names.filter(|name| open.files.contains(*name)).collect();
        self.log(&mut open, '-', &gone)?;
        for name in gone {
            open.files.remove(name);
        }
        Ok(())
    }

    /// Strikes out what is not there: a kill came between the entry and the file.
    pub(crate) fn strike_missing(&self) -> Result<()> {
        let all: Vec<_> = self.lock().files.iter().map(|file| self.directory.join(file)).collect();
        let missing = all.iter().filter(|path| !path.exists());
        self.strike(missing.map(PathBuf::as_path))
    }

    /// May this file be written? Not if somebody else put one there.
    pub(crate) fn may_write(&self, path: &Path, is_same: impl FnOnce(&[u8]) -> bool) -> Result<()> {
        if self.name(path).is_none_or(|name| self.owns(name)) {
            return Ok(());
        }
        match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            // What is there is what would be written: nothing of anybody's is lost.
            Ok(there) if is_same(&there) => Ok(()),
            _ => Err(Error::NotOurs { file: path.display().to_string() }),
        }
    }

    /// Says which of these files in the directory are left alone.
    pub(crate) fn tell_of_others(&self, files: &BTreeSet<String>) {
        const SHOWN: usize = 5;
        let others: Vec<_> = files.iter().filter(|file| !self.owns(file)).collect();
        if !others.is_empty() {
            let directory = self.directory.display();
            let some: Vec<_> = others.iter().take(SHOWN).collect();
            tracing::warn!(%directory, count = others.len(), ?some, "this directory has files that the agent did not make; it leaves them alone");
        }
    }

    /// May this file be removed? In our directory only what is ours.
    pub(crate) fn may_remove(&self, path: &Path) -> bool {
        self.name(path).is_none_or(|name| self.owns(name))
    }

    fn name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.strip_prefix(&self.directory).ok()?.to_str()?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }

    fn log(&self, open: &mut Open, sign: char, names: &[&str]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let end = if open.torn { "\n" } else { "" };
        let lines = names.iter().map(|name| format!("{sign}{name}\n"));
        let text: String = std::iter::once(end.to_owned()).chain(lines).collect();
        let written = around_sync(Point::FILE_EDGE, || {
            open.log.write_all(text.as_bytes())?;
            open.log.sync_data()
        });
        open.torn = written.is_err();
        written.map_err(|source| unusable(&self.path, source))
    }
}

/// What an agent made that kept no manifest yet: it was there if it kept its revision.
pub(crate) fn made_by_an_earlier_release(
    data: &Path,
    candidates: impl FnOnce() -> Result<BTreeSet<String>>,
) -> Result<BTreeSet<String>> {
    if data.join("revision").exists() { candidates() } else { Ok(BTreeSet::new()) }
}

/// What a log comes to. A line without its end was being written when the agent was killed: its file was not there yet, or is gone.
fn parse(text: &str, directory: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let head = lines.next().and_then(|line| line.strip_prefix(HEAD));
    if head != directory.to_str() {
        let before = head.unwrap_or_default();
        tracing::warn!(
            before,
            "the agent's directory was changed; files in the one before are left where they are"
        );
        return files;
    }
    for line in lines {
        match (line.strip_prefix('+'), line.strip_prefix('-')) {
            (Some(file), _) => drop(files.insert(file.to_owned())),
            (_, Some(file)) => drop(files.remove(file)),
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::Scratch;

    use super::*;

    fn open(scratch: &Scratch) -> Manifest {
        let none = || Ok(BTreeSet::new());
        Manifest::open(scratch.path(), Path::new("/certs"), none).unwrap()
    }

    /// A full disk took the beginning of a line.
    #[test]
    fn what_is_entered_after_a_failed_write_is_found_again() {
        let scratch = Scratch::new().unwrap();
        let manifest = open(&scratch);
        manifest
            .enter([Path::new("/certs/a.pem"), Path::new("/elsewhere/x.pem")].into_iter())
            .unwrap();
        {
            let mut open = manifest.lock();
            open.log.write_all(b"+half").unwrap();
            open.torn = true;
        }
        manifest.enter([Path::new("/certs/b.pem")].into_iter()).unwrap();
        manifest.strike([Path::new("/certs/a.pem")].into_iter()).unwrap();
        let again = open(&scratch);
        assert_eq!(["a.pem", "b.pem", "x.pem"].map(|file| again.owns(file)), [false, true, false]);
    }
}
