//! Any server that reads PEM files and can be told to read them again: nginx, and whatever else.
//!
//! Files are written whole; then one command is run for however many changed. What was not reloaded yet is remembered, also
//! across a restart of the agent, so a reload that failed is tried again. Nothing here knows which server it is.

mod reload;

use std::collections::HashMap;
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
use crate::checked::{Checked, Print};
use crate::haproxy::{sweep, unusable};
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
    reload: Reload,
    state: Mutex<Option<HashMap<Hostname, Print>>>,
}

impl FilesTarget {
    /// Nothing is touched yet.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: FilesConfig) -> Result<Self> {
        let prober = Prober::new(config.probe_limit)?;
        let reload = Reload::new(&config);
        Ok(Self { config, prober, reload, state: Mutex::new(None) })
    }

    fn path(&self, name: &Hostname, ending: &str) -> PathBuf {
        self.config.directory.join(format!("{name}.{ending}"))
    }

    /// What the leaf is read from.
    fn leaf(&self, name: &Hostname) -> PathBuf {
        let combined = self.config.layout != Layout::Separate;
        self.path(name, if combined { "pem" } else { "crt" })
    }

    /// Reads what is there, once.
    async fn held<'a>(
        &self,
        state: &'a mut Option<HashMap<Hostname, Print>>,
    ) -> Result<&'a mut HashMap<Hostname, Print>> {
        if state.is_none() {
            let config = self.config.clone();
            *state = Some(blocking(move || read(&config)).await?);
        }
        state.as_mut().ok_or(Error::Stopped)
    }

    async fn put(
        &self,
        change: &Change,
        bundles: &dyn Bundles,
    ) -> Result<Result<(Hostname, Print)>> {
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
        Ok(blocking(move || {
            if layout != Layout::Combined {
                // The key first: a chain whose key is not there yet is what a reload in between would find.
                write(&key, checked.key.as_bytes())?;
                write(&crt, checked.chain.as_bytes())?;
            }
            if layout != Layout::Separate {
                write(&pem, checked.combined().as_bytes())?;
            }
            Ok((checked.name, checked.print))
        })
        .await)
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
        let held = self.held(&mut state).await?;
        let is_right = |change: &Change| {
            let sha256 = held.get(&change.name).map(Print::sha256_hex);
            sha256.as_ref() == change.certificate.as_ref().map(|(_, sha256)| sha256)
        };
        let (right, wanted): (Vec<_>, Vec<_>) =
            changes.iter().enumerate().partition(|(_, change)| is_right(change));
        drop(right);
        if !wanted.is_empty() {
            self.reload.is_due().await?;
        }
        let bundles = bundles.as_ref();
        let puts = wanted
            .into_iter()
            .map(|(at, change)| async move { (at, self.put(change, bundles).await) });
        let puts: Vec<_> = stream::iter(puts.collect::<Vec<_>>()).buffered(WRITES).collect().await;
        let mut results: Vec<_> = changes.iter().map(|_| Ok(())).collect();
        for (at, put) in puts {
            match (put?, results.get_mut(at)) {
                (Ok((name, print)), _) => drop(held.insert(name, print)),
                (Err(error), Some(result)) => *result = Err(error.note()),
                (Err(_), None) => {}
            }
        }
        self.reload.run_if_due().await?;
        Ok(results)
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.state.lock().await;
        let held = self.held(&mut state).await?;
        let mut results = Vec::new();
        for name in names {
            let paths = ["pem", "crt", "key"].map(|ending| self.path(name, ending));
            if held.contains_key(name) {
                self.reload.is_due().await?;
            }
            let removed = blocking(move || paths.iter().try_for_each(|path| remove(path))).await;
            if removed.is_ok() {
                held.remove(name);
            }
            results.push(removed.map_err(|error| error.note()));
        }
        self.reload.run_if_due().await?;
        Ok(results)
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        if let Some(address) = self.config.probe {
            return self.prober.look_for(address, name).await;
        }
        let path = self.leaf(name);
        let print =
            blocking(move || Ok(std::fs::read(path).ok().and_then(|pem| Print::of_pem(&pem))));
        Ok(print.await?.map(|print| print.sha256_hex()))
    }

    async fn inventory(&self) -> Result<Option<Inventory>> {
        let mut state = self.state.lock().await;
        *state = None;
        let held = self.held(&mut state).await?;
        let held =
            held.iter().map(|(name, print)| (name.clone(), Some(print.sha256_hex()))).collect();
        self.reload.run_if_due().await?;
        Ok(Some(Inventory { held, strangers: Vec::new() }))
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

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Stopped)?
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
