//! A target that does as the test says.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use holdfast_agent::{Bundles, Error, Result, Target};
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio::sync::mpsc::UnboundedSender;

use super::name;

#[derive(Default)]
pub(crate) struct Scripted {
    state: Mutex<State>,
    /// The target as a whole is out of order.
    pub(crate) broken: AtomicBool,
    pub(crate) panics: AtomicBool,
    /// Nobody can make a handshake.
    pub(crate) down: AtomicBool,
    probing: AtomicUsize,
    pub(crate) most_probing: AtomicUsize,
}

#[derive(Default)]
struct State {
    served: HashMap<Hostname, String>,
    refused: HashSet<Hostname>,
    /// Applied, it says, and yet not served.
    ignored: HashSet<Hostname>,
    applied: Vec<Hostname>,
    probed: Vec<Hostname>,
    doubted: Vec<Hostname>,
    listings: Vec<&'static str>,
}

impl Scripted {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn refuse(&self, text: &str, refused: bool) {
        let mut state = self.lock();
        if refused {
            state.refused.insert(name(text))
        } else {
            state.refused.remove(&name(text))
        };
    }

    pub(crate) fn ignore(&self, text: &str) {
        self.lock().ignored.insert(name(text));
    }

    /// A name is not served any more, without the agent's doing.
    pub(crate) fn lose(&self, text: &str) {
        self.lock().served.remove(&name(text));
    }

    pub(crate) fn probed_in_all(&self) -> usize {
        self.lock().probed.len()
    }

    /// Names whose application was not believed any more.
    pub(crate) fn doubted(&self) -> Vec<Hostname> {
        self.lock().doubted.clone()
    }

    fn nobody(&self) -> Option<(SocketAddr, io::Error)> {
        let is_down = self.down.load(Relaxed);
        is_down.then(|| (([127, 0, 0, 1], 1).into(), io::ErrorKind::ConnectionRefused.into()))
    }

    /// How often a name was applied.
    pub(crate) fn applied(&self, text: &str) -> usize {
        self.lock().applied.iter().filter(|applied| **applied == name(text)).count()
    }

    pub(crate) fn applied_in_all(&self) -> usize {
        self.lock().applied.len()
    }

    pub(crate) fn probed(&self, text: &str) -> usize {
        self.lock().probed.iter().filter(|probed| **probed == name(text)).count()
    }

    pub(crate) fn listings(&self) -> Vec<&'static str> {
        self.lock().listings.clone()
    }
}

#[async_trait]
impl Target for Scripted {
    async fn apply(
        &self,
        changes: &[Change],
        bundles: Arc<dyn Bundles>,
        _: &UnboundedSender<usize>,
    ) -> Result<Vec<Result<(), Note>>> {
        assert!(!self.panics.swap(false, Relaxed), "as the test said");
        if self.broken.load(Relaxed) {
            return Err(Error::Unavailable { source: "the proxy is away".into() });
        }
        let mut results = Vec::new();
        for change in changes {
            let bundle = bundles.bundle(change).await?;
            let mut state = self.lock();
            state.applied.push(change.name.clone());
            if state.refused.contains(&change.name) {
                results.push(Err(Note::new("edge-refused", "as the test said")));
                continue;
            }
            if let Some(bundle) = bundle
                && !state.ignored.contains(&change.name)
            {
                state.served.insert(change.name.clone(), bundle.summary.sha256);
            }
            results.push(Ok(()));
        }
        Ok(results)
    }

    async fn withdraw(&self, names: &[Hostname]) -> Result<Vec<Result<(), Note>>> {
        let mut state = self.lock();
        for name in names {
            state.served.remove(name);
        }
        Ok(names.iter().map(|_| Ok(())).collect())
    }

    async fn probe(&self, name: &Hostname) -> Result<Option<String>> {
        let now = self.probing.fetch_add(1, Relaxed) + 1;
        self.most_probing.fetch_max(now, Relaxed);
        // Long enough for the others to begin theirs.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.probing.fetch_sub(1, Relaxed);
        if let Some((address, source)) = self.nobody() {
            return Err(Error::Unseen { address, source });
        }
        let mut state = self.lock();
        state.probed.push(name.clone());
        Ok(state.served.get(name).cloned())
    }

    async fn answers(&self) -> Result<()> {
        let nobody = self.nobody();
        nobody.map_or(Ok(()), |(address, source)| Err(Error::ProxyDown { address, source }))
    }

    async fn doubt(&self, names: &[Hostname]) {
        self.lock().doubted.extend(names.iter().cloned());
    }

    async fn listing_began(&self) -> Result<()> {
        self.lock().listings.push("began");
        Ok(())
    }

    async fn listing_ended(&self, restored: bool) -> Result<()> {
        self.lock().listings.push(if restored { "ended, restored" } else { "ended" });
        Ok(())
    }
}
