//! Our own file of a name for which another one was taken over since. HAProxy serves whichever it had first, and the next start would find
//! ours again: it goes, from memory and disk, once the other holds what lasts as long.

use std::path::{Path, PathBuf};

use holdfast_model::Hostname;

use super::disk::{self, Disk};
use super::memory::{self, Memory};
use super::runtime::Runtime;
use crate::checked::ends;
use crate::turn::blocking;
use crate::{Error, Result};

/// Is there such a file on disk?
pub(super) fn is_on_disk(disk: &Disk, name: &Hostname) -> bool {
    let is_adopted = disk.entries.get(name).is_some_and(|entry| entry.adopted.is_some());
    is_adopted && Path::new(&disk.own_file(name)).exists()
}

/// Takes away those that are of no use any more.
pub(super) async fn remove_all(disk: &Disk, runtime: &mut Runtime, memory: &Memory) -> Result<()> {
    let served = disk.entries.iter().filter(|(_, entry)| entry.loaded && entry.listed);
    let pairs: Vec<_> = served
        .filter_map(|(name, entry)| Some((entry.adopted.clone()?, disk.own_file(name))))
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    let loaded: Vec<_> = pairs.iter().map(|(_, own)| memory.certificates.contains(own)).collect();
    let useless = blocking(move || {
        let pairs = pairs.into_iter().zip(loaded);
        let doubles = pairs.filter(|((_, own), loaded)| *loaded || Path::new(own).exists());
        let useless = doubles.filter(|((other, own), _)| lasts(other) >= lasts(own));
        Ok(useless.map(|((_, own), _)| own).collect::<Vec<_>>())
    });
    for own in useless.await? {
        tracing::info!(
            file = own,
            "another file was taken over for this one's name: it is removed"
        );
        match remove(disk, runtime, memory, own).await {
            Err(error @ (Error::ProxyRefused { .. } | Error::File { .. })) => {
                tracing::warn!(error = crate::error::chain(&error), "it cannot be removed");
            }
            done => done?,
        }
    }
    Ok(())
}

/// Takes one away.
pub(super) async fn remove(
    disk: &Disk,
    runtime: &mut Runtime,
    memory: &Memory,
    own: String,
) -> Result<()> {
    memory::remove(runtime, memory, &own).await?;
    let directory = disk.directory.clone();
    disk.turn.blocking(move || disk::remove(&PathBuf::from(own), Path::new(&directory))).await
}

/// Until when, in Unix seconds; what cannot be read lasts least.
fn lasts(file: &str) -> Option<i64> {
    ends(&std::fs::read(file).ok()?)
}
