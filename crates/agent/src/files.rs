//! Any server that reads PEM files and can be told to read them again: nginx, and whatever else.
//!
//! Files are written whole; then one command is run for however many changed. What was not reloaded yet is remembered, also
//! across a restart of the agent, so a reload that failed is tried again. A reload that fails because files are gone gives them back.
//! Nothing here knows which server it is.

mod reload;
mod stored;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use holdfast_gateway::files::Access;
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use self::reload::Reload;
use self::stored::{Stored, still_used};
use crate::chain::{Chains, Needed};
use crate::checked::{Checked, Print};
use crate::probe::is_refusal;
use crate::target::Doubted;
use crate::turn::{Turn, blocking};
use crate::{Bundles, Error, Inventory, Prober, Result, Target};

/// So many files are written at once.
const WRITES: usize = 16;

/// Which files a certificate makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `NAME.pem`: chain and key.
    Combined,
    /// `NAME.crt`, the chain, and `NAME.key`.
    Separate,
    /// All three.
    Both,
}

/// Where the files go and what is run then.
#[derive(Debug, Clone)]
pub struct FilesConfig {
    /// Where the files lie.
    pub directory: PathBuf,
    /// Which files.
    pub layout: Layout,
    /// Who may read them.
    pub access: Access,
    /// The program and its arguments; no shell. Empty: none is needed.
    pub reload: Vec<String>,
    /// How long it may take.
    pub reload_limit: Duration,
    /// The shortest time between two reloads.
    pub reload_rest: Duration,
    /// Where the server serves, to look at it; none: the files themselves are looked at.
    pub probe: Option<SocketAddr>,
    /// How long a handshake may take.
    pub probe_limit: Duration,
    /// Where the agent keeps what it must remember.
    pub data: PathBuf,
}

impl FilesConfig {
    /// The usual, for this directory.
    #[must_use]
    pub fn new(directory: PathBuf, data: PathBuf) -> Self {
        Self {
            directory,
            layout: Layout::Combined,
            access: Access::Private,
            reload: Vec::new(),
            reload_limit: Duration::from_secs(30),
            reload_rest: Duration::from_secs(1),
            probe: None,
            probe_limit: Duration::from_secs(5),
            data,
        }
    }
}

/// A directory that another server reads.
pub struct FilesTarget {
    config: FilesConfig,
    prober: Prober,
    chains: Chains,
    reload: Reload,
    /// Apart from the state, which is held while the server is reloaded: looks go on meanwhile.
    stored: SyncMutex<Option<Arc<Stored>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What lies in the directory; none while that is in doubt.
    held: Option<HashMap<Hostname, Print>>,
    turn: Turn,
    /// Names whose files are gone, but for the server's word that it does without them.
    aside: BTreeSet<Hostname>,
    /// Names that were seen otherwise than they lie there.
    doubts: HashSet<Hostname>,
    doubted: Doubted,
    /// Is something under way? If it still is when the next thing begins, it was given up on half-way.
    torn: bool,
}

impl FilesTarget {
    /// Nothing is touched yet.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: FilesConfig) -> Result<Self> {
        let prober = Prober::new(config.probe_limit)?;
        let reload = Reload::new(&config);
        let (stored, state) = (SyncMutex::default(), Mutex::default());
        Ok(Self { config, prober, chains: Chains::default(), reload, stored, state })
    }

    fn stored(&self) -> MutexGuard<'_, Option<Arc<Stored>>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins something: what lies there is known, and what was given up on half-way writes nothing more.
    async fn begin(&self, state: &mut State) -> Result<(Arc<Stored>, Turn)> {
        if mem::replace(&mut state.torn, true) {
            state.turn = state.turn.next().await?;
            (*self.stored(), state.held) = (None, None);
        }
        let (turn, config) = (state.turn.clone(), self.config.clone());
        let known = self.stored().clone();
        let stored = match known {
            Some(stored) => stored,
            None => turn.blocking(move || Stored::open(&config).map(Arc::new)).await?,
        };
        *self.stored() = Some(stored.clone());
        if state.held.is_none() {
            let stored = stored.clone();
            let read = turn.blocking(move || Ok((stored.read()?, stored.all_aside()?))).await?;
            (state.held, state.aside) = (Some(read.0), read.1);
        }
        Ok((stored, turn))
    }

    /// Ends it: the server is told, if anything changed. Gives why names that were taken away are there again: without their files the
    /// server could not be reloaded.
    async fn end(&self, state: &mut State) -> Result<HashMap<Hostname, Note>> {
        let told = self.reload.run_if_due(&state.turn).await;
        let aside = mem::take(&mut state.aside);
        let stored = self.stored().clone().ok_or(Error::Stopped)?;
        let refused = match told {
            Err(why) if !aside.is_empty() => {
                let (stored, names) = (stored, aside.clone());
                let put_back = move || names.iter().try_for_each(|name| stored.put_back(name));
                state.turn.blocking(put_back).await?;
                state.held = None;
                // Where that does not help, it was not for them.
                self.reload.run_if_due(&state.turn).await?;
                aside
                    .into_iter()
                    .map(|name| (name.clone(), still_used(&name, &why).note()))
                    .collect()
            }
            told => {
                told?;
                let drop_all = move || aside.iter().try_for_each(|name| stored.drop_aside(name));
                state.turn.blocking(drop_all).await?;
                HashMap::new()
            }
        };
        state.torn = false;
        Ok(refused)
    }

    async fn put(
        &self,
        change: &Change,
        bundles: &dyn Bundles,
        (stored, turn): (&Arc<Stored>, &Turn),
    ) -> Result<Result<(Hostname, Print, Needed)>> {
        let checked = match Checked::fetch(change, bundles).await? {
            Ok(checked) => checked,
            Err(error) => return Ok(Err(error)),
        };
        let stored = stored.clone();
        let written = turn.blocking(move || {
            stored.write(&checked)?;
            Ok((checked.name, checked.print, checked.needed))
        });
        Ok(written.await)
    }
}

#[async_trait]
impl Target for FilesTarget {
    async fn apply(
        &self,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        _: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        state.forget_doubted(changes);
        let (stored, turn) = self.begin(&mut state).await?;
        let held = state.held.as_mut().ok_or(Error::Stopped)?;
        let is_right = |change: &Change| {
            let sha256 = held.get(&change.name).map(Print::sha256_hex);
            sha256.as_ref() == change.certificate.as_ref().map(|(_, sha256)| sha256)
        };
        let (right, wanted): (Vec<_>, Vec<_>) =
            changes.iter().enumerate().partition(|(_, change)| is_right(change));
        drop(right);
        if !wanted.is_empty() {
            self.reload.is_due(&turn).await?;
        }
        let (bundles, place) = (bundles.as_ref(), (&stored, &turn));
        let puts = wanted
            .into_iter()
            .map(|(at, change)| async move { (at, self.put(change, bundles, place).await) });
        let puts: Vec<_> = stream::iter(puts.collect::<Vec<_>>()).buffered(WRITES).collect().await;
        let mut results: Vec<_> = changes.iter().map(|_| Ok(())).collect();
        let mut broken = None;
        for (at, put) in puts {
            match (put?, results.get_mut(at)) {
                (Ok((name, print, needed)), _) => {
                    self.chains.keep(&name, print.sha256, &needed);
                    held.insert(name, print);
                }
                // The edge as a whole is out of order, and not this name.
                (Err(error), _) if error.is_disk_of(&self.config.directory) => broken = Some(error),
                (Err(error), Some(result)) => *result = Err(error.note()),
                (Err(_), None) => {}
            }
        }
        self.end(&mut state).await?;
        broken.map_or(Ok(results), Err)
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let (stored, turn) = self.begin(&mut state).await?;
        let mut results = Vec::new();
        for name in names {
            let (stored, going) = (stored.clone(), name.clone());
            if stored.has_files(name) {
                self.reload.is_due(&turn).await?;
            }
            let gone = turn.blocking(move || stored.put_aside(&going)).await;
            if gone.is_ok() {
                if let Some(held) = &mut state.held {
                    held.remove(name);
                }
                state.aside.insert(name.clone());
                self.chains.forget(name);
            }
            results.push(gone.map_err(|error| error.note()));
        }
        let mut refused = self.end(&mut state).await?;
        for (name, result) in names.iter().zip(&mut results) {
            if let Some(note) = refused.remove(name) {
                *result = Err(note);
            }
        }
        Ok(results)
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        let Some(stored) = self.stored().clone() else { return Ok(None) };
        let (path, held) = (stored.leaf(name), name.clone());
        let print = blocking(move || Ok(stored.shown(&held))).await?;
        let Some(address) = self.config.probe else {
            return Ok(print.map(|print| print.sha256_hex()));
        };
        let shown = match self.prober.show(address, name).await {
            // A server that looks for the file at each handshake has none to show.
            Err(error) if print.is_none() && is_refusal(&error) => None,
            shown => shown?,
        };
        if let Some(shown) = &shown {
            self.chains.check(name, shown, || path).await?;
        }
        Ok(shown.map(|shown| shown.sha256()))
    }

    async fn answers(&self) -> Result<()> {
        match self.config.probe {
            Some(address) => self.prober.answers(address).await,
            None => Ok(()),
        }
    }

    async fn doubt(&self, names: &[Hostname]) {
        self.state.lock().await.doubts.extend(names.iter().cloned());
    }

    async fn inventory(&self) -> Result<Option<Inventory>> {
        let mut state = self.state.lock().await;
        state.held = None;
        self.begin(&mut state).await?;
        self.end(&mut state).await?;
        let held = state.held.iter().flatten();
        let held = held.map(|(name, print)| (name.clone(), Some(print.sha256_hex()))).collect();
        Ok(Some(Inventory { held, strangers: Vec::new() }))
    }
}

impl State {
    /// What was seen otherwise than it lies there is written again, and the server told again; not all the time, since a server may
    /// not read these files at all.
    fn forget_doubted(&mut self, changes: &[Change]) {
        let is_asked = changes.iter().any(|change| self.doubts.contains(&change.name));
        if let Some(held) = self.held.as_mut().filter(|_| is_asked && !self.torn)
            && self.doubted.may_act()
        {
            for name in self.doubts.drain() {
                held.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_given_up_on_half_way_writes_nothing_more() {
        let scratch = holdfast_testkit::Scratch::new().unwrap();
        let path = scratch.path();
        let config = FilesConfig::new(path.join("certs"), path.to_owned());
        let target = FilesTarget::new(config).unwrap();
        let given_up = target.begin(&mut *target.state.lock().await).await.unwrap().1;
        let file = path.join("certs/shop.test.pem");
        let write = || {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
            opened.map(drop).map_err(|_| Error::Gone)
        };
        given_up.run(write).unwrap();
        target.withdraw(&[Hostname::parse("shop.test").unwrap()]).await.unwrap();
        std::fs::remove_file(&file).unwrap();
        let late = given_up.run(write);
        assert!(matches!(late, Err(Error::Stopped)) && !file.exists());
        // What came to its end leaves the turn to the next.
        let turn = target.state.lock().await.turn.clone();
        target.withdraw(&[]).await.unwrap();
        turn.run(|| Ok(())).unwrap();
    }
}
