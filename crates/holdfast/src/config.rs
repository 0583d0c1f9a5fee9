//! The configuration: one file, TOML or HCL by its ending, the environment over it, checked as a whole
//! before anything starts.
//!
//! Whatever is refused is refused in a sentence that names the file, the key, the value and the remedy.
//! Nothing here opens what a key names: a file that is to be made at the first start is not there yet.

mod acme;
mod agent;
mod coordination;
mod database;
mod dns;
mod edge;
mod hcl_text;
mod keys;
mod log;
mod node;
mod problem;
mod provisioning;
mod renewal;
mod replicas;
mod retention;
mod secret;
mod security;
mod server;
mod source;
#[cfg(test)]
mod tests;
mod toml_text;
mod url;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub(crate) use self::{
    acme::{Acme, KeyType},
    agent::{AgentConfig, AgentMode, AgentSection, FileLayout, FilesSection, HaproxySection},
    coordination::{Backend, Coordination},
    database::Database,
    dns::{Dns, ResolverAddress},
    edge::{Edge, EdgeMode},
    log::{Log, LogFormat},
    problem::Problems,
    provisioning::Provisioning,
    renewal::Renewal,
    replicas::Replicas,
    retention::Retention,
    secret::SecretText,
    security::{Security, is_token},
    server::{Role, Server, Writes},
    url::{DatabaseUrl, WebUrl},
};
use self::{
    problem::{Findings, check_ranges},
    source::Source,
};
use crate::environment::Environment;

/// Everything a replica is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Where it listens.
    #[serde(default)]
    pub(crate) server: Server,
    /// Where it remembers.
    pub(crate) database: Database,
    /// Leases.
    #[serde(default)]
    pub(crate) coordination: Coordination,
    /// Its peers.
    #[serde(default)]
    pub(crate) replicas: Replicas,
    /// The CA.
    pub(crate) acme: Acme,
    /// Names and whom we ask.
    pub(crate) dns: Dns,
    /// Work.
    #[serde(default)]
    pub(crate) provisioning: Provisioning,
    /// Renewal.
    #[serde(default)]
    pub(crate) renewal: Renewal,
    /// What is kept for how long.
    #[serde(default)]
    pub(crate) retention: Retention,
    /// Who serves.
    #[serde(default)]
    pub(crate) edge: Edge,
    /// Keys and tokens.
    #[serde(default)]
    pub(crate) security: Security,
    /// Logs.
    #[serde(default)]
    pub(crate) log: Log,
}

impl Config {
    /// Reads and checks a file with the environment over it.
    pub(crate) fn load(path: &Path, environment: &Environment) -> Result<Self, Problems> {
        Self::from_source(&Source::read(path, environment)?)
    }

    fn from_source(source: &Source) -> Result<Self, Problems> {
        let read = serde_path_to_error::deserialize(source.tree.clone());
        let mut config: Self = read.map_err(|error| Problems::from_reading(source, &error))?;
        config.check(source)?;
        config.anchor(&source.directory);
        Ok(config)
    }

    fn check(&self, source: &Source) -> Result<(), Problems> {
        let mut findings = Findings::new(source);
        check_ranges(&mut findings);
        self.server.check(&mut findings, self.security.allow_plaintext);
        self.coordination.check(&mut findings, &self.database.url);
        self.replicas.check(&mut findings);
        self.acme.check(&mut findings);
        self.dns.check(&mut findings);
        self.edge.check(&mut findings, self.server.listen, self.security.allow_plaintext);
        self.security.check(&mut findings);
        self.log.check(&mut findings);
        findings.into_result()
    }

    /// Relative paths are relative to the file that names them.
    fn anchor(&mut self, directory: &Path) {
        self.server.anchor(directory);
        self.database.url.anchor(directory);
        self.coordination.anchor(directory);
        self.acme.anchor(directory);
        self.security.anchor(directory);
    }
}

fn anchored(path: &mut Option<PathBuf>, directory: &Path) {
    if let Some(path) = path {
        *path = directory.join(&*path);
    }
}

/// Could this name something to people and in a path of the API?
fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.chars().count())
        && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
}
