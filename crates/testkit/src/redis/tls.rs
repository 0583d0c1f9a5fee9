//! A Redis that speaks TLS alone.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::Redis;
use crate::pki::Pki;
use crate::scratch::Scratch;

/// A certificate with its root, in files, for any number of servers on this machine.
pub(super) struct Identity {
    pub(super) pki: Pki,
    /// The settings that make a server use it, each with its value. Clients need no certificate.
    pub(super) settings: Vec<[String; 2]>,
    _files: Scratch,
}

impl Identity {
    pub(super) fn new() -> Result<Self> {
        let (files, pki) = (Scratch::new()?, Pki::new()?);
        let root = files.write("root.pem", &pki.root_pem)?;
        let chain = files.write("chain.pem", &pki.chain_pem)?;
        let key = files.write("key.pem", &pki.key_pem)?;
        let settings = [
            ("tls-cert-file", text(&chain)?),
            ("tls-key-file", text(&key)?),
            ("tls-ca-cert-file", text(&root)?),
            ("tls-auth-clients", "no"),
            ("tls-replication", "yes"),
        ];
        let settings = settings.map(|(name, value)| [name.to_owned(), value.to_owned()]).into();
        Ok(Self { pki, settings, _files: files })
    }

    /// Starts a server with it, and with further arguments.
    pub(super) async fn server(&self, arguments: &[&str]) -> Result<Redis> {
        let own: Vec<_> =
            self.settings.iter().map(|[name, value]| (format!("--{name}"), value)).collect();
        let own = own.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let all: Vec<&str> = own.chain(arguments.iter().copied()).collect();
        Redis::start_on(&all, "--tls-port").await
    }
}

/// A running server that speaks TLS with a certificate of its own; dropping it stops it.
pub struct RedisTls {
    server: Redis,
    identity: Identity,
}

impl RedisTls {
    /// Starts it with further arguments, such as `--requirepass WORD`. Clients need no certificate.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        let identity = Identity::new()?;
        Ok(Self { server: identity.server(arguments).await?, identity })
    }

    /// The server; its URL is one for TLS.
    pub fn server(&self) -> &Redis {
        &self.server
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.server.port())
    }

    /// PEM of the root of its certificate.
    pub fn root_pem(&self) -> &str {
        &self.identity.pki.root_pem
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
