//! `[edge]`: who serves the certificates.

use std::net::SocketAddr;

use serde::Deserialize;

use super::{is_name, problem::Findings, url::WebUrl};

/// Who serves the certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EdgeMode {
    /// Agents beside proxies.
    Agents,
    /// This replica itself.
    Builtin,
    /// Somebody who fetches them; stored is deployed.
    None,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Edge {
    /// Who serves.
    pub(crate) mode: EdgeMode,
    /// The built-in edge's name; the replica's own where absent.
    pub(crate) name: Option<String>,
    /// Where the built-in edge answers challenges and redirects the rest.
    pub(crate) http: Option<SocketAddr>,
    /// Where the built-in edge serves.
    pub(crate) https: Option<SocketAddr>,
    /// Which domains the built-in edge serves, and which edges serve a domain that names none.
    pub(crate) group: String,
    /// What visitors see; a page of our own where absent.
    pub(crate) upstream: Option<WebUrl>,
    /// Where proxies that fetch certificates by themselves (Caddy) ask.
    pub(crate) pull: Option<SocketAddr>,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            mode: EdgeMode::None,
            name: None,
            http: None,
            https: None,
            group: "default".to_owned(),
            upstream: None,
            pull: None,
        }
    }
}

impl Edge {
    pub(super) fn check(
        &self,
        findings: &mut Findings<'_>,
        listen: SocketAddr,
        allow_plaintext: bool,
    ) {
        if !is_name(&self.group) {
            findings.refuse_form("edge.group", "is no name");
        }
        if !self.name.as_deref().is_none_or(is_name) {
            findings.refuse_form("edge.name", "is no name");
        }
        if self.mode == EdgeMode::Builtin {
            self.check_builtin(findings, listen);
        } else {
            self.check_unused(findings);
        }
        self.check_pull(findings, listen, allow_plaintext);
    }

    /// Private keys and tokens pass there in the clear.
    fn check_pull(&self, findings: &mut Findings<'_>, listen: SocketAddr, allow_plaintext: bool) {
        let Some(pull) = self.pull else { return };
        findings.require(
            pull.ip().to_canonical().is_loopback() || allow_plaintext,
            "edge.pull",
            "lets private keys pass over plain HTTP beyond this machine",
            "listen on 127.0.0.1 and run the proxy on this machine, or set security.allow_plaintext = true where the network is trusted",
        );
        findings.require(
            pull.port() != 0,
            "edge.pull",
            "has port 0, which no proxy can find",
            "choose a port from 1 to 65535",
        );
        let others =
            [("server.listen", Some(listen)), ("edge.http", self.http), ("edge.https", self.https)];
        for (other, taken) in others.into_iter().filter_map(|(key, taken)| Some((key, taken?))) {
            findings.require(
                !collide(pull, taken),
                "edge.pull",
                format_args!("collides with {other} = \"{taken}\""),
                "give each listener a port of its own",
            );
        }
    }

    fn check_builtin(&self, findings: &mut Findings<'_>, listen: SocketAddr) {
        findings.require(
            self.https.is_some(),
            "edge.mode",
            "is builtin, but nothing says where it serves",
            "set edge.https, such as \"0.0.0.0:443\"",
        );
        findings.require(
            self.upstream.as_ref().is_none_or(|url| !url.is_https() && url.is_bare()),
            "edge.upstream",
            "is more than an http address",
            "name host and port alone, such as \"http://127.0.0.1:3000\"; paths are passed on as they come",
        );
        let addresses =
            [("server.listen", Some(listen)), ("edge.http", self.http), ("edge.https", self.https)];
        for (index, (key, address)) in addresses.iter().enumerate().skip(1) {
            let Some(address) = address else { continue };
            findings.require(
                address.port() != 0,
                key,
                "has port 0, which no visitor can find",
                "choose a port from 1 to 65535",
            );
            let others = addresses.iter().take(index);
            for (other, taken) in others.filter_map(|(key, taken)| taken.map(|taken| (key, taken)))
            {
                findings.require(
                    !collide(*address, taken),
                    key,
                    format_args!("collides with {other} = \"{taken}\""),
                    "give each listener a port of its own",
                );
            }
        }
    }

    fn check_unused(&self, findings: &mut Findings<'_>) {
        let unused = [
            ("edge.http", self.http.is_some()),
            ("edge.https", self.https.is_some()),
            ("edge.upstream", self.upstream.is_some()),
        ];
        for (key, set) in unused {
            findings.require(
                !set,
                key,
                "is not used unless edge.mode is \"builtin\"",
                "remove it, or set edge.mode = \"builtin\"",
            );
        }
    }
}

/// Would the second of two listeners be refused?
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && same_ip
}
