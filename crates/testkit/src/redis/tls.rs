//! A Redis that speaks TLS alone.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::Redis;
use crate::pki::Pki;
use crate::scratch::Scratch;

/// A running server that speaks TLS with a certificate of its own; dropping it stops it.
pub struct RedisTls {
    server: Redis,
    pki: Pki,
    _files: Scratch,
}

impl RedisTls {
    /// Starts it with further arguments, such as `--requirepass WORD`. Clients need no certificate.
    pub async fn start_with(arguments: &[&str]) -> Result<Self> {
        let (files, pki) = (Scratch::new()?, Pki::new()?);
        let root = files.write("root.pem", &pki.root_pem)?;
        let chain = files.write("chain.pem", &pki.chain_pem)?;
        let key = files.write("key.pem", &pki.key_pem)?;
        let mut settings = vec!["--tls-cert-file", text(&chain)?, "--tls-key-file", text(&key)?];
        settings.extend(["--tls-ca-cert-file", text(&root)?, "--tls-auth-clients", "no"]);
        settings.extend(arguments);
        let server = Redis::start_on(&settings, "--tls-port").await?;
        Ok(Self { server, pki, _files: files })
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
        &self.pki.root_pem
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
