//! `[server]`: where this replica listens, what it does, and how it ends.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{anchored, problem::Findings, url::WebUrl};

/// What a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Serves the API, and works on domains
    All,
    /// Serves the API, and leaves the work to others
    Api,
    /// Works on domains; its API answers challenges, health checks and whoever else asks
    Worker,
}

/// What a replica that is not the leader does with writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Writes {
    /// Takes them.
    Any,
    /// Passes them on to the leader.
    Forward,
    /// Sends the client to the leader.
    Redirect,
    /// Refuses them.
    Reject,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// Where the API listens.
    pub(crate) listen: SocketAddr,
    /// How others reach it; made from `listen` where absent.
    pub(crate) url: Option<WebUrl>,
    /// What it does.
    pub(crate) role: Role,
    /// What happens to writes at a follower.
    pub(crate) writes: Writes,
    /// How long it still serves after it was asked to end.
    pub(crate) drain_seconds: u32,
    /// Its TLS certificate chain.
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The key of that.
    pub(crate) tls_key: Option<PathBuf>,
    /// Only clients with a certificate from these authorities are let in.
    pub(crate) client_ca: Option<PathBuf>,
    /// Extra roots for the TLS of other replicas and of webhooks.
    pub(crate) root_certificate: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8600)),
            url: None,
            role: Role::All,
            writes: Writes::Any,
            drain_seconds: 10,
            tls_certificate: None,
            tls_key: None,
            client_ca: None,
            root_certificate: None,
        }
    }
}

impl Server {
    /// Does it speak TLS?
    pub(crate) const fn has_tls(&self) -> bool {
        self.tls_certificate.is_some()
    }

    /// How others reach it.
    pub(crate) fn reached_at(&self) -> String {
        let scheme = if self.has_tls() { "https" } else { "http" };
        self.url.as_ref().map_or_else(|| format!("{scheme}://{}", self.listen), WebUrl::to_string)
    }

    pub(super) fn anchor(&mut self, directory: &Path) {
        for path in [
            &mut self.tls_certificate,
            &mut self.tls_key,
            &mut self.client_ca,
            &mut self.root_certificate,
        ] {
            anchored(path, directory);
        }
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>, allow_plaintext: bool) {
        findings.require(
            self.listen.port() != 0,
            "server.listen",
            "has port 0, which nobody can be told to connect to",
            "choose a port from 1 to 65535",
        );
        self.check_tls(findings);
        self.check_url(findings, allow_plaintext);
        self.check_writes(findings, allow_plaintext);
    }

    /// Forwarded requests carry tokens, and are sent by a replica that has no certificate of its own to show.
    fn check_writes(&self, findings: &mut Findings<'_>, allow_plaintext: bool) {
        if self.writes != Writes::Forward {
            return;
        }
        findings.require(
            allow_plaintext || self.is_private(),
            "server.url",
            "is plain HTTP, over which other replicas do not forward writes: they carry tokens",
            "set server.tls_certificate and server.tls_key and an https server.url, or security.allow_plaintext = true where the network is trusted",
        );
        findings.require(
            self.client_ca.is_none(),
            "server.writes",
            "is forward, but server.client_ca asks clients for certificates, and a replica that forwards has none",
            "choose \"redirect\" or \"reject\", or leave server.client_ca out",
        );
    }

    /// Do others reach it over TLS, or on this machine alone?
    fn is_private(&self) -> bool {
        match &self.url {
            Some(url) => url.is_https() || url.is_loopback(),
            None => self.has_tls() || self.listen.ip().is_loopback(),
        }
    }

    fn check_tls(&self, findings: &mut Findings<'_>) {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => findings.refuse(
                "server.tls_key",
                "is missing beside server.tls_certificate",
                "set both, or neither",
            ),
            (None, Some(_)) => findings.refuse(
                "server.tls_certificate",
                "is missing beside server.tls_key",
                "set both, or neither",
            ),
            (None, None) if self.client_ca.is_some() => findings.refuse(
                "server.client_ca",
                "asks clients for certificates, which takes TLS",
                "set server.tls_certificate and server.tls_key too",
            ),
            _ => {}
        }
    }

    fn check_url(&self, findings: &mut Findings<'_>, allow_plaintext: bool) {
        let Some(url) = &self.url else {
            let everywhere = self.listen.ip().is_unspecified();
            findings.require(
                !everywhere,
                "server.listen",
                "is every address of this machine, so how others reach it cannot be told from it",
                "set server.url to the address others use",
            );
            return;
        };
        if self.has_tls() && !url.is_https() {
            findings.refuse(
                "server.url",
                "is http, but server.tls_certificate makes the listener speak TLS",
                "write https",
            );
        }
        if !self.has_tls() && url.is_https() && !allow_plaintext {
            findings.refuse(
                "server.url",
                "is https, but the listener speaks no TLS",
                "set server.tls_certificate and server.tls_key, or security.allow_plaintext = true where a proxy in front ends TLS",
            );
        }
    }
}
