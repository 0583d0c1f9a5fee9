//! Replicas on a real database beside the development network, as processes.

use std::{path::PathBuf, process::Command, time::Duration};

use holdfast_testkit::{Faketime, Postgres, Process, Scratch, free_port};

use crate::kit::{Ended, PROGRAM, SOON, is_ready, program, word};

/// `holdfast dev net` with a directory and ports of its own.
pub(crate) struct Network {
    scratch: Scratch,
    pub(crate) ca: u16,
    pub(crate) dns: u16,
    /// Where the CA looks for HTTP-01 answers: replicas that are to be asked listen here.
    pub(crate) http: u16,
    pub(crate) tls: u16,
    _process: Process,
}

impl Network {
    pub(crate) async fn start() -> Self {
        Self::start_at(free_port().unwrap(), free_port().unwrap()).await
    }

    /// One whose CA looks for answers on these ports.
    pub(crate) async fn start_at(http: u16, tls: u16) -> Self {
        let scratch = Scratch::new().unwrap();
        let [ca, dns] = [(); 2].map(|()| free_port().unwrap());
        let mut command = program();
        command.args(["dev", "net", "--data", &word(scratch.path())]);
        command.args(["--ca", &format!("127.0.0.1:{ca}"), "--dns", &format!("127.0.0.1:{dns}")]);
        command.args(["--http-port", &http.to_string(), "--tls-port", &tls.to_string()]);
        let process = Process::spawn("net", &command).unwrap();
        process.wait_for_line(SOON, |line| line.starts_with("Ctrl-C ends it")).await.unwrap();
        Self { scratch, ca, dns, http, tls, _process: process }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("dev-ca.pem")
    }

    /// Runs `holdfast dev …` against it.
    pub(crate) fn run<const N: usize>(&self, words: [&str; N]) -> Ended {
        Ended::of(program().arg("dev").args(words).args(["--data", &word(self.scratch.path())]))
    }
}

/// Where a replica remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Postgres,
    Sqlite,
}

/// A replica's directory, configuration and, while it runs, process.
pub(crate) struct Replica {
    pub(crate) scratch: Scratch,
    pub(crate) port: u16,
    process: Option<Process>,
}

impl Replica {
    /// Writes a configuration; nothing runs yet. `extra` is more TOML; it may also repeat a line to replace it.
    pub(crate) async fn prepare(network: &Network, database: Database, extra: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let url = match database {
            Database::Sqlite => "sqlite:holdfast.db".to_owned(),
            Database::Postgres => Postgres::shared().await.unwrap().database().await.unwrap(),
        };
        let (port, ca, dns, root) = (network.http, network.ca, network.dns, word(&network.root()));
        let text = format!(
            r#"
            [server]
            listen = "127.0.0.1:{port}"
            drain_seconds = 0
            [database]
            url = "{url}"
            [acme]
            directory = "https://127.0.0.1:{ca}/directory"
            root_certificate = "{root}"
            agree_terms = true
            [dns]
            targets = ["edge.holdfast.test"]
            resolvers = ["127.0.0.1:{dns}"]
            [security]
            master_key_file = "master.key"
            admin_token_file = "admin.token"
            {extra}
            "#
        );
        scratch.write("holdfast.toml", text).unwrap();
        Self { scratch, port, process: None }
    }

    /// Starts one and waits until it is ready.
    pub(crate) async fn start(network: &Network, database: Database, extra: &str) -> Self {
        let mut replica = Self::prepare(network, database, extra).await;
        replica.begin().await;
        replica
    }

    pub(crate) async fn begin(&mut self) {
        let process = Process::spawn("replica", &self.command()).unwrap();
        process.wait_for_line(SOON, is_ready).await.unwrap();
        self.process = Some(process);
    }

    /// Starts it with a wall clock of its own.
    pub(crate) async fn begin_by(&mut self, clock: &Faketime) {
        let mut command = clock.command(PROGRAM);
        command.args(["server", "--config", &word(&self.config())]);
        let process = Process::spawn("replica", &command).unwrap();
        process.wait_for_line(SOON, is_ready).await.unwrap();
        self.process = Some(process);
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = program();
        command.args(["server", "--config", &word(&self.config())]);
        command
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.scratch.path().join("holdfast.toml")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    pub(crate) async fn end(&mut self, within: Duration) {
        let status = self.process().terminate(within).await.unwrap();
        assert!(status.success(), "{status:?}");
        self.process = None;
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        self.process().kill().await.unwrap();
        self.process = None;
    }

    /// A file beside its configuration.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.path().join(name)).unwrap()
    }

    /// Runs a client command against it.
    pub(crate) fn run<const N: usize>(&self, words: [&str; N]) -> Ended {
        let token = self.read("admin.token");
        Ended::of(program().args(words).args(["--server", &self.url(), "--token", token.trim()]))
    }

    /// Runs a command with its configuration.
    pub(crate) fn with_config<const N: usize>(&self, words: [&str; N]) -> Ended {
        Ended::of(program().args(words).args(["--config", &word(&self.config())]))
    }
}
