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
    /// The port that redirects to HTTPS lead to, where visitors reach it by another than `https` has.
    pub(crate) redirect_port: Option<u16>,
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
            redirect_port: None,
            upstream: None,
            pull: None,
        }
    }
}

/// What the built-in edge does without an address for HTTP, and what to do if that is not meant.
pub(crate) struct WithoutHttp {
    pub(crate) what: &'static str,
    pub(crate) fix: &'static str,
}

const WITHOUT_HTTP: WithoutHttp = WithoutHttp {
    what: "edge.http is not set, so this edge answers no HTTP: challenges are answered in the TLS handshake alone (TLS-ALPN-01, which the CA makes on \
           port 443), no name can prove over HTTP that it leads here, and http:// is not redirected",
    fix: "Set edge.http, such as \"0.0.0.0:80\", unless that is meant.",
};

impl Edge {
    /// Who serves and where, for people.
    pub(crate) fn in_words(&self) -> String {
        let mut words = format!("{:?}", self.mode).to_lowercase();
        let addresses = [("https", self.https), ("http", self.http)];
        for (what, address) in addresses {
            words.extend(address.map(|address| format!(", {what} on {address}")));
        }
        words.extend(self.redirect_port.map(|port| format!(", redirects to port {port}")));
        words.extend(self.upstream.as_ref().map(|url| format!(", before {url}")));
        words
    }

    /// Something, if this is a built-in edge that nothing tells where to answer HTTP.
    pub(crate) fn without_http(&self) -> Option<WithoutHttp> {
        (self.mode == EdgeMode::Builtin && self.http.is_none()).then_some(WITHOUT_HTTP)
    }

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
        findings.require(
            self.redirect_port.is_none() || self.http.is_some(),
            "edge.redirect_port",
            "is not used without edge.http, where the redirects are given",
            "set edge.http, such as \"0.0.0.0:80\", or remove it",
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
            ("edge.redirect_port", self.redirect_port.is_some()),
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
