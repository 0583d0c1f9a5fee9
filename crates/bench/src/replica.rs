//! One replica of Holdfast, as an operator runs it: `holdfast server --config FILE`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use holdfast_testkit::{Process, Scratch, free_port};
use tokio::time::Instant;

use crate::api::Api;
use crate::network::Network;

const START_LIMIT: Duration = Duration::from_secs(60);

/// The admin token of every replica here.
pub const TOKEN: &str = "only-for-measuring-0123456789";

/// The master key of every replica here, and of whoever opens their database.
pub const MASTER_KEY: &str = "b25seSBmb3IgbWVhc3VyaW5nLCBub3Qgc2VjcmV0ISE=";

/// What is deployed where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeMode {
    /// Stored is deployed; the API answers challenges.
    None,
    /// The replica serves the domains itself.
    Builtin,
    /// Agents fetch what proxies are to serve; the API answers challenges.
    Agents,
}

/// What a replica is told.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub instance: String,
    /// Its own loopback address, so that several share the CA's ports.
    pub address: Ipv4Addr,
    /// Its API's port where the edge has the CA's.
    pub api_port: u16,
    /// Its database.
    pub database: String,
    /// What domains point to.
    pub target: String,
    /// Where certificates go.
    pub edge: EdgeMode,
    /// `all`, `api` or `worker`.
    pub role: &'static str,
    /// How long a claim of work lasts without a sign of life, in seconds.
    pub claim_seconds: u32,
    /// More sections.
    pub extra: String,
}

impl Plan {
    /// A replica at an address over a database, for domains that point to `target`.
    pub fn new(address: Ipv4Addr, database: &str, target: &str, edge: EdgeMode) -> Result<Self> {
        Ok(Self {
            instance: format!("bench-{address}"),
            address,
            api_port: free_port()?,
            database: database.to_owned(),
            target: target.to_owned(),
            edge,
            role: "all",
            claim_seconds: 30,
            extra: String::new(),
        })
    }

    fn listen_port(&self, network: &Network) -> u16 {
        match self.edge {
            EdgeMode::None | EdgeMode::Agents => network.http_port(),
            EdgeMode::Builtin => self.api_port,
        }
    }

    fn toml(&self, network: &Network) -> String {
        let (address, root) = (self.address, network.root_file());
        let edge = match self.edge {
            EdgeMode::None => "mode = \"none\"".to_owned(),
            EdgeMode::Agents => "mode = \"agents\"".to_owned(),
            EdgeMode::Builtin => format!(
                "mode = \"builtin\"\nhttp = \"{address}:{}\"\nhttps = \"{address}:{}\"",
                network.http_port(),
                network.tls_port()
            ),
        };
        format!(
            "[server]\nlisten = \"{address}:{listen}\"\nrole = \"{role}\"\ndrain_seconds = 0\n\
             [database]\nurl = \"{database}\"\n\
             [replicas]\ninstance_id = \"{instance}\"\n\
             [acme]\ndirectory = \"{directory}\"\nroot_certificate = \"{root}\"\nagree_terms = true\n\
             max_new_orders_per_3h = 1000000\nmax_orders_in_flight = 64\n\
             [dns]\ntargets = [\"{target}\"]\nresolvers = [\"{dns}\"]\nhttp_proof_port = {proof}\n\
             [provisioning]\nconcurrency = 64\nclaim_seconds = {claim}\n\
             [edge]\n{edge}\n\
             [security]\nmaster_key = \"{MASTER_KEY}\"\nadmin_token = \"{TOKEN}\"\n{extra}\n",
            extra = self.extra,
            role = self.role,
            listen = self.listen_port(network),
            database = self.database,
            instance = self.instance,
            directory = network.directory(),
            root = root.display(),
            target = self.target,
            dns = network.dns(),
            proof = network.http_port(),
            claim = self.claim_seconds,
        )
    }
}

/// A running replica.
pub struct Replica {
    instance: String,
    process: Process,
    api: Api,
    start_to_ready: Duration,
    holdfast: PathBuf,
    directory: Scratch,
}

impl Replica {
    /// Starts it and waits until it is ready.
    pub async fn start(holdfast: &Path, network: &Network, plan: &Plan) -> Result<Self> {
        let directory = Scratch::new()?;
        directory.write("holdfast.toml", plan.toml(network))?;
        let base = format!("http://{}:{}", plan.address, plan.listen_port(network));
        let api = Api::new(&base, TOKEN)?;
        let (process, start_to_ready) = run(holdfast, &directory, &api).await?;
        let (instance, holdfast) = (plan.instance.clone(), holdfast.to_owned());
        Ok(Self { instance, process, api, start_to_ready, holdfast, directory })
    }

    /// `kill -9`.
    pub async fn kill(&self) -> Result<()> {
        self.process.kill().await?;
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Ends it in order.
    pub async fn stop(&self) -> Result<()> {
        self.process.terminate(Duration::from_secs(30)).await?;
        Ok(())
    }

    /// Stops it where it is, as a machine that hangs.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Starts it again after it has ended.
    pub async fn start_again(&mut self) -> Result<()> {
        let (process, took) = run(&self.holdfast, &self.directory, &self.api).await?;
        (self.process, self.start_to_ready) = (process, took);
        Ok(())
    }

    /// Its API.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// How long its last start took, until it was ready.
    #[must_use]
    pub fn start_to_ready(&self) -> Duration {
        self.start_to_ready
    }
}

async fn run(holdfast: &Path, directory: &Scratch, api: &Api) -> Result<(Process, Duration)> {
    let mut command = Command::new(holdfast);
    command.arg("server").arg("--config").arg(directory.path().join("holdfast.toml"));
    let begun = Instant::now();
    let process = Process::spawn("holdfast server", &command)?;
    let ready = api.ready(START_LIMIT);
    let ended = process.wait(START_LIMIT);
    tokio::select! {
        ready = ready => ready.with_context(|| process.log())?,
        ended = ended => anyhow::bail!("it ended ({ended:?}):\n{}", process.log()),
    }
    Ok((process, begun.elapsed()))
}
