//! Puts certificates in place, on disk and then in memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, stream};
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use zeroize::Zeroizing;

use super::disk::{self, Disk, Entry, blocking};
use super::memory::{add, show};
use super::runtime::{Identity, Runtime};
use super::{HaproxyTarget, State, transaction};
use crate::checked::{Checked, Print};
use crate::{Bundles, Error, Result};

/// So many files are written at once: each waits for the disk.
const WRITES: usize = 24;

/// What a command takes beside the certificate.
const COMMAND_ROOM: usize = 64;

/// A change on its way.
struct Wanted<'a> {
    at: usize,
    change: &'a Change,
    file: String,
}

/// A certificate that is on disk now.
struct Written {
    name: Hostname,
    file: String,
    print: Print,
    pem: Zeroizing<String>,
    /// What the file held before.
    before: Option<Zeroizing<Vec<u8>>>,
}

impl HaproxyTarget {
    pub(super) async fn put_all(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        identity: &Identity,
        changes: &[Change],
        bundles: &dyn Bundles,
    ) -> Result<Vec<Result<(), Note>>> {
        let mut results: Vec<Result<(), Note>> = changes.iter().map(|_| Ok(())).collect();
        let wanted = wanted(state, changes, &mut results)?;
        let writes = wanted.into_iter().map(|one| self.write(one, bundles)).collect::<Vec<_>>();
        let mut writes = stream::iter(writes).buffered(WRITES);
        let mut loaded = Vec::new();
        while let Some((at, written)) = writes.next().await {
            if runtime.is_stale() {
                *runtime = self.reconnect(identity).await?;
            }
            let done = match written? {
                Ok(written) => load(state.disk()?, runtime, written).await?,
                Err(error) => Err(error.note()),
            };
            match done {
                Ok(name) => loaded.push((at, name)),
                Err(note) => set(&mut results, at, Err(note)),
            }
        }
        self.list_all(state, runtime, &mut loaded, &mut results).await?;
        verify(state.disk()?, runtime, &loaded, &mut results).await?;
        for (_, name) in &loaded {
            self.forget_withdrawn(name);
        }
        Ok(results)
    }

    /// Fetches, checks and writes one.
    async fn write(
        &self,
        wanted: Wanted<'_>,
        bundles: &dyn Bundles,
    ) -> (usize, Result<Result<Written>>) {
        let Wanted { at, change, file } = wanted;
        let checked = match Checked::fetch(change, bundles).await {
            Ok(Ok(checked)) => checked,
            Ok(Err(error)) => return (at, Ok(Err(error))),
            Err(error) => return (at, Err(error)),
        };
        let pem = checked.combined();
        // Before anything is on disk: what cannot be loaded must not be found by the next start either.
        let (bytes, limit) = (pem.len() + file.len() + COMMAND_ROOM, self.config.bufsize);
        if bytes >= limit {
            return (at, Ok(Err(Error::PayloadTooLarge { bytes, limit })));
        }
        let (name, print) = (checked.name, checked.print);
        let written = blocking(move || {
            let path = PathBuf::from(&file);
            let before = std::fs::read(&path).ok().map(Zeroizing::new);
            disk::write(&path, pem.as_bytes())?;
            Ok(Written { name, file, print, pem, before })
        });
        (at, Ok(written.await))
    }

    /// Puts those that are new on the list, on disk and then in memory. Those that fail leave `loaded`.
    async fn list_all(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        loaded: &mut Vec<(usize, Hostname)>,
        results: &mut [Result<(), Note>],
    ) -> Result<()> {
        let disk = state.disk()?;
        if !loaded.iter().any(|(_, name)| is_unlisted(disk, name)) {
            return Ok(());
        }
        let written = disk.write_list(&HashSet::new()).await;
        let (list, mut kept) = (self.crt_list(), Vec::new());
        let failed = written.err().map(|error| error.note());
        for (at, name) in loaded.drain(..) {
            if is_unlisted(disk, &name) {
                let file = disk.file(&name);
                let added = match &failed {
                    Some(note) => Err(note.clone()),
                    None => refusal(add(runtime, &list, &file, name.as_str()).await)?,
                };
                if let Err(note) = added {
                    set(results, at, Err(note));
                    continue;
                }
                if let Some(entry) = disk.entries.get_mut(&name) {
                    entry.listed = true;
                }
            }
            kept.push((at, name));
        }
        *loaded = kept;
        Ok(())
    }
}

fn is_unlisted(disk: &Disk, name: &Hostname) -> bool {
    disk.entries.get(name).is_some_and(|entry| !entry.listed)
}

/// What is to be done; what cannot be, because a stranger is served for the name, is refused.
fn wanted<'a>(
    state: &State,
    changes: &'a [Change],
    results: &mut [Result<(), Note>],
) -> Result<Vec<Wanted<'a>>> {
    let mut wanted = Vec::new();
    let disk = state.disk.as_ref().ok_or(Error::Stopped)?;
    for (at, change) in changes.iter().enumerate() {
        let entry = disk.entries.get(&change.name);
        let sha256 = change.certificate.as_ref().map(|(_, sha256)| sha256);
        let is_right = entry.is_some_and(|entry| {
            entry.loaded && entry.listed && Some(&entry.print.sha256_hex()) == sha256
        });
        if is_right {
            continue;
        }
        match state.strangers.of(change.name.as_str()) {
            Some(stranger) if entry.is_none() => {
                let (name, file) = (change.name.to_string(), stranger.file.clone());
                set(results, at, Err(Error::Shadowed { name, file }.note()));
            }
            _ => wanted.push(Wanted { at, change, file: disk.file(&change.name) }),
        }
    }
    Ok(wanted)
}

/// Loads what was written. What HAProxy refuses is taken off the disk again, where it would keep HAProxy from starting.
async fn load(
    disk: &mut Disk,
    runtime: &mut Runtime,
    written: Written,
) -> Result<Result<Hostname, Note>> {
    let Written { name, file, print, pem, before } = written;
    let mut entry = disk.entries.remove(&name).unwrap_or(Entry::new(print, None));
    // A renewal has its place in memory already, and so has a file that was taken over.
    let has_place = entry.loaded || entry.adopted.is_some();
    (entry.print, entry.loaded) = (print, false);
    disk.entries.insert(name.clone(), entry);
    let put = async {
        if !has_place {
            transaction::create(runtime, &file).await?;
        }
        transaction::put(runtime, &file, &pem, |other| disk.is_ours(other)).await
    };
    if let Err(note) = refusal(put.await)? {
        take_back(disk, name, file, before, has_place).await?;
        return Ok(Err(note));
    }
    if let Some(entry) = disk.entries.get_mut(&name) {
        entry.loaded = true;
    }
    Ok(Ok(name))
}

async fn take_back(
    disk: &mut Disk,
    name: Hostname,
    file: String,
    before: Option<Zeroizing<Vec<u8>>>,
    loaded: bool,
) -> Result<()> {
    match before.as_deref().and_then(|pem| Print::of_pem(pem)) {
        Some(print) => {
            if let Some(entry) = disk.entries.get_mut(&name) {
                (entry.print, entry.loaded) = (print, loaded);
            }
        }
        None => drop(disk.entries.remove(&name)),
    }
    blocking(move || match before {
        Some(pem) => disk::write(Path::new(&file), &pem),
        None => disk::remove(Path::new(&file)),
    })
    .await
}

/// Looks whether each holds what it should: a transaction that was crossed shows here at the latest.
async fn verify(
    disk: &mut Disk,
    runtime: &mut Runtime,
    loaded: &[(usize, Hostname)],
    results: &mut [Result<(), Note>],
) -> Result<()> {
    let files: Vec<_> = loaded.iter().map(|(_, name)| disk.file(name)).collect();
    let shown = show(runtime, &files).await?;
    for (((at, name), file), shown) in loaded.iter().zip(files).zip(shown) {
        let Some(entry) = disk.entries.get_mut(name) else { continue };
        if shown.sha1 != Some(entry.print.sha1) {
            entry.loaded = false;
            let said = "it holds another certificate than the one just committed".to_owned();
            let command = format!("show ssl cert {file}");
            set(results, *at, Err(Error::ProxyRefused { command, said }.note()));
        }
    }
    Ok(())
}

/// A refusal of this one, or an error that concerns everything.
fn refusal<T>(done: Result<T>) -> Result<Result<T, Note>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error @ (Error::ProxyRefused { .. } | Error::PayloadTooLarge { .. })) => {
            Ok(Err(error.note()))
        }
        Err(error) => Err(error),
    }
}

fn set(results: &mut [Result<(), Note>], at: usize, result: Result<(), Note>) {
    if let Some(place) = results.get_mut(at) {
        *place = result;
    }
}
