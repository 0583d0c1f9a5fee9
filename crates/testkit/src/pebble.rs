//! Pebble, the independent ACME server: judge of correctness at modest load.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use http::Request;
use serde_json::{Value, json};

use crate::pki::Pki;
use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

/// How a [`Pebble`] behaves.
#[derive(Clone, Debug)]
pub struct PebbleConfig {
    /// Who answers its DNS queries.
    pub dns: SocketAddr,
    /// The port on which it validates HTTP-01.
    pub http_port: u16,
    /// The port on which it validates TLS-ALPN-01.
    pub tls_port: u16,
    /// Share of good nonces it refuses, in percent.
    pub nonce_reject_percent: u8,
    /// Key id and base64url MAC key that a new account must be bound with.
    pub external_account: Option<(String, String)>,
}

impl PebbleConfig {
    /// A Pebble that accepts good nonces and asks for no external account.
    pub fn new(dns: SocketAddr, http_port: u16, tls_port: u16) -> Self {
        Self { dns, http_port, tls_port, nonce_reject_percent: 0, external_account: None }
    }
}

/// A running Pebble, with a TLS certificate from a CA of its own.
pub struct Pebble {
    process: Process,
    directory: Scratch,
    pki: Pki,
    acme: SocketAddr,
    management: SocketAddr,
}

impl Pebble {
    /// Starts it and waits until its directory can be read.
    pub async fn start(config: &PebbleConfig) -> Result<Self> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (acme, management) = (local(free_port()?), local(free_port()?));
        let (directory, pki) = (Scratch::new()?, Pki::new()?);
        directory.write("root.pem", &pki.root_pem)?;
        let settings = json!({ "pebble": settings(config, &directory, &pki, acme, management)? });
        let file = directory.write("pebble.json", settings.to_string())?;
        let mut command = Command::new("pebble");
        command.arg("-config").arg(file).args(["-dnsserver", &config.dns.to_string()]);
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        command.env("PEBBLE_WFE_NONCEREJECT", config.nonce_reject_percent.to_string());
        let process = Process::spawn("pebble", &command)?;
        let ready = |line: &str| line.contains("ACME directory available at");
        process.wait_for_line(Duration::from_secs(30), ready).await?;
        let pebble = Self { process, directory, pki, acme, management };
        crate::eventually(Duration::from_secs(10), "Pebble's directory", async || {
            pebble.fetch(&pebble.directory_url()).await.map_err(|error| format!("{error:#}"))
        })
        .await;
        Ok(pebble)
    }

    /// The ACME directory.
    pub fn directory_url(&self) -> String {
        format!("https://{}/dir", self.acme)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.acme
    }

    /// PEM of the root behind its own TLS.
    pub fn tls_root_pem(&self) -> &str {
        &self.pki.root_pem
    }

    /// The same, as a file.
    pub fn tls_root_file(&self) -> PathBuf {
        self.directory.path().join("root.pem")
    }

    /// PEM of the root of what it issues; new with every start.
    pub async fn issuer_root_pem(&self) -> Result<String> {
        let body = self.fetch(&format!("https://{}/roots/0", self.management)).await?;
        Ok(String::from_utf8(body.to_vec())?)
    }

    /// The server's process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    async fn fetch(&self, url: &str) -> Result<Bytes> {
        let roots = Some(self.pki.root_pem.clone().into_bytes());
        let client =
            Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() })?;
        let answer = client
            .send(Request::get(url).body(Bytes::new())?)
            .await
            .with_context(|| url.to_owned())?;
        ensure!(answer.status().is_success(), "{url} answered {}", answer.status());
        Ok(answer.into_body())
    }
}

fn settings(
    config: &PebbleConfig,
    directory: &Scratch,
    pki: &Pki,
    acme: SocketAddr,
    management: SocketAddr,
) -> Result<Value> {
    let shown = |path: &Path| path.display().to_string();
    let mut settings = json!({
        "listenAddress": acme,
        "managementListenAddress": management,
        "certificate": shown(&directory.write("chain.pem", &pki.chain_pem)?),
        "privateKey": shown(&directory.write("key.pem", &pki.key_pem)?),
        "httpPort": config.http_port,
        "tlsPort": config.tls_port,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": config.external_account.is_some(),
    });
    if let Some((id, key)) = &config.external_account {
        let keys = json!({ id.as_str(): key });
        settings
            .as_object_mut()
            .context("an object")?
            .insert("externalAccountMACKeys".to_owned(), keys);
    }
    Ok(settings)
}
