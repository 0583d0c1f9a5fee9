//! What lies in the directory: the files of each certificate, put in place together and taken away together.
//!
//! What is taken away is put aside first, as `.FILE~`, until the server was reloaded without it: a server whose configuration still
//! names it gets it back. All of this blocks.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use holdfast_gateway::files as door;
use holdfast_gateway::point::{Point, around_sync};
use holdfast_model::Hostname;

use super::{FilesConfig, Layout};
use crate::checked::{Checked, Print, fits};
use crate::haproxy::{sweep, unusable};
use crate::manifest::{Manifest, made_by_an_earlier_release};
use crate::{Error, Result};

/// What a file of ours ends in.
const ENDINGS: [&str; 3] = ["key", "crt", "pem"];

pub(super) struct Stored {
    directory: PathBuf,
    layout: Layout,
    access: door::Access,
    manifest: Manifest,
}

impl Stored {
    pub(super) fn open(config: &FilesConfig) -> Result<Self> {
        let directory = config.directory.clone();
        std::fs::create_dir_all(&directory).map_err(|source| unusable(&directory, source))?;
        sweep(&directory)?;
        let made_before = || made_by_an_earlier_release(&config.data, || candidates(&directory));
        let manifest = Manifest::open(&config.data, &directory, made_before)?;
        manifest.tell_of_others(&candidates(&directory)?);
        let (layout, access) = (config.layout, config.access);
        Ok(Self { directory, layout, access, manifest })
    }

    fn path(&self, name: &Hostname, ending: &str) -> PathBuf {
        self.directory.join(format!("{name}.{ending}"))
    }

    /// What the leaf is read from, whether or not it is there.
    pub(super) fn leaf(&self, name: &Hostname) -> PathBuf {
        self.path(name, if self.layout == Layout::Separate { "crt" } else { "pem" })
    }

    /// The files of a name that are ours and there.
    fn files(&self, name: &Hostname) -> impl Iterator<Item = PathBuf> {
        let paths = ENDINGS.map(|ending| self.path(name, ending)).into_iter();
        paths.filter(|path| self.manifest.may_remove(path) && path.exists())
    }

    /// What lies there and is ours, by name, if all of it is there and fits together.
    pub(super) fn read(&self) -> Result<HashMap<Hostname, Print>> {
        let names: BTreeSet<_> = candidates(&self.directory)?
            .into_iter()
            .filter(|file| self.manifest.owns(file))
            .filter_map(|file| name_of(&file))
            .collect();
        let read = names.into_iter().filter_map(|name| Some((name.clone(), self.print(&name)?)));
        Ok(read.collect())
    }

    fn print(&self, name: &Hostname) -> Option<Print> {
        let read = |ending: &str| {
            let path = self.path(name, ending);
            std::fs::read(&path).ok().filter(|_| self.manifest.may_remove(&path))
        };
        let combined = match self.layout {
            Layout::Combined => return Print::of_pem(&read("pem")?),
            Layout::Separate => None,
            Layout::Both => Some(Print::of_pem(&read("pem")?)?),
        };
        let (chain, key) = (read("crt")?, read("key")?);
        let print = Print::of_pem(&chain).filter(|_| fits(&chain, &key))?;
        combined.is_none_or(|combined| combined == print).then_some(print)
    }

    /// The fingerprint that a name's own file says.
    pub(super) fn shown(&self, name: &Hostname) -> Option<Print> {
        let path = self.leaf(name);
        let pem = std::fs::read(&path).ok().filter(|_| self.manifest.may_remove(&path))?;
        Print::of_pem(&pem)
    }

    /// Puts the files of a certificate in place.
    pub(super) fn write(&self, checked: &Checked) -> Result<()> {
        let [key, chain, combined] = ENDINGS.map(|ending| self.path(&checked.name, ending));
        let pem = checked.combined();
        // A server that is reloaded in between finds a key that does not fit, and goes on as it was.
        let pair: [(&Path, &[u8]); 2] =
            [(&key, checked.key.as_bytes()), (&chain, checked.chain.as_bytes())];
        let whole: [(&Path, &[u8]); 1] = [(&combined, pem.as_bytes())];
        let files: Vec<_> = match self.layout {
            Layout::Combined => whole.to_vec(),
            Layout::Separate => pair.to_vec(),
            Layout::Both => [&pair[..], &whole[..]].concat(),
        };
        for (path, contents) in &files {
            let is_same = |there: &[u8]| {
                there == *contents
                    || Print::of_pem(there).is_some_and(|print| print == checked.print)
            };
            self.manifest.may_write(path, is_same)?;
        }
        self.manifest.enter(files.iter().map(|(path, _)| *path))?;
        Ok(door::write_together(Point::FILE_EDGE, &files, self.access)?)
    }

    /// Has a name files of ours?
    pub(super) fn has_files(&self, name: &Hostname) -> bool {
        self.files(name).next().is_some()
    }

    /// Puts the files of a name aside.
    pub(super) fn put_aside(&self, name: &Hostname) -> Result<()> {
        let mut files = self.files(name);
        files.try_for_each(|path| Ok(door::replace(Point::FILE_EDGE, &path, &aside(&path))?))
    }

    /// Those that were put aside, and neither dropped nor put back.
    pub(super) fn all_aside(&self) -> Result<BTreeSet<Hostname>> {
        let files = entries(&self.directory)?;
        let names = files.iter().filter_map(|file| file.strip_prefix('.')?.strip_suffix('~'));
        Ok(names.filter(|file| self.manifest.owns(file)).filter_map(name_of).collect())
    }

    /// The server does without them.
    pub(super) fn drop_aside(&self, name: &Hostname) -> Result<()> {
        for path in ENDINGS.map(|ending| self.path(name, ending)) {
            if self.manifest.may_remove(&path) {
                remove(&aside(&path))?;
                if !path.exists() {
                    self.manifest.strike(std::iter::once(path.as_path()))?;
                }
            }
        }
        Ok(())
    }

    /// The server still needs them. What was written since stays.
    pub(super) fn put_back(&self, name: &Hostname) -> Result<()> {
        for path in ENDINGS.map(|ending| self.path(name, ending)) {
            let aside = aside(&path);
            if self.manifest.may_remove(&path) && aside.exists() {
                match path.exists() {
                    true => remove(&aside)?,
                    false => door::replace(Point::FILE_EDGE, &aside, &path)?,
                }
            }
        }
        Ok(())
    }
}

/// Where a file is put aside.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}~"))
}

/// Every file that could be ours by its name.
fn candidates(directory: &Path) -> Result<BTreeSet<String>> {
    Ok(entries(directory)?.into_iter().filter(|file| name_of(file).is_some()).collect())
}

fn entries(directory: &Path) -> Result<Vec<String>> {
    let files = std::fs::read_dir(directory).map_err(|source| unusable(directory, source))?;
    Ok(files.flatten().filter_map(|file| file.file_name().into_string().ok()).collect())
}

/// The host name that a file is called by.
fn name_of(file: &str) -> Option<Hostname> {
    let (name, ending) = file.rsplit_once('.')?;
    let host = ENDINGS.contains(&ending).then(|| Hostname::parse_host(name).ok()).flatten();
    host.filter(|host| host.as_str() == name)
}

/// Removes a file; one that is not there is no error.
pub(super) fn remove(path: &Path) -> Result<()> {
    match around_sync(Point::FILE_EDGE, || std::fs::remove_file(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(path, error)),
        _ => Ok(()),
    }
}

/// A name's removal, undone because the server needs its files.
pub(super) fn still_used(name: &Hostname, why: &Error) -> Error {
    Error::StillUsed { name: name.to_string(), why: crate::error::chain(why) }
}
