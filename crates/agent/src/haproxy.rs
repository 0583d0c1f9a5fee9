//! HAProxy as an edge: certificates on its disk for its next start, and in its memory without a reload.
//!
//! ```text
//!   apply:    fetch, check -> write NAME.pem -> new, set, commit, show -> write the list -> add to the list ([`put`])
//!   withdraw: write the list -> delete from the list, delete -> remove NAME.pem
//! ```
//!
//! Disk comes before memory: whoever is killed at whatever moment, what lies on disk is whole, HAProxy can start from it, and
//! the next comparison of memory with disk ([`refill`]) brings them together. Each operation talks on a connection
//! of its own, since a reload hands the socket to another process; a process that was not seen before is
//! compared first. Nothing here knows what is to be served.

mod adopt;
mod ahead;
mod back;
mod disk;
mod group;
mod list;
mod memory;
mod put;
mod refill;
mod replace;
mod runtime;
mod stranger;
mod transaction;
mod wide;
mod withdraw;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Hostname, Note};
use holdfast_store::{Adoption, Change, Stranger};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use self::disk::Disk;
use self::put::Put;
pub use self::runtime::RuntimeAddress;
use self::runtime::{Identity, Runtime};
use self::stranger::Strangers;
use crate::chain::Chains;
use crate::target::Doubted;
use crate::turn::Turn;
use crate::{Bundles, Error, Inventory, Prober, Result, Target};

pub(crate) use self::disk::{sweep, unusable};

/// How a HAProxy is reached and where its files are.
#[derive(Debug, Clone)]
pub struct HaproxyConfig {
    /// Where it takes commands; `level admin`.
    pub socket: RuntimeAddress,
    /// Where our PEM files lie: an absolute path, the same for HAProxy.
    pub directory: PathBuf,
    /// The list on its bind line, as it stands there.
    pub crt_list: PathBuf,
    /// Where it serves, to look at it.
    pub probe: SocketAddr,
    /// Where the agent keeps what it must remember.
    pub data: PathBuf,
    /// Its `tune.bufsize`: no command can be larger.
    pub bufsize: usize,
    /// How long a handshake may take.
    pub probe_limit: Duration,
    /// How often it is looked whether it was restarted.
    pub tended_every: Duration,
}

impl HaproxyConfig {
    /// The usual, for a HAProxy with these.
    #[must_use]
    pub fn new(
        socket: RuntimeAddress,
        directory: PathBuf,
        crt_list: PathBuf,
        probe: SocketAddr,
        data: PathBuf,
    ) -> Self {
        Self {
            socket,
            directory,
            crt_list,
            probe,
            data,
            bufsize: 16_384,
            probe_limit: Duration::from_secs(5),
            tended_every: Duration::from_secs(2),
        }
    }
}

/// A HAProxy beside this agent.
pub struct HaproxyTarget {
    config: HaproxyConfig,
    prober: Prober,
    chains: Chains,
    /// Held for the whole of an operation: HAProxy has one transaction for all.
    state: Mutex<State>,
    /// Names that we took away, with what was served before.
    withdrawn: SyncMutex<HashMap<Hostname, Option<String>>>,
}

#[derive(Default)]
struct State {
    /// Who may write; another with each beginning anew.
    turn: Turn,
    disk: Option<Disk>,
    /// The process whose memory is as the disk says; none while that is in doubt.
    compared: Option<Identity>,
    /// Was it compared since that was last told?
    mended: bool,
    /// Is something under way? If it still is when the next thing begins, it was given up on half-way.
    torn: bool,
    strangers: Strangers,
    doubted: Doubted,
    /// Names in memory whose file is not on disk.
    orphans: Vec<Hostname>,
}

/// So many withdrawn names are remembered.
const WITHDRAWN: usize = 10_000;

impl HaproxyTarget {
    /// Nothing is touched yet.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: HaproxyConfig) -> Result<Self> {
        let prober = Prober::new(config.probe_limit)?;
        let (state, withdrawn) = (Mutex::default(), SyncMutex::default());
        Ok(Self { config, prober, chains: Chains::default(), state, withdrawn })
    }

    /// Makes the files that HAProxy needs for its first start, and cleans up after a kill.
    ///
    /// # Errors
    /// When they cannot be written.
    pub async fn prepare(&self) -> Result<()> {
        self.disk(&mut *self.state.lock().await).await
    }

    async fn disk(&self, state: &mut State) -> Result<()> {
        let is_first = state.disk.is_none();
        if !is_first && !state.torn {
            return Ok(());
        }
        // What was given up on half-way may have written anything, and may still be writing.
        state.turn = state.turn.next().await?;
        let (config, turn) = (self.config.clone(), state.turn.clone());
        let open = move || {
            if is_first {
                disk::clean(&config)?;
            }
            let disk = Disk::open(&config, turn)?;
            if is_first {
                disk.tell_of_others()?;
            }
            Ok(disk)
        };
        state.disk = Some(state.turn.blocking(open).await?);
        state.torn = false;
        Ok(())
    }

    async fn connect(&self) -> Result<Runtime> {
        Runtime::connect(&self.config.socket, self.config.bufsize).await
    }

    /// Another connection to the same process: HAProxy hangs up on who says nothing for a while.
    async fn reconnect(&self, identity: &Identity) -> Result<Runtime> {
        let mut runtime = self.connect().await?;
        if runtime.identity().await? == *identity {
            return Ok(runtime);
        }
        let source = std::io::Error::other("it was restarted meanwhile");
        Err(Error::Proxy { address: self.config.socket.to_string(), source })
    }

    /// A connection to a process whose memory is as the disk says.
    /// Until [`done`](Self::done) that counts as in doubt, whatever happens.
    async fn ready(&self, state: &mut State) -> Result<(Runtime, Identity)> {
        self.disk(state).await?;
        let mut runtime = self.connect().await?;
        let identity = runtime.identity().await?;
        let known = state.compared.take().as_ref() == Some(&identity);
        if !known {
            self.refill(state, &mut runtime, &identity).await?;
            state.mended = true;
        }
        state.torn = true;
        Ok((runtime, identity))
    }

    fn done(state: &mut State, identity: Identity) {
        (state.compared, state.torn) = (Some(identity), false);
    }

    fn crt_list(&self) -> String {
        self.config.crt_list.display().to_string()
    }

    /// Asked a second time, nothing may be known of it any more: what was known stays.
    fn remember_withdrawn(&self, name: &Hostname, served: Option<String>) {
        let mut withdrawn = self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        if withdrawn.len() >= WITHDRAWN {
            withdrawn.clear();
        }
        let known = withdrawn.entry(name.clone()).or_default();
        *known = served.or(known.take());
    }

    fn forget_withdrawn(&self, name: &Hostname) {
        self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl State {
    fn disk(&mut self) -> Result<&mut Disk> {
        self.disk.as_mut().ok_or(Error::Stopped)
    }
}

#[async_trait]
impl Target for HaproxyTarget {
    async fn apply(
        &self,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        ready: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let (mut runtime, identity) = self.ready(&mut state).await?;
        let put = self.put_all(&mut state, &mut runtime, &identity, changes, bundles, ready);
        let Put { results, is_in_doubt } = put.await?;
        Self::done(&mut state, identity);
        if is_in_doubt {
            state.compared = None;
        }
        results
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let (mut runtime, identity) = self.ready(&mut state).await?;
        let results = self.take_away(&mut state, &mut runtime, names).await?;
        names.iter().for_each(|name| self.chains.forget(name));
        Self::done(&mut state, identity);
        Ok(results)
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        let shown = self.prober.show(self.config.probe, name).await?;
        if let Some(shown) = &shown {
            let file = || self.config.directory.join(format!("{name}.pem"));
            self.chains.check(name, shown, file).await?;
        }
        let seen = shown.map(|shown| shown.sha256());
        let withdrawn = self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        // What a stranger serves for a name that we took away is none of our business.
        Ok(seen.filter(|seen| withdrawn.get(name).is_none_or(|ours| ours.as_ref() == Some(seen))))
    }

    async fn answers(&self) -> Result<()> {
        self.prober.answers(self.config.probe).await
    }

    async fn doubt(&self, names: &[Hostname]) {
        let mut state = self.state.lock().await;
        if let Some(disk) = &mut state.disk {
            for name in names {
                if let Some(entry) = disk.entries.get_mut(name) {
                    entry.is_doubted = true;
                }
            }
        }
        // Somebody may have changed anything; comparing all of it costs a proxy with many certificates seconds.
        if state.doubted.may_act() {
            state.compared = None;
        }
    }

    async fn inventory(&self) -> Result<Option<Inventory>> {
        let mut state = self.state.lock().await;
        // Also a process that was compared before: whoever asks wants to know how it is now.
        state.compared = None;
        let (_runtime, identity) = self.ready(&mut state).await?;
        let strangers = state.strangers.all().to_vec();
        let orphans = state.orphans.clone();
        let held = state.disk()?.entries.iter().map(|(name, entry)| {
            let right = entry.loaded && entry.listed;
            (name.clone(), right.then(|| entry.print.sha256_hex()))
        });
        let mut held: HashMap<_, _> = held.collect();
        held.extend(orphans.into_iter().map(|name| (name, None)));
        Self::done(&mut state, identity);
        state.mended = false;
        Ok(Some(Inventory { held, strangers }))
    }

    async fn survey(&self) -> Result<Vec<Stranger>> {
        let mut runtime = self.connect().await?;
        let memory = memory::Memory::read(&mut runtime).await?;
        // An observer has nothing of its own: whatever is loaded is somebody's.
        let files: Vec<_> = memory.certificates.iter().cloned().collect();
        Ok(Strangers::read(&mut runtime, &memory, files).await?.all().to_vec())
    }

    async fn adopt(&self, adoptions: &[Adoption]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let (mut runtime, identity) = self.ready(&mut state).await?;
        let results = self.take_over(&mut state, &mut runtime, adoptions).await?;
        Self::done(&mut state, identity);
        Ok(results)
    }

    fn tended_every(&self) -> Option<Duration> {
        Some(self.config.tended_every)
    }

    async fn tend(&self) -> Result<bool> {
        let mut state = self.state.lock().await;
        let (_runtime, identity) = self.ready(&mut state).await?;
        Self::done(&mut state, identity);
        Ok(std::mem::take(&mut state.mended))
    }
}
