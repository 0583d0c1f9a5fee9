//! Any server that reads PEM files and can be told to read them again: nginx, and whatever else.
//!
//! Files are written whole; then one command is run for however many changed. What was not reloaded yet is remembered, also
//! across a restart of the agent, so a reload that failed is tried again. Nothing here knows which server it is.

mod reload;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use holdfast_gateway::files::{self as door, Access};
use holdfast_gateway::point::{Point, around_sync};
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use self::reload::Reload;
use crate::chain::{Chains, Needed};
use crate::checked::{Checked, Print};
use crate::haproxy::{sweep, unusable};
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What lies in the directory; none while that is in doubt.
    held: Option<HashMap<Hostname, Print>>,
    turn: Turn,
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
        Ok(Self { config, prober, chains: Chains::default(), reload, state: Mutex::default() })
    }

    fn path(&self, name: &Hostname, ending: &str) -> PathBuf {
        self.config.directory.join(format!("{name}.{ending}"))
    }

    /// What the leaf is read from.
    fn leaf(&self, name: &Hostname) -> PathBuf {
        let combined = self.config.layout != Layout::Separate;
        self.path(name, if combined { "pem" } else { "crt" })
    }

    /// Begins something: what lies there is known, and what was given up on half-way writes nothing more.
    async fn begin<'a>(
        &self,
        state: &'a mut State,
    ) -> Result<(&'a mut HashMap<Hostname, Print>, Turn)> {
        if mem::replace(&mut state.torn, true) {
            state.turn = state.turn.next().await?;
            state.held = None;
        }
        let turn = state.turn.clone();
        if state.held.is_none() {
            let config = self.config.clone();
            state.held = Some(turn.blocking(move || read(&config)).await?);
        }
        Ok((state.held.as_mut().ok_or(Error::Stopped)?, turn))
    }

    /// Ends it: the server is told, if anything changed.
    async fn end(&self, state: &mut State) -> Result<()> {
        let told = self.reload.run_if_due(&state.turn).await;
        state.torn = false;
        told
    }

    async fn put(
        &self,
        change: &Change,
        bundles: &dyn Bundles,
        turn: &Turn,
    ) -> Result<Result<(Hostname, Print, Needed)>> {
        let checked = match Checked::fetch(change, bundles).await? {
            Ok(checked) => checked,
            Err(error) => return Ok(Err(error)),
        };
        let (pem, crt, key) = (
            self.path(&checked.name, "pem"),
            self.path(&checked.name, "crt"),
            self.path(&checked.name, "key"),
        );
        let layout = self.config.layout;
        let written = turn.blocking(move || {
            if layout != Layout::Combined {
                // The key first: a chain whose key is not there yet is what a reload in between would find.
                write(&key, checked.key.as_bytes())?;
                write(&crt, checked.chain.as_bytes())?;
            }
            if layout != Layout::Separate {
                write(&pem, checked.combined().as_bytes())?;
            }
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
        let (held, turn) = self.begin(&mut state).await?;
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
        let (bundles, turn) = (bundles.as_ref(), &turn);
        let puts = wanted
            .into_iter()
            .map(|(at, change)| async move { (at, self.put(change, bundles, turn).await) });
        let puts: Vec<_> = stream::iter(puts.collect::<Vec<_>>()).buffered(WRITES).collect().await;
        let mut results: Vec<_> = changes.iter().map(|_| Ok(())).collect();
        for (at, put) in puts {
            match (put?, results.get_mut(at)) {
                (Ok((name, print, needed)), _) => {
                    self.chains.keep(&name, print.sha256, &needed);
                    held.insert(name, print);
                }
                (Err(error), Some(result)) => *result = Err(error.note()),
                (Err(_), None) => {}
            }
        }
        self.end(&mut state).await?;
        Ok(results)
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let (held, turn) = self.begin(&mut state).await?;
        let mut results = Vec::new();
        for name in names {
            let paths = ["pem", "crt", "key"].map(|ending| self.path(name, ending));
            if held.contains_key(name) {
                self.reload.is_due(&turn).await?;
            }
            let remove_all = move || paths.iter().try_for_each(|path| remove(path));
            let removed = turn.blocking(remove_all).await;
            if removed.is_ok() {
                held.remove(name);
                self.chains.forget(name);
            }
            results.push(removed.map_err(|error| error.note()));
        }
        self.end(&mut state).await?;
        Ok(results)
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        let path = self.leaf(name);
        if let Some(address) = self.config.probe {
            let shown = self.prober.show(address, name).await?;
            if let Some(shown) = &shown {
                self.chains.check(name, shown, || path).await?;
            }
            return Ok(shown.map(|shown| shown.sha256()));
        }
        let print =
            blocking(move || Ok(std::fs::read(path).ok().and_then(|pem| Print::of_pem(&pem))));
        Ok(print.await?.map(|print| print.sha256_hex()))
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
        let (held, _) = self.begin(&mut state).await?;
        let held =
            held.iter().map(|(name, print)| (name.clone(), Some(print.sha256_hex()))).collect();
        self.end(&mut state).await?;
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

/// What lies in the directory, by name.
fn read(config: &FilesConfig) -> Result<HashMap<Hostname, Print>> {
    let directory = &config.directory;
    std::fs::create_dir_all(directory).map_err(|source| unusable(directory, source))?;
    sweep(directory)?;
    let ending = if config.layout == Layout::Separate { ".crt" } else { ".pem" };
    let mut held = HashMap::new();
    for file in
        std::fs::read_dir(directory).map_err(|source| unusable(directory, source))?.flatten()
    {
        let file_name = file.file_name();
        let name = file_name.to_str().and_then(|name| name.strip_suffix(ending));
        let Some(name) = name.and_then(|name| Hostname::parse_host(name).ok()) else { continue };
        let whole =
            config.layout == Layout::Combined || directory.join(format!("{name}.key")).exists();
        let print = std::fs::read(file.path()).ok().and_then(|pem| Print::of_pem(&pem));
        if let Some(print) = print.filter(|_| whole) {
            held.insert(name, print);
        }
    }
    Ok(held)
}

fn write(path: &Path, contents: &[u8]) -> Result<()> {
    Ok(door::write(Point::FILE_EDGE, path, contents, Access::Private)?)
}

fn remove(path: &Path) -> Result<()> {
    match around_sync(Point::FILE_EDGE, || std::fs::remove_file(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(path, error)),
        _ => Ok(()),
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
        given_up.run(|| write(&file, b"its own turn")).unwrap();
        target.withdraw(&[Hostname::parse("shop.test").unwrap()]).await.unwrap();
        let late = given_up.run(|| write(&file, b"late"));
        assert!(matches!(late, Err(Error::Stopped)) && !file.exists());
        // What came to its end leaves the turn to the next.
        let turn = target.state.lock().await.turn.clone();
        target.withdraw(&[]).await.unwrap();
        turn.run(|| Ok(())).unwrap();
    }
}
