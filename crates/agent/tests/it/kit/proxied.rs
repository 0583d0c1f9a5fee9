//! A real HAProxy, a control plane in memory, and the agent between them.

use std::sync::Arc;

use holdfast_agent::{
    AgentConfig, Feed, HaproxyConfig, HaproxyTarget, RuntimeAddress, Target, run_agent,
};
use holdfast_store::Bundle;
use holdfast_testkit::Haproxy;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Authority, Memory, Visitor};

/// A running agent.
pub(crate) struct Running {
    _stop: DropGuard,
    stop: CancellationToken,
    agent: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(feed: Arc<dyn Feed>, target: Arc<dyn Target>, config: AgentConfig) -> Self {
        let stop = CancellationToken::new();
        let agent = tokio::spawn(run_agent(feed, target, config, stop.clone()));
        Self { _stop: stop.clone().drop_guard(), stop, agent }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.agent.await.unwrap();
    }
}

/// An edge with HAProxy.
pub(crate) struct Proxied {
    pub(crate) haproxy: Haproxy,
    pub(crate) memory: Arc<Memory>,
    pub(crate) authority: Arc<Authority>,
}

impl Proxied {
    /// HAProxy runs, with no certificate but its default.
    pub(crate) async fn new() -> Self {
        Self::with(Haproxy::prepare().unwrap()).await
    }

    pub(crate) async fn with(haproxy: Haproxy) -> Self {
        let authority = Arc::new(Authority::new());
        let mut proxied = Self { haproxy, memory: Arc::default(), authority };
        HaproxyTarget::new(proxied.settings()).unwrap().prepare().await.unwrap();
        proxied.haproxy.start().await.unwrap();
        proxied
    }

    pub(crate) fn settings(&self) -> HaproxyConfig {
        settings(&self.haproxy)
    }

    pub(crate) fn target(&self) -> Arc<HaproxyTarget> {
        Arc::new(HaproxyTarget::new(self.settings()).unwrap())
    }

    pub(crate) fn config(&self) -> AgentConfig {
        AgentConfig {
            revision_file: Some(self.haproxy.path().join("revision")),
            kept_file: Some(self.haproxy.path().join("kept")),
            confirm_file: Some(self.haproxy.path().join("remove-unlisted")),
            ..AgentConfig::default()
        }
    }

    pub(crate) fn run(&self) -> Running {
        Running::start(self.memory.clone(), self.target(), self.config())
    }

    pub(crate) fn deploy(&self, host: &str) -> String {
        self.memory.deploy(&self.authority.issue(host))
    }

    /// The agent takes files for its own that a test put there.
    pub(crate) fn own(&self, hosts: &[&str]) {
        let path = self.settings().data.join("manifest");
        let listed: String = hosts.iter().map(|host| format!("+{host}.pem\n")).collect();
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, before + &listed).unwrap();
    }

    /// Deploys, and waits until it was seen.
    pub(crate) async fn served(&self, host: &str) -> String {
        let sha256 = self.deploy(host);
        self.memory.until_seen(host, Some(&sha256)).await;
        sha256
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::new(&self.authority, self.haproxy.https()).never_resuming()
    }

    /// What a visitor of the name gets.
    pub(crate) async fn visit(&self, host: &str) -> String {
        self.visitor().visit(host).await.unwrap().sha256
    }

    /// What anybody gets, whoever issued it.
    pub(crate) async fn visit_unverified(&self, host: &str) -> String {
        let leaf = super::visitor::unverified_leaf(self.haproxy.https(), host, b"http/1.1").await;
        holdfast_agent::fingerprint(&leaf)
    }

    /// Gives HAProxy a certificate as somebody else would: not by the agent.
    pub(crate) async fn load_by_hand(&self, file: &str, bundle: &Bundle) {
        let (list, name) = (self.haproxy.crt_list(), &bundle.name);
        for command in [
            format!("new ssl cert {file}"),
            format!("set ssl cert {file} <<\n{}\n", pem(bundle)),
            format!("commit ssl cert {file}"),
            format!("add ssl crt-list {} <<\n{file} {name}\n", list.display()),
        ] {
            self.haproxy.ask(&command).await.unwrap();
        }
    }

    /// Everything on disk and in memory.
    pub(crate) async fn snapshot(&self) -> Vec<String> {
        let mut all = Vec::new();
        for directory in [self.haproxy.path().to_owned(), self.haproxy.certificates()] {
            for file in std::fs::read_dir(directory).unwrap().flatten() {
                let changed = file.metadata().unwrap().modified().unwrap();
                // The agent's own note of where it is.
                if file.file_name() != "revision" && file.path().is_file() {
                    all.push(format!("{} {changed:?}", file.path().display()));
                }
            }
        }
        all.sort();
        all.push(self.haproxy.ask("show ssl cert").await.unwrap());
        all
    }

    /// Where a name's certificate lies.
    pub(crate) fn file(&self, host: &str) -> String {
        self.haproxy.certificates().join(format!("{host}.pem")).display().to_string()
    }

    pub(crate) fn read_list(&self) -> String {
        std::fs::read_to_string(self.haproxy.crt_list()).unwrap()
    }
}

pub(crate) fn settings(haproxy: &Haproxy) -> HaproxyConfig {
    let (directory, list) = (haproxy.certificates(), haproxy.crt_list());
    let socket = RuntimeAddress::Unix(haproxy.socket());
    HaproxyConfig::new(socket, directory, list, haproxy.https(), haproxy.path().to_owned())
}

/// As HAProxy wants it.
pub(crate) fn pem(bundle: &Bundle) -> String {
    format!("{}{}", bundle.chain_pem, String::from_utf8_lossy(bundle.key.expose()))
}
