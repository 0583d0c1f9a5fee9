//! Files of others that give way to files of ours: those that serve several names, or a name that we have a file for already.
//!
//! A person has said so; that is kept until it is done. HAProxy serves whichever certificate it had first for a name, so ours are loaded
//! beside it, and once each of its names has one, it is taken out of memory and off the lists: at no moment a name is without. The
//! file itself stays on disk.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use holdfast_model::Hostname;
use holdfast_store::Stranger;

use super::disk::{Disk, unusable, write};
use super::memory::{self, Memory};
use super::runtime::{Identity, Runtime};
use super::stranger::Strangers;
use crate::{Error, Result};

/// Which files, and where that is kept.
pub(super) struct Replacing {
    kept: PathBuf,
    files: BTreeSet<String>,
    /// Those that are gone, and from which process: one that takes its place may have read the lists before.
    gone: HashMap<String, Identity>,
}

impl Replacing {
    pub(super) fn read(kept: PathBuf) -> Result<Self> {
        let files = match std::fs::read_to_string(&kept) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            Err(source) => return Err(unusable(&kept, source)),
        };
        Ok(Self { kept, files, gone: HashMap::new() })
    }

    /// Was it said of this one, whether or not it is done?
    pub(super) fn has(&self, file: &str) -> bool {
        self.files.contains(file)
    }

    pub(super) fn insert(&mut self, file: String) {
        self.files.insert(file);
    }

    /// Of those that are not loaded: which are still to be taken off the lists. A process without one that was taken off before ends it.
    fn done_with(&mut self, missing: Vec<String>, process: &Identity) -> HashSet<String> {
        let mut left = HashSet::new();
        for file in missing {
            match self.gone.get(&file) {
                None => drop(left.insert(file)),
                Some(gone) if gone == process => {}
                Some(_) => {
                    self.gone.remove(&file);
                    self.files.remove(&file);
                }
            }
        }
        left
    }

    pub(super) fn write(&self) -> Result<()> {
        let text: String = self.files.iter().flat_map(|file| [file, "\n"]).collect();
        let before = std::fs::read_to_string(&self.kept).unwrap_or_default();
        if text == before { Ok(()) } else { write(&self.kept, text.as_bytes()) }
    }
}

/// Takes those away whose every name has a file of ours.
pub(super) async fn take_away(
    disk: &mut Disk,
    runtime: &mut Runtime,
    process: &Identity,
    memory: &Memory,
    strangers: &mut Strangers,
) -> Result<()> {
    let files: Vec<_> = disk.replacing.files.iter().cloned().collect();
    let (loaded, missing): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| memory.certificates.contains(file));
    // As they are now: what is known of strangers may be from a while ago.
    let now = Strangers::read(runtime, memory, loaded.clone()).await?;
    let mut gone = HashSet::new();
    let mut unlisted = disk.replacing.done_with(missing, process);
    for file in loaded {
        let is_covered = |one: &Stranger| one.names.iter().all(|name| is_ours(disk, name));
        // Without a line it is not served: somebody was killed in between.
        if !memory.places(&file).is_empty() && !now.by_file(&file).is_some_and(is_covered) {
            continue;
        }
        if is_removed(runtime, memory, &file).await? {
            gone.insert(file.clone());
        } else if memory.places(&file).is_empty() {
            // It stands on the bind line itself, and is a stranger like any other.
            disk.replacing.files.remove(&file);
            continue;
        }
        unlisted.insert(file);
    }
    strangers.forget_all(&gone);
    if !unlisted.is_empty() && take_off(disk, memory, unlisted.clone()).await? {
        for file in unlisted {
            if gone.contains(&file) {
                disk.replacing.gone.insert(file, process.clone());
            } else if !memory.certificates.contains(&file) {
                disk.replacing.files.remove(&file);
            }
        }
    }
    disk.replacing.write()
}

/// Is it served from a file of our own?
fn is_ours(disk: &Disk, name: &str) -> bool {
    let name = Hostname::parse_host(name).ok();
    let entry = name.and_then(|name| disk.entries.get(&name));
    entry.is_some_and(|entry| entry.adopted.is_none() && entry.loaded && entry.listed)
}

async fn is_removed(runtime: &mut Runtime, memory: &Memory, file: &str) -> Result<bool> {
    match memory::remove(runtime, memory, file).await {
        Ok(()) => {
            tracing::info!(file, "a file gave way to files of ours for its names");
            Ok(true)
        }
        // HAProxy's default cannot go while it runs. Its next start is without it.
        Err(error @ Error::ProxyRefused { .. }) => {
            let error = crate::error::chain(&error);
            tracing::warn!(
                file,
                error,
                "a file that is to give way stays until HAProxy is reloaded"
            );
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Takes files off all lists on disk. Where that fails it is tried again at the next comparison: until then HAProxy's next start finds them
/// again, and so does the comparison after that.
async fn take_off(disk: &Disk, memory: &Memory, files: HashSet<String>) -> Result<bool> {
    let lists: Vec<_> = memory.lists.keys().map(|list| memory.list(list)).collect();
    let data = disk.data.clone();
    let take_off = move || {
        let results = lists.iter().map(|loaded| match Path::new(&loaded.list).is_dir() {
            true => move_out(Path::new(&loaded.list), &files, &data),
            false => loaded.unlist(&files),
        });
        // One that cannot be written does not keep the others.
        results.fold(Ok(()), Result::and)
    };
    match disk.turn.blocking(take_off).await {
        Err(error @ (Error::Disk { .. } | Error::File { .. })) => {
            let error = crate::error::chain(&error);
            tracing::warn!(error, "files that gave way are still listed on disk");
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// HAProxy loads all that lies in such a directory: what gave way is kept elsewhere.
fn move_out(directory: &Path, files: &HashSet<String>, data: &Path) -> Result<()> {
    let kept = data.join("replaced");
    for file in files.iter().map(Path::new).filter(|file| file.parent() == Some(directory)) {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        let pem = match std::fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            pem => pem.map_err(|source| unusable(file, source))?,
        };
        std::fs::create_dir_all(&kept).map_err(|source| unusable(&kept, source))?;
        let taken = |place: &PathBuf| std::fs::read(place).is_ok_and(|other| other != pem);
        let mut places =
            (0..).map(|n| if n == 0 { kept.join(name) } else { kept.join(format!("{name}.{n}")) });
        let Some(place) = places.find(|place| !taken(place)) else { continue };
        write(&place, &pem)?;
        std::fs::remove_file(file).map_err(|source| unusable(file, source))?;
    }
    Ok(())
}
