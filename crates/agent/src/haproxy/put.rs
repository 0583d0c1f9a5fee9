//! Puts certificates in place, on disk and then in memory.
//!
//! ```text
//!   ahead:   fetch, check, write NAME.pem                     a task of its own
//!   socket:  set X -> commit X, new Y, set Y, show X -> commit Y, new Z, set Z, show Y -> ...
//!   beside:  write the list                                  for those that are new, a portion at a time
//!   socket:  add to the list                                 of that portion, when it is written
//! ```
//!
//! Only at the arrows an answer is waited for: why there, [`transaction`] says. Who is shown to be in place, and stands on the list,
//! is ready to be looked at.

mod beside;
mod listing;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::mpsc::UnboundedSender;

use super::ahead::{Ahead, Group, Wanted, Written};
use super::disk::{Disk, Entry};
use super::list::Appending;
use super::memory::Shown;
use super::runtime::{Identity, Runtime};
use super::stranger::Strangers;
use super::transaction::{self, Passed, Step};
use super::{HaproxyTarget, State};
use crate::{Bundles, Error, Result};

/// So many at least are listed together.
const PORTION: usize = 32;

/// When nothing comes for so long, a portion is taken as it is.
const LULL: Duration = Duration::from_millis(20);

/// Certificates with their places among the changes.
type Portion = Vec<(usize, Hostname)>;

/// What became of changes.
pub(super) struct Put {
    /// A result each; or why the control plane did not give them all. HAProxy is as it should be either way.
    pub(super) results: Result<Vec<Result<(), Note>>>,
    /// Is HAProxy to be compared with the disk again?
    pub(super) is_in_doubt: bool,
}

/// A number of changes being put in place.
struct Putting<'a> {
    target: &'a HaproxyTarget,
    disk: &'a mut Disk,
    strangers: &'a mut Strangers,
    runtime: &'a mut Runtime,
    identity: &'a Identity,
    ready: &'a UnboundedSender<usize>,
    results: Vec<Result<(), Note>>,
    /// Set, and not committed.
    open: Option<Sent>,
    /// On disk, and refused.
    refused: Vec<Sent>,
    /// In memory, and nothing more.
    loaded: Portion,
    /// In memory, and being written to the list.
    listing: Option<(Portion, Appending)>,
    /// In place, beside a file of somebody else's that is to give way.
    beside: Portion,
    /// Does HAProxy hold something that nobody put there on purpose?
    is_in_doubt: bool,
    /// Why there are no more.
    missing: Option<Error>,
}

/// A certificate that was set, or is about to be.
struct Sent {
    at: usize,
    written: Written,
    /// What was held for the name before.
    was: Option<Entry>,
    /// Had HAProxy no place for it?
    is_new: bool,
}

impl Sent {
    fn step(&self) -> Step<'_> {
        let Written { file, pem, .. } = &self.written;
        Step { file, pem, is_new: self.is_new }
    }
}

impl HaproxyTarget {
    /// A result each.
    pub(super) async fn put_all(
        &self,
        state: &mut State,
        runtime: &mut Runtime,
        identity: &Identity,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        ready: &UnboundedSender<usize>,
    ) -> Result<Put> {
        let mut results: Vec<Result<(), Note>> = changes.iter().map(|_| Ok(())).collect();
        let wanted = wanted(state, changes, &mut results)?;
        let State { disk, strangers, .. } = state;
        let disk = disk.as_mut().ok_or(Error::Stopped)?;
        let mut ahead = Ahead::begin(wanted, bundles, disk, self.config.bufsize);
        let mut putting = Putting {
            target: self,
            disk,
            strangers,
            runtime,
            identity,
            ready,
            results,
            open: None,
            refused: Vec::new(),
            loaded: Vec::new(),
            listing: None,
            beside: Vec::new(),
            is_in_doubt: false,
            missing: None,
        };
        let done = putting.put_all(&mut ahead).await;
        if done.is_err()
            && let Err(error) = putting.clean_up().await
        {
            tracing::warn!(
                error = crate::error::chain(&error),
                "what HAProxy refused may still be on the disk"
            );
        }
        let Putting { results, is_in_doubt, missing, .. } = putting;
        done?;
        Ok(Put { results: missing.map_or(Ok(results), Err), is_in_doubt })
    }
}

impl Putting<'_> {
    async fn put_all(&mut self, ahead: &mut Ahead) -> Result<()> {
        while let Some(group) = self.next(ahead).await? {
            for (at, written) in group {
                match written {
                    Ok(written) => self.load(at, written).await?,
                    Err(error) => {
                        self.refuse(at, error.note());
                        // The edge as a whole is out of order, and not this name.
                        if error.is_disk_of(Path::new(&self.disk.directory)) {
                            self.missing.get_or_insert(error);
                        }
                    }
                }
            }
            // While the list is being written there is no hurry, and each writing costs. What was refused is not to stay on disk.
            let is_enough = self.loaded.len() >= PORTION || !self.refused.is_empty();
            if is_enough && self.is_listed() {
                self.list().await?;
            }
        }
        self.finish().await?;
        self.still_shadowed();
        Ok(())
    }

    /// Whatever went wrong: what HAProxy refused does not stay on the disk.
    async fn clean_up(&mut self) -> Result<()> {
        let listed = match self.listing.take() {
            Some((portion, begun)) => {
                let names: Vec<_> = portion.into_iter().map(|(_, name)| name).collect();
                self.disk.appended(begun, &names).await
            }
            None => Ok(()),
        };
        self.take_back().await.and(listed)
    }

    /// What is on disk next. What was loaded does not wait for it longer than a little, and HAProxy's only transaction not at all.
    async fn next(&mut self, ahead: &mut Ahead) -> Result<Option<Group>> {
        match ahead.ready() {
            Some(group) => return Ok(self.or_missing(group.map(Some))),
            None => self.settle().await?,
        }
        if let Ok(next) = tokio::time::timeout(LULL, ahead.next()).await {
            return Ok(self.or_missing(next));
        }
        self.finish().await?;
        let next = ahead.next().await;
        Ok(self.or_missing(next))
    }

    /// What went wrong on the way here is no fault of HAProxy: what came is put in place like any other.
    fn or_missing(&mut self, next: Result<Option<Group>>) -> Option<Group> {
        next.unwrap_or_else(|error| {
            self.missing = Some(error);
            None
        })
    }

    /// Leaves nothing half-way.
    async fn finish(&mut self) -> Result<()> {
        self.list().await?;
        self.hand_over().await?;
        self.replace().await
    }

    /// Another connection where the one there is may be hung up on.
    async fn stay_connected(&mut self) -> Result<()> {
        if self.runtime.is_stale() {
            self.settle().await?;
            *self.runtime = self.target.reconnect(self.identity).await?;
        }
        Ok(())
    }

    /// Opens a transaction for it, and settles the one before.
    async fn load(&mut self, at: usize, written: Written) -> Result<()> {
        self.stay_connected().await?;
        let was = self.disk.entries.get(&written.name).cloned();
        // A renewal has its place in memory already, and so has a file that was taken over.
        let is_new = !was.as_ref().is_some_and(|was| was.loaded || was.adopted.is_some());
        let entry = Entry::new(written.print, None);
        let entry = self.disk.entries.entry(written.name.clone()).or_insert(entry);
        (entry.print, entry.loaded) = (written.print, false);
        let next = Sent { at, written, was, is_new };
        match self.open.take() {
            Some(last) => self.pass(last, next).await,
            None => self.open(next).await,
        }
    }

    /// Commits the one that is open.
    async fn settle(&mut self) -> Result<()> {
        let Some(last) = self.open.take() else { return Ok(()) };
        let passed = transaction::pass(self.runtime, &last.written.file, None).await?;
        self.judge(last, refusal(passed.committed)?);
        Ok(())
    }

    /// Commits one and opens the next.
    async fn pass(&mut self, last: Sent, next: Sent) -> Result<()> {
        let file = &last.written.file;
        let Passed { committed, opened } =
            transaction::pass(self.runtime, file, Some(next.step())).await?;
        if let Err(Error::TransactionCrossed { file }) = &opened
            && !self.disk.is_ours(file)
        {
            return opened;
        }
        self.judge(last, refusal(committed)?);
        match opened {
            Ok(()) => self.opened(next, Ok(())),
            // Whether the fault is its own, or that of the one before, shows when it is tried alone.
            Err(_) => self.open(next).await,
        }
    }

    async fn open(&mut self, next: Sent) -> Result<()> {
        let is_ours = |other: &str| self.disk.is_ours(other);
        let opened = transaction::open(self.runtime, next.step(), is_ours).await;
        self.opened(next, opened)
    }

    fn opened(&mut self, sent: Sent, opened: Result<()>) -> Result<()> {
        match refusal(opened)? {
            Ok(()) => self.open = Some(sent),
            Err(note) => self.give_up(sent, note),
        }
        Ok(())
    }

    /// Looks whether it holds what it should: a transaction that was crossed shows here at the latest.
    fn judge(&mut self, last: Sent, committed: Result<Shown, Note>) {
        let shown = match committed {
            Ok(shown) => shown,
            Err(note) => return self.give_up(last, note),
        };
        let Sent { at, written: Written { name, file, print, needed, .. }, .. } = last;
        if shown.sha1 != Some(print.sha1) {
            self.is_in_doubt = true;
            return self.refuse(at, another(&file).note());
        }
        if let Some(entry) = self.disk.entries.get_mut(&name) {
            (entry.loaded, entry.is_doubted) = (true, false);
        }
        self.target.chains.keep(&name, print.sha256, &needed);
        match self.disk.is_off_list(&name) || !self.is_added(&name) {
            true => self.loaded.push((at, name)),
            false => self.is_in_place(at, name),
        }
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

    fn refuse(&mut self, at: usize, note: Note) {
        set(&mut self.results, at, Err(note));
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
    // Of what is said of one name the last counts: files are written side by side.
    let last: HashMap<_, _> =
        changes.iter().enumerate().map(|(at, change)| (&change.name, at)).collect();
    for (at, change) in changes.iter().enumerate() {
        if last.get(&change.name) != Some(&at) {
            continue;
        }
        let entry = disk.entries.get(&change.name);
        let sha256 = change.certificate.as_ref().map(|(_, sha256)| sha256);
        let is_right = entry.is_some_and(|entry| {
            let is_there = entry.loaded && entry.listed && !entry.is_doubted;
            is_there && Some(&entry.print.sha256_hex()) == sha256
        });
        let mut strangers = state.strangers.all_of(change.name.as_str());
        let is_done = is_right && !disk.is_off_list(&change.name);
        let shadow = strangers.find(|one| match disk.replacing.has(&one.file) {
            // HAProxy has not let go of it.
            true => is_done,
            false => entry.is_none(),
        });
        if let Some(stranger) = shadow {
            let (name, file) = (change.name.to_string(), stranger.file.clone());
            set(results, at, Err(Error::Shadowed { name, file }.note()));
        } else if !is_done {
            let file = disk.file(&change.name);
            wanted.push(Wanted { at, change: change.clone(), file });
        }
    }
    Ok(wanted)
}

/// Somebody's transaction was mixed up with ours.
pub(super) fn another(file: &str) -> Error {
    let said = "it holds another certificate than the one just committed".to_owned();
    Error::ProxyRefused { command: format!("show ssl cert {file}"), said }
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
