//! Fetches, checks and writes certificates ahead of the socket: while HAProxy is told of some, the next are made ready.
//!
//! The work is a task of its own, so that it goes on while the socket is waited for; dropped, it ends. What is bound to the disk is done
//! for a few at a time, since each sync costs.

use std::future::ready;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use futures_util::{StreamExt as _, stream};
use holdfast_model::Hostname;
use holdfast_store::{Bundle, Change};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::disk::Disk;
use super::group;
use crate::chain::Needed;
use crate::checked::{Checked, Print};
use crate::manifest::Manifest;
use crate::turn::Turn;
use crate::{Bundles, Error, Result};

/// So many are fetched at once.
const FETCHES: usize = 48;

/// So many are checked and written together.
const TOGETHER: usize = 16;

/// So many groups are on their way to the disk at once.
const WRITES: usize = 3;

/// So many groups lie ready before the next are begun.
const READY: usize = 4;

/// What a command takes beside the certificate.
const COMMAND_ROOM: usize = 64;

/// A change on its way.
pub(super) struct Wanted {
    pub(super) at: usize,
    pub(super) change: Change,
    pub(super) file: String,
}

/// A certificate that is on disk now.
pub(super) struct Written {
    pub(super) name: Hostname,
    pub(super) file: String,
    pub(super) print: Print,
    /// What visitors need beside the leaf.
    pub(super) needed: Needed,
    pub(super) pem: Zeroizing<String>,
    /// What the file held before.
    pub(super) before: Option<Zeroizing<Vec<u8>>>,
}

/// Each with its place among the changes; what is wrong with one is no matter of the others.
pub(super) type Group = Vec<(usize, Result<Written>)>;

pub(super) struct Ahead {
    groups: mpsc::Receiver<Result<Group>>,
    // Dropped, it ends the task.
    work: JoinSet<()>,
}

impl Ahead {
    pub(super) fn begin(
        wanted: Vec<Wanted>,
        bundles: Arc<dyn Bundles>,
        disk: &Disk,
        bufsize: usize,
    ) -> Self {
        let (turn, own) = (disk.turn.clone(), PathBuf::from(&disk.directory));
        let manifest = disk.manifest.clone();
        let (sender, groups) = mpsc::channel(READY);
        let mut work = JoinSet::new();
        work.spawn(async move {
            // After a failure on the way nothing more is fetched. What is on its way already is made use of: who answers slowly, or
            // only some, must not keep everything from getting on.
            let failure = OnceLock::new();
            {
                let fetched = stream::iter(wanted)
                    .take_while(|_| ready(failure.get().is_none()))
                    .map(|one| fetch(one, bundles.clone()))
                    .buffer_unordered(FETCHES)
                    .filter_map(|fetched| {
                        ready(fetched.map_err(|error| failure.set(error).ok()).ok())
                    });
                let written = fetched.ready_chunks(TOGETHER).map(|group| {
                    write(group, turn.clone(), own.clone(), manifest.clone(), bufsize)
                });
                // In no order: one that keeps it holds back the next until those before are taken, and then begins several at once.
                let mut written = pin!(written.buffer_unordered(WRITES));
                while let Some(group) = written.next().await {
                    if sender.send(group).await.is_err() {
                        return;
                    }
                }
            }
            if let Some(error) = failure.into_inner() {
                sender.send(Err(error)).await.ok();
            }
        });
        Self { groups, work }
    }

    /// Those that are on disk next, if they are there already.
    pub(super) fn ready(&mut self) -> Option<Result<Group>> {
        self.groups.try_recv().ok()
    }

    /// Those that are on disk next; none after the last. An error, about the way to the certificates, comes after all that
    /// were got.
    pub(super) async fn next(&mut self) -> Result<Option<Group>> {
        if let Some(group) = self.groups.recv().await {
            return group.map(Some);
        }
        // The end, unless the work broke off.
        match self.work.join_next().await {
            Some(Err(broken)) if broken.is_panic() => {
                std::panic::resume_unwind(broken.into_panic())
            }
            _ => Ok(None),
        }
    }
}

/// The outer error is about the way there, the inner one about the certificate.
async fn fetch(one: Wanted, bundles: Arc<dyn Bundles>) -> Result<(Wanted, Result<Bundle>)> {
    match bundles.bundle(&one.change).await {
        Ok(Some(bundle)) => Ok((one, Ok(bundle))),
        Ok(None) => Ok((one, Err(Error::Gone))),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok((one, Err(error))),
    }
}

async fn write(
    fetched: Vec<(Wanted, Result<Bundle>)>,
    turn: Turn,
    own: PathBuf,
    manifest: Arc<Manifest>,
    bufsize: usize,
) -> Result<Group> {
    turn.blocking(move || {
        let checked = fetched.into_iter().map(|(one, bundle)| {
            let at = one.at;
            let checked = bundle.and_then(|bundle| check(one, &bundle, bufsize));
            (at, checked.and_then(|one| if_ours(one, &manifest)))
        });
        let mut group: Vec<_> = checked.collect();
        let good = || group.iter().filter_map(|(_, one)| one.as_ref().ok());
        let files: Vec<_> =
            good().map(|one| (PathBuf::from(&one.file), one.pem.as_bytes())).collect();
        manifest.enter(files.iter().map(|(path, _)| path.as_path()))?;
        let mut results = group::write_all(&files, &own).into_iter();
        for (_, one) in &mut group {
            if one.is_ok()
                && let Some(Err(error)) = results.next()
            {
                *one = Err(error);
            }
        }
        Ok(group)
    })
    .await
}

/// Where somebody else's file stands in its place, it is not written.
fn if_ours(one: Written, manifest: &Manifest) -> Result<Written> {
    let is_same = |there: &[u8]| Print::of_pem(there) == Some(one.print);
    manifest.may_write(one.file.as_ref(), is_same).map(|()| one)
}

fn check(wanted: Wanted, bundle: &Bundle, bufsize: usize) -> Result<Written> {
    let Wanted { change, file, .. } = wanted;
    let checked = Checked::of(bundle, &change)?;
    let pem = checked.combined();
    // Before anything is on disk: what cannot be loaded must not be found by the next start either.
    let bytes = pem.len() + file.len() + COMMAND_ROOM;
    if bytes >= bufsize {
        return Err(Error::PayloadTooLarge { bytes, limit: bufsize });
    }
    let before = match std::fs::read(&file) {
        Ok(pem) => Some(Zeroizing::new(pem)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        // It is there: what is refused must not cost it.
        Err(source) => return Err(Error::File { path: file, source }),
    };
    let Checked { name, print, needed, .. } = checked;
    Ok(Written { name, file, print, needed, pem, before })
}
