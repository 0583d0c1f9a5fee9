//! Puts certificates in place, on disk and then in memory.
//!
//! ```text
//!   ahead:   fetch, check, write NAME.pem   (a task of its own)
//!   socket:  new, set, commit ............. new, set, commit ...   of the next portion
//!   beside:          write the list                                of the portion before
//!   socket:                                 add to the list, show  of the portion before -> ready to be looked at
//! ```

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::mpsc::UnboundedSender;

use super::ahead::{Ahead, Wanted, Written};
use super::disk::{self, Disk, Entry};
use super::list::Appending;
use super::memory::{add, show};
use super::runtime::{Identity, Runtime};
use super::{HaproxyTarget, State, transaction};
use crate::checked::Print;
use crate::{Bundles, Error, Result};

/// So many are listed, shown and handed over together.
const PORTION: usize = 32;

/// When nothing comes for so long, a portion is taken as it is.
const LULL: Duration = Duration::from_millis(20);

/// Certificates with their places among the changes.
type Portion = Vec<(usize, Hostname)>;

/// A number of changes being put in place.
struct Putting<'a> {
    target: &'a HaproxyTarget,
    disk: &'a mut Disk,
    runtime: &'a mut Runtime,
    identity: &'a Identity,
    ready: &'a UnboundedSender<usize>,
    results: Vec<Result<(), Note>>,
    /// In memory, and nothing more.
    loaded: Portion,
    /// In memory, and being written to the list.
    listing: Option<(Portion, Appending)>,
}

impl HaproxyTarget {
    pub(super) async fn put_all(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        identity: &Identity,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        ready: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        let mut results: Vec<Result<(), Note>> = changes.iter().map(|_| Ok(())).collect();
        let wanted = wanted(state, changes, &mut results)?;
        let disk = state.disk()?;
        let mut ahead = Ahead::begin(wanted, bundles, disk.turn.clone(), self.config.bufsize);
        let (loaded, listing, target) = (Vec::new(), None, self);
        let mut putting =
            Putting { target, disk, runtime, identity, ready, results, loaded, listing };
        while let Some(group) = putting.next(&mut ahead).await? {
            for (at, written) in group {
                putting.load(at, written).await?;
            }
            if putting.loaded.len() >= PORTION {
                putting.list().await?;
            }
        }
        putting.list().await?;
        putting.hand_over().await?;
        Ok(putting.results)
    }
}

impl Putting<'_> {
    /// What is on disk next. What was loaded does not wait for it longer than a little.
    async fn next(&mut self, ahead: &mut Ahead) -> Result<Option<Vec<(usize, Result<Written>)>>> {
        if let Ok(next) = tokio::time::timeout(LULL, ahead.next()).await {
            return next;
        }
        self.list().await?;
        self.hand_over().await?;
        ahead.next().await
    }

    /// Another connection where the one there is may be hung up on.
    async fn stay_connected(&mut self) -> Result<()> {
        if self.runtime.is_stale() {
            *self.runtime = self.target.reconnect(self.identity).await?;
        }
        Ok(())
    }

    async fn load(&mut self, at: usize, written: Result<Written>) -> Result<()> {
        self.stay_connected().await?;
        let done = match written {
            Ok(written) => load(self.disk, self.runtime, written).await?,
            Err(error) => Err(error.note()),
        };
        match done {
            Ok(name) => self.loaded.push((at, name)),
            Err(note) => self.refuse(at, note),
        }
        Ok(())
    }

    fn refuse(&mut self, at: usize, note: Note) {
        set(&mut self.results, at, Err(note));
    }

    /// Takes what is loaded as a portion: begins to list what is new in it, and hands over the portion before.
    async fn list(&mut self) -> Result<()> {
        self.hand_over().await?;
        let portion = std::mem::take(&mut self.loaded);
        let names: Vec<_> = portion.iter().map(|(_, name)| name.clone()).collect();
        if names.iter().any(|name| self.disk.is_off_list(name)) {
            let begun = self.disk.append(&names);
            self.listing = Some((portion, begun));
            return Ok(());
        }
        self.show(portion).await
    }

    /// Ends the portion that is being listed: on the list in memory too, looked at, and told of.
    async fn hand_over(&mut self) -> Result<()> {
        let Some((portion, begun)) = self.listing.take() else { return Ok(()) };
        let names: Vec<_> = portion.iter().map(|(_, name)| name.clone()).collect();
        if let Err(error) = self.disk.appended(begun, &names).await {
            let note = error.note();
            for (at, _) in portion {
                self.refuse(at, note.clone());
            }
            return Ok(());
        }
        self.show(portion).await
    }

    /// Adds to the list in memory what is not there, and looks whether each holds what it should: a transaction that was
    /// crossed shows here at the latest.
    async fn show(&mut self, portion: Portion) -> Result<()> {
        if portion.is_empty() {
            return Ok(());
        }
        self.stay_connected().await?;
        let portion = self.add(portion).await?;
        let files: Vec<_> = portion.iter().map(|(_, name)| self.disk.file(name)).collect();
        let shown = show(self.runtime, &files).await?;
        for (((at, name), file), shown) in portion.into_iter().zip(files).zip(shown) {
            let Some(entry) = self.disk.entries.get_mut(&name) else { continue };
            if shown.sha1 == Some(entry.print.sha1) {
                self.target.forget_withdrawn(&name);
                self.ready.send(at).ok();
                continue;
            }
            entry.loaded = false;
            let said = "it holds another certificate than the one just committed".to_owned();
            let command = format!("show ssl cert {file}");
            self.refuse(at, Error::ProxyRefused { command, said }.note());
        }
        Ok(())
    }

    /// Gives those that were not refused.
    async fn add(&mut self, portion: Portion) -> Result<Portion> {
        let (list, mut kept) = (self.target.crt_list(), Vec::with_capacity(portion.len()));
        for (at, name) in portion {
            let Some(entry) = self.disk.entries.get(&name) else { continue };
            if !entry.listed {
                let file = self.disk.file(&name);
                if let Err(note) = refusal(add(self.runtime, &list, &file, name.as_str()).await)? {
                    self.refuse(at, note);
                    continue;
                }
                if let Some(entry) = self.disk.entries.get_mut(&name) {
                    entry.listed = true;
                }
            }
            kept.push((at, name));
        }
        Ok(kept)
    }
}

/// What is to be done; what cannot be, because a stranger is served for the name, is refused.
fn wanted(
    state: &State,
    changes: &[Change],
    results: &mut [Result<(), Note>],
) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    let disk = state.disk.as_ref().ok_or(Error::Stopped)?;
    for (at, change) in changes.iter().enumerate() {
        let entry = disk.entries.get(&change.name);
        let sha256 = change.certificate.as_ref().map(|(_, sha256)| sha256);
        let is_right = entry.is_some_and(|entry| {
            entry.loaded && entry.listed && Some(&entry.print.sha256_hex()) == sha256
        });
        if is_right && !disk.is_off_list(&change.name) {
            continue;
        }
        match state.strangers.of(change.name.as_str()) {
            Some(stranger) if entry.is_none() => {
                let (name, file) = (change.name.to_string(), stranger.file.clone());
                set(results, at, Err(Error::Shadowed { name, file }.note()));
            }
            _ => {
                let file = disk.file(&change.name);
                wanted.push(Wanted { at, change: change.clone(), file });
            }
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
    before: Option<zeroize::Zeroizing<Vec<u8>>>,
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
    let back = move || match before {
        Some(pem) => disk::write(file.as_ref(), &pem),
        None => disk::remove(file.as_ref()),
    };
    disk.turn.blocking(back).await
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
