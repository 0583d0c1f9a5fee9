//! Puts certificates in place, on disk and then in memory.
//!
//! ```text
//!   ahead:   fetch, check, write NAME.pem                     a task of its own
//!   socket:  set X, commit X, show X, new Y, abort Y, set Y, commit Y, show Y, ...
//!   beside:  write the list                                  for those that are new, a portion at a time
//!   socket:  add to the list                                 of that portion, when it is written
//! ```
//!
//! What comes after `commit X` is sent once `set X` was answered ([`transaction`]). Who is shown to be in place, and stands on the
//! list, is ready to be looked at.

use std::sync::Arc;
use std::time::Duration;

use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::mpsc::UnboundedSender;

use super::ahead::{Ahead, Wanted, Written};
use super::back::take_back;
use super::disk::{Disk, Entry};
use super::list::Appending;
use super::memory::{Shown, add};
use super::runtime::{Identity, Runtime};
use super::transaction::{self, Opened};
use super::{HaproxyTarget, State};
use crate::{Bundles, Error, Result};

/// So many at least are listed together.
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
    /// HAProxy was told of it, and has not said what came of it.
    sent: Option<Sent>,
    /// On disk, and refused.
    refused: Vec<Sent>,
    /// In memory, and nothing more.
    loaded: Portion,
    /// In memory, and being written to the list.
    listing: Option<(Portion, Appending)>,
}

/// A certificate on its way into memory.
struct Sent {
    at: usize,
    written: Written,
    /// What was held for the name before.
    was: Option<Entry>,
    /// Had HAProxy no place for it?
    is_new: bool,
    /// Is it still to be heard what was said before the `set`?
    is_unheard: bool,
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
        let mut putting = Putting {
            target: self,
            disk,
            runtime,
            identity,
            ready,
            results,
            sent: None,
            refused: Vec::new(),
            loaded: Vec::new(),
            listing: None,
        };
        while let Some(group) = putting.next(&mut ahead).await? {
            for (at, written) in group {
                match written {
                    Ok(written) => putting.load(at, written).await?,
                    Err(error) => putting.refuse(at, error.note()),
                }
            }
            // While the list is being written there is no hurry, and each writing costs.
            if putting.loaded.len() >= PORTION && putting.is_listed() {
                putting.list().await?;
            }
        }
        putting.finish().await?;
        Ok(putting.results)
    }
}

impl Putting<'_> {
    /// What is on disk next. What was loaded does not wait for it longer than a little.
    async fn next(&mut self, ahead: &mut Ahead) -> Result<Option<Vec<(usize, Result<Written>)>>> {
        if let Ok(next) = tokio::time::timeout(LULL, ahead.next()).await {
            return next;
        }
        self.finish().await?;
        ahead.next().await
    }

    /// Leaves nothing half-way.
    async fn finish(&mut self) -> Result<()> {
        self.settle().await?;
        self.list().await?;
        self.hand_over().await
    }

    /// Another connection where the one there is may be hung up on.
    async fn stay_connected(&mut self) -> Result<()> {
        if self.runtime.is_stale() {
            self.settle().await?;
            *self.runtime = self.target.reconnect(self.identity).await?;
        }
        Ok(())
    }

    /// Sends it, and settles the one before.
    async fn load(&mut self, at: usize, written: Written) -> Result<()> {
        self.stay_connected().await?;
        let was = self.disk.entries.get(&written.name).cloned();
        // A renewal has its place in memory already, and so has a file that was taken over.
        let is_new = !was.as_ref().is_some_and(|was| was.loaded || was.adopted.is_some());
        let entry = Entry::new(written.print, None);
        let entry = self.disk.entries.entry(written.name.clone()).or_insert(entry);
        (entry.print, entry.loaded) = (written.print, false);
        self.advance(Some(Sent { at, written, was, is_new, is_unheard: false })).await
    }

    /// Hears what came of the one that was sent last.
    async fn settle(&mut self) -> Result<()> {
        self.advance(None).await
    }

    async fn advance(&mut self, next: Option<Sent>) -> Result<()> {
        let Some(last) = self.sent.take() else { return self.open(next).await };
        if last.is_unheard {
            transaction::approached(self.runtime, last.is_new).await?;
        }
        let opened = transaction::opened(self.runtime, &last.written.file).await?;
        if !matches!(opened, Opened::Own) {
            self.recover(last, opened).await?;
            return self.open(next).await;
        }
        self.runtime.tell_to_show(&last.written.file).await?;
        self.follow(next).await?;
        let closed = transaction::closed(self.runtime, &last.written.file, opened).await;
        self.shown(last, refusal(closed)?).await
    }

    /// Sends one when nothing is known of what is open.
    async fn open(&mut self, next: Option<Sent>) -> Result<()> {
        let Some(next) = next else { return Ok(()) };
        let Written { file, pem, .. } = &next.written;
        let sent = async {
            transaction::approach(self.runtime, file, next.is_new).await?;
            let is_ours = |other: &str| self.disk.is_ours(other);
            transaction::enter(self.runtime, file, next.is_new, is_ours).await?;
            transaction::send(self.runtime, file, pem).await
        };
        match refusal(sent.await)? {
            Ok(()) => self.sent = Some(next),
            Err(note) => self.give_up(next, note),
        }
        Ok(())
    }

    /// Sends one behind the commit of another, whose transaction is open.
    async fn follow(&mut self, next: Option<Sent>) -> Result<()> {
        let Some(next) = next else { return Ok(()) };
        let Written { file, pem, .. } = &next.written;
        transaction::approach(self.runtime, file, next.is_new).await?;
        transaction::send(self.runtime, file, pem).await?;
        self.sent = Some(Sent { is_unheard: true, ..next });
        Ok(())
    }

    /// Ends one that did not open a transaction. If it went into one of ours, whose commit failed, it is no fault of its own.
    async fn recover(&mut self, last: Sent, opened: Opened) -> Result<()> {
        let Written { file, pem, .. } = &last.written;
        let is_ours = |other: &str| self.disk.is_ours(other);
        let closed = match transaction::closed(self.runtime, file, opened).await {
            Err(Error::TransactionLocked { file: other }) if is_ours(&other) => {
                transaction::put(self.runtime, file, pem, last.is_new, is_ours).await
            }
            closed => closed,
        };
        let closed = refusal(closed)?;
        self.runtime.tell_to_show(file).await?;
        self.shown(last, closed).await
    }

    /// Looks whether it holds what it should: a transaction that was crossed shows here at the latest.
    async fn shown(&mut self, last: Sent, closed: Result<(), Note>) -> Result<()> {
        let shown = Shown::of(&self.runtime.heard().await?);
        if let Err(note) = closed {
            self.give_up(last, note);
            return Ok(());
        }
        let Sent { at, written: Written { name, file, print, .. }, .. } = last;
        if shown.sha1 != Some(print.sha1) {
            let said = "it holds another certificate than the one just committed".to_owned();
            let command = format!("show ssl cert {file}");
            self.refuse(at, Error::ProxyRefused { command, said }.note());
            return Ok(());
        }
        if let Some(entry) = self.disk.entries.get_mut(&name) {
            entry.loaded = true;
        }
        match self.disk.is_off_list(&name) || !self.is_added(&name) {
            true => self.loaded.push((at, name)),
            false => self.is_ready(at, &name),
        }
        Ok(())
    }

    /// Is it on the list in memory?
    fn is_added(&self, name: &Hostname) -> bool {
        self.disk.entries.get(name).is_some_and(|entry| entry.listed)
    }

    fn is_ready(&self, at: usize, name: &Hostname) {
        self.target.forget_withdrawn(name);
        self.ready.send(at).ok();
    }

    /// HAProxy refused it.
    fn give_up(&mut self, sent: Sent, note: Note) {
        self.refuse(sent.at, note);
        self.refused.push(sent);
    }

    /// Is no list being written?
    fn is_listed(&self) -> bool {
        self.listing.as_ref().is_none_or(|(_, begun)| begun.is_done())
    }

    fn refuse(&mut self, at: usize, note: Note) {
        set(&mut self.results, at, Err(note));
    }

    /// Takes what was refused off the disk, and begins to list what is loaded; hands over what was listed before.
    async fn list(&mut self) -> Result<()> {
        self.hand_over().await?;
        // Not while the list is being written.
        for Sent { written, was, .. } in std::mem::take(&mut self.refused) {
            take_back(self.disk, written, was).await?;
        }
        let portion = std::mem::take(&mut self.loaded);
        let names: Vec<_> = portion.iter().map(|(_, name)| name.clone()).collect();
        if names.iter().any(|name| self.disk.is_off_list(name)) {
            let begun = self.disk.append(&names);
            self.listing = Some((portion, begun));
            return Ok(());
        }
        self.add(portion).await
    }

    /// Ends the portion that is being listed: on the list in memory too, and told of.
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
        self.add(portion).await
    }

    /// Adds to the list in memory what is not there.
    async fn add(&mut self, portion: Portion) -> Result<()> {
        if portion.is_empty() {
            return Ok(());
        }
        self.stay_connected().await?;
        let (there, new): (Portion, Portion) =
            portion.into_iter().partition(|(_, name)| self.is_added(name));
        let files: Vec<_> =
            new.iter().map(|(_, name)| (self.disk.file(name), name.as_str())).collect();
        let added = add(self.runtime, &self.target.crt_list(), &files).await?;
        for ((at, name), added) in new.into_iter().zip(added) {
            if let Err(error) = added {
                self.refuse(at, error.note());
                continue;
            }
            if let Some(entry) = self.disk.entries.get_mut(&name) {
                entry.listed = true;
            }
            self.is_ready(at, &name);
        }
        for (at, name) in there {
            self.is_ready(at, &name);
        }
        Ok(())
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
