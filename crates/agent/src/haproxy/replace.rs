//! Files of others that give way to files of ours: those that serve several names, or a name that we have a file for already.
//!
//! A person has said so; that is kept until it is done. HAProxy serves whichever certificate it had first for a name, so ours are loaded
//! beside it, and once each of its names has one, it is taken out of memory and off the lists: at no moment a name is without. The
//! file itself stays on disk.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use holdfast_model::Hostname;
use holdfast_store::Stranger;

use super::disk::{Disk, unusable, write};
use super::memory::{self, Memory};
use super::runtime::Runtime;
use super::stranger::Strangers;
use crate::{Error, Result};

/// Which files, and where that is kept.
pub(super) struct Replacing {
    kept: PathBuf,
    files: BTreeSet<String>,
}

impl Replacing {
    pub(super) fn read(kept: PathBuf) -> Result<Self> {
        let files = match std::fs::read_to_string(&kept) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            Err(source) => return Err(unusable(&kept, source)),
        };
        Ok(Self { kept, files })
    }

    pub(super) fn has(&self, stranger: &Stranger) -> bool {
        self.files.contains(&stranger.file)
    }

    pub(super) fn insert(&mut self, file: String) {
        self.files.insert(file);
    }

    fn forget(&mut self, files: &HashSet<String>) {
        self.files.retain(|file| !files.contains(file));
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
    memory: &Memory,
    strangers: &mut Strangers,
) -> Result<()> {
    let mut gone = HashSet::new();
    for file in &disk.replacing.files {
        let is_gone = match strangers.by_file(file) {
            Some(stranger) if stranger.names.iter().all(|name| is_ours(disk, name)) => {
                is_removed(runtime, memory, file).await?
            }
            Some(_) => false,
            // Killed in between, or taken away by somebody else.
            None => true,
        };
        if is_gone {
            gone.insert(file.clone());
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    strangers.forget_all(&gone);
    let lists: Vec<_> = memory.lists.keys().cloned().collect();
    let (data, files) = (disk.data.clone(), gone.clone());
    let unlist = move || {
        lists.iter().try_for_each(|list| match Path::new(list).is_dir() {
            true => move_out(Path::new(list), &files, &data),
            false => Disk::unlist(list, &files),
        })
    };
    match disk.turn.blocking(unlist).await {
        // Tried again at the next comparison. Until then HAProxy's next start finds it again, and so does the comparison after that.
        Err(error @ (Error::Disk { .. } | Error::File { .. })) => {
            let error = crate::error::chain(&error);
            tracing::warn!(error, "files that gave way are still listed on disk");
            Ok(())
        }
        done => {
            done?;
            disk.replacing.forget(&gone);
            disk.replacing.write()
        }
    }
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
        // It is on the bind line itself, or HAProxy's default: it goes when HAProxy starts without it.
        Err(error @ Error::ProxyRefused { .. }) => {
            let error = crate::error::chain(&error);
            tracing::warn!(file, error, "a file cannot be removed while HAProxy runs");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// HAProxy loads all that lies in such a directory: what gave way is kept elsewhere.
fn move_out(directory: &Path, files: &HashSet<String>, data: &Path) -> Result<()> {
    let kept = data.join("replaced");
    for file in files.iter().map(Path::new).filter(|file| file.parent() == Some(directory)) {
        let Some(name) = file.file_name() else { continue };
        let pem = match std::fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            pem => pem.map_err(|source| unusable(file, source))?,
        };
        std::fs::create_dir_all(&kept).map_err(|source| unusable(&kept, source))?;
        write(&kept.join(name), &pem)?;
        std::fs::remove_file(file).map_err(|source| unusable(file, source))?;
    }
    Ok(())
}
