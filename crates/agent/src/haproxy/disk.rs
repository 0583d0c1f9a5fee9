//! What lies on disk for HAProxy's next start: a PEM file per name, and the list that names them.
//!
//! Files of ours are `NAME.pem` in our directory, or files taken over, which keep their place. The list may also hold lines of
//! others; they stay as they are. A file is written before the list names it, and leaves the list before it goes, so
//! that HAProxy can start at any moment. All of this blocks; callers go through [`blocking`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::DirEntry;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::{Point, around_sync};
use holdfast_model::Hostname;

use super::HaproxyConfig;
use super::group::{before, beside};
use super::replace::Replacing;
use crate::checked::Print;
use crate::manifest::{Manifest, made_by_an_earlier_release};
use crate::turn::Turn;
use crate::{Error, Result};

/// The certificate of whoever names nothing we serve; no host name looks like this.
const DEFAULT: &str = "_default.pem";

/// A certificate of ours.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) print: Print,
    /// The file that was taken over for the name, in place of one in our directory.
    pub(super) adopted: Option<String>,
    /// Does HAProxy's memory hold it as it is here?
    pub(super) loaded: bool,
    /// Is it in HAProxy's list?
    pub(super) listed: bool,
    /// Is it on the list on disk, as far as that was written by us?
    pub(super) on_list: bool,
    /// Was something else seen to be served, so that it is to be put in place again?
    pub(super) is_doubted: bool,
}

pub(super) struct Disk {
    pub(super) directory: String,
    pub(super) crt_list: PathBuf,
    adopted_file: PathBuf,
    /// Where the agent keeps what it must remember.
    pub(super) data: PathBuf,
    pub(super) entries: HashMap<Hostname, Entry>,
    /// The files in our directory that we made.
    pub(super) manifest: Arc<Manifest>,
    /// Files of others that give way to ours.
    pub(super) replacing: Replacing,
    /// The list as last written.
    pub(super) known: Option<String>,
    /// Who may write; another with each beginning anew.
    pub(super) turn: Turn,
}

impl Disk {
    /// Reads what is there, and makes what HAProxy needs to start at all.
    pub(super) fn open(config: &HaproxyConfig, turn: Turn) -> Result<Self> {
        let directory = text(&config.directory)?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&config.directory)
            .map_err(|source| unusable(&config.directory, source))?;
        // What is exchanged from here on must not be on the disk as it was before.
        std::fs::File::open(&config.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| unusable(&config.directory, source))?;
        let made_before =
            || made_by_an_earlier_release(&config.data, || candidates(&config.directory));
        let manifest = Manifest::open(&config.data, Path::new(&directory), made_before)?;
        let mut disk = Self {
            directory,
            crt_list: config.crt_list.clone(),
            adopted_file: config.data.join("adopted"),
            data: config.data.clone(),
            entries: HashMap::new(),
            manifest: Arc::new(manifest),
            replacing: Replacing::read(config.data.join("replacing"))?,
            known: None,
            turn,
        };
        disk.forget()?;
        disk.read_directory()?;
        disk.read_adopted()?;
        disk.write_default()?;
        disk.write_list_now()?;
        Ok(disk)
    }

    fn read_directory(&mut self) -> Result<()> {
        let path = Path::new(&self.directory);
        for file in std::fs::read_dir(path).map_err(|source| unusable(path, source))? {
            let file = file.map_err(|source| unusable(path, source))?;
            let Some(name) = self.name_of(&file.path().display().to_string()) else { continue };
            // What cannot be read as a certificate would keep HAProxy from starting: it counts as not there.
            match std::fs::read(file.path()).ok().and_then(|pem| Print::of_pem(&pem)) {
                Some(print) => drop(self.entries.insert(name, Entry::new(print, None))),
                None => {
                    tracing::warn!(file = %file.path().display(), "this file holds no certificate; it is not used");
                }
            }
        }
        Ok(())
    }

    fn read_adopted(&mut self) -> Result<()> {
        let text = match std::fs::read_to_string(&self.adopted_file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(unusable(&self.adopted_file, source)),
        };
        for (name, file) in text.lines().filter_map(|line| line.split_once('\t')) {
            let Ok(name) = Hostname::parse_host(name) else { continue };
            match std::fs::read(file).ok().and_then(|pem| Print::of_pem(&pem)) {
                Some(print) => {
                    self.entries.insert(name, Entry::new(print, Some(file.to_owned())));
                }
                None => {
                    tracing::warn!(%name, file, "this file was taken over and holds no certificate any more");
                }
            }
        }
        Ok(())
    }

    fn write_default(&self) -> Result<()> {
        let path = Path::new(&self.directory).join(DEFAULT);
        if path.exists() {
            return Ok(());
        }
        let made = rcgen::generate_simple_self_signed(vec!["holdfast.invalid".to_owned()]);
        let made = made.map_err(|error| Error::Unconfigurable(error.to_string()))?;
        let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
        write(&path, pem.as_bytes())
    }

    /// The name of a file of ours in our directory. What is not there can only have been ours: we alone name our list's files there.
    pub(super) fn name_of(&self, file: &str) -> Option<Hostname> {
        let host = host_of(self.base_name(file)?)?;
        let is_ours = self.manifest.owns(&format!("{host}.pem")) || !Path::new(file).exists();
        is_ours.then_some(host)
    }

    /// Says which files in our directory are somebody else's.
    pub(super) fn tell_of_others(&self) -> Result<()> {
        self.manifest.tell_of_others(&candidates(Path::new(&self.directory))?);
        Ok(())
    }

    /// Removes what files held before that are there no more.
    fn forget(&self) -> Result<()> {
        for file in entries(Path::new(&self.directory))? {
            let is_file = file.file_type().is_ok_and(|kind| kind.is_file());
            let Some(gone) = before(&file.path()).filter(|gone| is_file && !gone.exists()) else {
                continue;
            };
            let name = gone.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| self.manifest.owns(name)) {
                remove_one(&file.path())?;
            }
        }
        self.manifest.strike_missing()
    }

    /// Removes a file of a name, unless it is in our directory and somebody else's.
    pub(super) async fn remove(&self, file: String) -> Result<()> {
        let (own, manifest) = (PathBuf::from(&self.directory), self.manifest.clone());
        let remove = move || {
            let path = Path::new(&file);
            if manifest.may_remove(path) {
                remove(path, &own)?;
            }
            manifest.strike(std::iter::once(path))
        };
        self.turn.blocking(remove).await
    }

    /// What a file in our directory is called, whether or not that is a name.
    pub(super) fn base_name<'a>(&self, file: &'a str) -> Option<&'a str> {
        file.strip_prefix(&self.directory)?.strip_prefix('/')?.strip_suffix(".pem")
    }

    pub(super) fn default_file(&self) -> String {
        format!("{}/{DEFAULT}", self.directory)
    }

    /// Is this file ours, by its place or because it was taken over?
    pub(super) fn is_ours(&self, file: &str) -> bool {
        file == self.default_file()
            || self.name_of(file).is_some()
            || self.entries.values().any(|entry| entry.adopted.as_deref() == Some(file))
    }

    /// Has this name, as HAProxy writes it, a file of our own?
    pub(super) fn has_own(&self, name: &str) -> bool {
        let entry = Hostname::parse_host(name).ok().and_then(|name| self.entries.get(&name));
        entry.is_some_and(|entry| entry.adopted.is_none())
    }

    /// Every file that was taken over.
    pub(super) fn adopted_files(&self) -> HashSet<String> {
        self.entries.values().filter_map(|entry| entry.adopted.clone()).collect()
    }

    /// Where a name's certificate lies, or would lie.
    pub(super) fn file(&self, name: &Hostname) -> String {
        let adopted = self.entries.get(name).and_then(|entry| entry.adopted.clone());
        adopted.unwrap_or_else(|| self.own_file(name))
    }

    /// The same, if no file was taken over for it.
    pub(super) fn own_file(&self, name: &Hostname) -> String {
        format!("{}/{name}.pem", self.directory)
    }

    /// Keeps which files were taken over.
    pub(super) fn write_adopted(&self) -> Result<()> {
        let adopted: BTreeMap<_, _> = self
            .entries
            .iter()
            .filter_map(|(name, entry)| Some((name, entry.adopted.as_ref()?)))
            .collect();
        let text: String = adopted.iter().map(|(name, file)| format!("{name}\t{file}\n")).collect();
        let before = std::fs::read_to_string(&self.adopted_file).unwrap_or_default();
        if text == before { Ok(()) } else { write(&self.adopted_file, text.as_bytes()) }
    }
}

impl Entry {
    pub(super) const fn new(print: Print, adopted: Option<String>) -> Self {
        Self { print, adopted, loaded: false, listed: false, on_list: false, is_doubted: false }
    }
}

/// Writes a file of ours.
pub(super) fn write(path: &Path, contents: &[u8]) -> Result<()> {
    Ok(files::write(Point::FILE_EDGE, path, contents, Access::Private)?)
}

/// Removes a file of ours, after what it held before; one that is not there is no error.
fn remove(path: &Path, own: &Path) -> Result<()> {
    let before = beside(path, own).map_or(Ok(()), |before| remove_one(&before));
    remove_one(path).and(before)
}

fn remove_one(path: &Path) -> Result<()> {
    let removed = around_sync(Point::FILE_EDGE, || std::fs::remove_file(path));
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(path, error)),
        _ => Ok(()),
    }
}

/// Cleans up what a kill left behind; before anything is written.
pub(super) fn clean(config: &HaproxyConfig) -> Result<()> {
    let directories = [Some(&*config.directory), config.crt_list.parent(), Some(&*config.data)];
    directories.into_iter().flatten().filter(|path| path.is_dir()).try_for_each(sweep)
}

/// The host name that a file of ours is called by.
fn host_of(name: &str) -> Option<Hostname> {
    Hostname::parse_host(name).ok().filter(|host| host.as_str() == name)
}

/// Every file in our directory that could be ours by its name.
fn candidates(directory: &Path) -> Result<BTreeSet<String>> {
    let names = entries(directory)?.filter_map(|file| file.file_name().into_string().ok());
    Ok(names.filter(|name| name.strip_suffix(".pem").and_then(host_of).is_some()).collect())
}

/// Files that a kill left half-written.
pub(crate) fn sweep(directory: &Path) -> Result<()> {
    for file in entries(directory)? {
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".holdfast-") && name.ends_with(".new") {
            tracing::info!(file = %file.path().display(), "a half-written file of an agent that was killed is removed");
            remove_one(&file.path())?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<impl Iterator<Item = DirEntry>> {
    Ok(std::fs::read_dir(directory).map_err(|source| unusable(directory, source))?.flatten())
}

pub(crate) fn unusable(path: &Path, source: io::Error) -> Error {
    Error::File { path: path.display().to_string(), source }
}

fn text(path: &Path) -> Result<String> {
    let text =
        path.to_str().filter(|text| !text.contains(char::is_whitespace) && path.is_absolute());
    let text = text.map(|text| text.trim_end_matches('/').to_owned());
    text.ok_or_else(|| {
        let shown = path.display();
        Error::Unconfigurable(format!("{shown} must be an absolute path without spaces"))
    })
}
