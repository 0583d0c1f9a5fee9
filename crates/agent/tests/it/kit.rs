//! What the tests of the edge share: an authority, a source and feed in memory, visitors.

mod authority;
mod behind;
mod crowd;
mod load;
mod memory;
mod middleman;
mod plane;
mod proxied;
mod raw;
mod scripted;
mod stored;
mod visitor;

use std::sync::Arc;

use holdfast_agent::{BuiltinEdge, EdgeConfig, Target as _};
use holdfast_model::{Hostname, Note};
use holdfast_store::Change;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use self::authority::Authority;
pub(crate) use self::behind::{AGES, Behind, PIECE};
pub(crate) use self::crowd::Crowd;
pub(crate) use self::load::{Host, Load};
pub(crate) use self::memory::{Lie, Memory};
pub(crate) use self::middleman::{Middleman, Mischief};
pub(crate) use self::plane::Plane;
pub(crate) use self::proxied::{Proxied, Running, pem, settings};
pub(crate) use self::raw::{FINE, Raw};
pub(crate) use self::scripted::Scripted;
pub(crate) use self::stored::Stored;
pub(crate) use self::visitor::{LIMIT, Visitor, ask};

pub(crate) fn name(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

/// An edge on free ports, its source, and the authority of its certificates.
pub(crate) struct Ground {
    pub(crate) edge: Arc<BuiltinEdge>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) authority: Authority,
    pub(crate) stop: CancellationToken,
    _stop: DropGuard,
}

impl Ground {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut EdgeConfig)) -> Self {
        let free = ([127, 0, 0, 1], 0).into();
        let mut config = EdgeConfig::new("edge-1", "default", Some(free), free);
        change(&mut config);
        let (memory, stop) = (Arc::new(Memory::default()), CancellationToken::new());
        let edge = BuiltinEdge::start_with(config, memory.clone(), stop.clone()).await.unwrap();
        Self {
            edge: Arc::new(edge),
            memory,
            authority: Authority::new(),
            _stop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Issues and deploys a certificate in the source, as if it had been there before the edge started.
    pub(crate) fn deploy(&self, text: &str) -> String {
        self.memory.deploy(&self.authority.issue(text))
    }

    /// Issues, deploys and applies a certificate, as the agent does.
    pub(crate) async fn swap(&self, text: &str) -> String {
        let sha256 = self.deploy(text);
        let change = self.memory.change(text);
        assert_eq!(self.apply(&[change]).await, [Ok(())]);
        sha256
    }

    /// Applies changes as the agent does.
    pub(crate) async fn apply(&self, changes: &[Change]) -> Vec<Result<(), Note>> {
        let (ready, _places) = tokio::sync::mpsc::unbounded_channel();
        self.edge.apply(changes, self.memory.clone(), &ready).await.unwrap()
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::new(&self.authority, self.edge.https())
    }

    pub(crate) async fn sees(&self, text: &str) -> Option<String> {
        self.edge.probe(&name(text)).await.unwrap()
    }
}

/// The certificate shown to a CA that validates by TLS-ALPN-01, DER.
pub(crate) async fn challenge_leaf(https: std::net::SocketAddr, host: &str) -> Vec<u8> {
    visitor::unverified_leaf(https, host, b"acme-tls/1").await
}
