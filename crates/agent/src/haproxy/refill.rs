//! Brings HAProxy's memory to what lies on disk: after a restart, a reload, or anything unclear.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use holdfast_model::Hostname;
use zeroize::Zeroizing;

use super::back::drop_name;
use super::disk::{Disk, Entry, unusable};
use super::memory::{Memory, add, show};
use super::put::another;
use super::replace;
use super::runtime::{Identity, Runtime};
use super::stranger::Strangers;
use super::transaction::{self, Step};
use super::{HaproxyTarget, State};
use crate::turn::blocking;
use crate::{Error, Result};

impl HaproxyTarget {
    /// Compares memory with disk, and loads what is missing or different.
    pub(super) async fn refill(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        process: &Identity,
    ) -> Result<()> {
        let list = self.crt_list();
        let disk = state.disk()?;
        // Whoever gave up half-way may have left a transaction open.
        let ours = |file: &str| disk.is_ours(file);
        transaction::clear(runtime, &disk.default_file(), ours).await?;
        let memory = Memory::read(runtime).await?;
        let Some(lines) = memory.lists.get(&list) else {
            return Err(Error::CrtListUnknown { crt_list: list });
        };
        let disk = state.disk.as_mut().ok_or(Error::Stopped)?;
        let listed: HashSet<&str> = lines.iter().map(|line| line.file.as_str()).collect();
        note_loaded(disk, runtime, &memory).await?;
        for (name, entry) in &mut disk.entries {
            let file = match &entry.adopted {
                Some(file) => file.clone(),
                None => format!("{}/{name}.pem", self.config.directory.display()),
            };
            // A file that was taken over stands in the list of its former owner.
            entry.listed = listed.contains(file.as_str())
                || entry.adopted.is_some() && !memory.places(&file).is_empty();
        }
        state.torn = true;
        disk.write_list(&HashSet::new()).await?;
        self.mend(disk, runtime, &memory).await?;
        let adopted = disk.adopted_files();
        let ours = |file: &str| {
            adopted.contains(file) || disk.name_of(file).is_some() || file == disk.default_file()
        };
        let orphan =
            |file: &String| disk.name_of(file).filter(|name| !disk.entries.contains_key(name));
        state.orphans = memory.certificates.iter().filter_map(orphan).collect();
        let others: Vec<_> =
            memory.certificates.iter().filter(|file| !ours(file)).cloned().collect();
        state.strangers = Strangers::read(runtime, &memory, others).await?;
        replace::take_away(disk, runtime, process, &memory, &mut state.strangers).await
    }

    async fn mend(&self, disk: &mut Disk, runtime: &mut Runtime, memory: &Memory) -> Result<()> {
        let wrong: Vec<Hostname> = disk
            .entries
            .iter()
            .filter(|(_, entry)| !entry.loaded || !entry.listed)
            .map(|(name, _)| name.clone())
            .collect();
        let (mut mended, list) = (0_usize, self.crt_list());
        for name in wrong {
            match mend_one(disk, runtime, memory, &list, &name).await {
                Ok(()) => mended += 1,
                // One that HAProxy does not take must not keep the others out; the comparison with what is to be served finds it.
                Err(
                    error @ (Error::ProxyRefused { .. }
                    | Error::PayloadTooLarge { .. }
                    | Error::File { .. }),
                ) => {
                    tracing::warn!(%name, error = crate::error::chain(&error), "a certificate on disk cannot be loaded");
                    let is_ours = |entry: &Entry| entry.adopted.is_none();
                    if is_indigestible(&error) && disk.entries.get(&name).is_some_and(is_ours) {
                        drop_name(disk, name).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if mended > 0 {
            tracing::info!(mended, "HAProxy was filled with certificates that it did not have");
        }
        Ok(())
    }
}

/// Would HAProxy not start with this one?
fn is_indigestible(error: &Error) -> bool {
    matches!(error, Error::ProxyRefused { command, .. } if command.starts_with("set ") || command.starts_with("commit "))
}

/// Finds which of ours are in memory as they are on disk.
async fn note_loaded(disk: &mut Disk, runtime: &mut Runtime, memory: &Memory) -> Result<()> {
    let files: Vec<(Hostname, String)> = disk
        .entries
        .keys()
        .map(|name| (name.clone(), disk.file(name)))
        .filter(|(_, file)| memory.certificates.contains(file))
        .collect();
    let (names, files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let shown = show(runtime, &files).await?;
    let mut loaded: HashMap<Hostname, Option<[u8; 20]>> =
        names.into_iter().zip(shown.into_iter().map(|shown| shown.sha1)).collect();
    for (name, entry) in &mut disk.entries {
        entry.loaded = loaded.remove(name).flatten() == Some(entry.print.sha1);
    }
    Ok(())
}

async fn mend_one(
    disk: &mut Disk,
    runtime: &mut Runtime,
    memory: &Memory,
    list: &str,
    name: &Hostname,
) -> Result<()> {
    let file = disk.file(name);
    let Some(entry) = disk.entries.get(name).cloned() else { return Ok(()) };
    if !entry.loaded {
        let pem = read(file.clone()).await?;
        let is_new = !memory.certificates.contains(&file);
        let step = Step { file: &file, pem: &pem, is_new };
        let shown = transaction::put(runtime, step, |other| disk.is_ours(other)).await?;
        if shown.sha1 != Some(entry.print.sha1) {
            return Err(another(&file));
        }
        if let Some(entry) = disk.entries.get_mut(name) {
            entry.loaded = true;
        }
    }
    // One that was taken over may have been listed in memory alone.
    if !entry.listed {
        add(runtime, list, &[(file, name.as_str())]).await?.into_iter().collect::<Result<()>>()?;
    }
    if let Some(entry) = disk.entries.get_mut(name) {
        entry.listed = true;
    }
    Ok(())
}

async fn read(file: String) -> Result<Zeroizing<String>> {
    let path = PathBuf::from(file);
    blocking(move || {
        let pem = std::fs::read_to_string(&path).map_err(|source| unusable(&path, source))?;
        let lines = pem.lines().map(str::trim_end).filter(|line| !line.is_empty());
        Ok(Zeroizing::new(lines.flat_map(|line| [line, "\n"]).collect()))
    })
    .await
}
