//! The file of an edge agent: who it is, whom it asks, and what it looks after.

mod files;
mod haproxy;
mod keys;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de};

pub(crate) use self::{
    files::{FileLayout, FilesSection},
    haproxy::HaproxySection,
};
use super::{
    Log, Problems, WebUrl, anchored, is_name,
    problem::{Findings, check_ranges},
    source::Source,
};
use crate::environment::Environment;

pub(super) use self::keys::KEYS;

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentMode {
    /// Puts certificates in place.
    Apply,
    /// Looks, tells, and changes nothing.
    Observe,
}

impl AgentMode {
    /// As it is told to the control plane.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Observe => "observe",
        }
    }
}

/// One URL, or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Servers(pub(crate) Vec<WebUrl>);

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Servers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Servers, E> {
                let urls = text.split(',').map(|url| WebUrl::parse(url.trim()));
                urls.collect::<Result<_, _>>().map(Servers).map_err(E::custom)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Servers, A::Error> {
                let mut urls = Vec::new();
                while let Some(url) = list.next_element()? {
                    urls.push(url);
                }
                Ok(Servers(urls))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// `[agent]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSection {
    /// The edge's name.
    pub(crate) name: String,
    /// The control plane's replicas.
    pub(crate) server: Servers,
    /// Where the token is; not needed where the certificate shown says who it is.
    pub(crate) token_file: Option<PathBuf>,
    /// The only root that is trusted; the system's where absent.
    pub(crate) root_certificate: Option<PathBuf>,
    /// A certificate chain shown to the control plane.
    pub(crate) client_certificate: Option<PathBuf>,
    /// The key of that.
    pub(crate) client_key: Option<PathBuf>,
    /// A plain HTTP proxy on the way.
    pub(crate) proxy: Option<WebUrl>,
    /// May tokens and keys pass unencrypted to another machine?
    #[serde(default)]
    pub(crate) allow_plaintext: bool,
    /// The edge's group, where the token does not say.
    pub(crate) group: Option<String>,
    /// What the agent must remember.
    pub(crate) data: PathBuf,
    /// What it does.
    #[serde(default = "apply")]
    pub(crate) mode: AgentMode,
    /// Where it answers health checks and Prometheus.
    pub(crate) listen: Option<SocketAddr>,
}

const fn apply() -> AgentMode {
    AgentMode::Apply
}

/// Everything an agent is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentConfig {
    /// Who it is and whom it asks.
    pub(crate) agent: AgentSection,
    /// A HAProxy.
    pub(crate) haproxy: Option<HaproxySection>,
    /// Files and a command.
    pub(crate) files: Option<FilesSection>,
    /// Logs.
    #[serde(default)]
    pub(crate) log: Log,
}

impl AgentConfig {
    /// Reads and checks a file with the environment over it.
    pub(crate) fn load(path: &Path, environment: &Environment) -> Result<Self, Problems> {
        Self::from_source(&Source::read(path, environment)?)
    }

    pub(super) fn from_source(source: &Source) -> Result<Self, Problems> {
        let read = serde_path_to_error::deserialize(source.tree.clone());
        let mut config: Self = read.map_err(|error| Problems::from_reading(source, &error))?;
        let mut findings = Findings::new(source);
        check_ranges(&mut findings);
        config.check(&mut findings);
        findings.into_result()?;
        config.anchor(&source.directory);
        Ok(config)
    }

    fn check(&self, findings: &mut Findings<'_>) {
        self.agent.check(findings);
        match (&self.haproxy, &self.files) {
            (None, None) => findings.refuse(
                "haproxy",
                "is missing, and so is files: there is nothing to put certificates on",
                "add a section [haproxy] or [files]",
            ),
            (Some(_), Some(_)) => findings.refuse(
                "files",
                "and haproxy are both there, and an agent looks after one of them",
                "remove one, and run a second agent with a name of its own",
            ),
            (Some(haproxy), None) => haproxy.check(findings),
            (None, Some(files)) => files.check(findings),
        }
        self.log.check(findings);
    }

    /// Relative paths are relative to the file that names them.
    fn anchor(&mut self, directory: &Path) {
        let agent = &mut self.agent;
        agent.data = directory.join(&agent.data);
        for path in [
            &mut agent.token_file,
            &mut agent.root_certificate,
            &mut agent.client_certificate,
            &mut agent.client_key,
        ] {
            anchored(path, directory);
        }
        if let Some(haproxy) = &mut self.haproxy {
            haproxy.anchor(directory);
        }
        if let Some(files) = &mut self.files {
            files.directory = directory.join(&files.directory);
        }
    }
}

impl AgentSection {
    fn check(&self, findings: &mut Findings<'_>) {
        let in_a_path = |text: &str| {
            is_name(text) && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-:@".contains(c))
        };
        if !in_a_path(&self.name) {
            findings.refuse_form("agent.name", "is no name of an edge");
        }
        if !self.group.as_deref().is_none_or(is_name) {
            findings.refuse_form("agent.group", "is no name");
        }
        if self.server.0.is_empty() {
            findings.refuse_form("agent.server", "names nobody");
        }
        for server in &self.server.0 {
            findings.require(
                server.is_https() || server.is_loopback() || self.allow_plaintext,
                "agent.server",
                format_args!("holds {server}, which is on another machine and not encrypted"),
                "use https, or set agent.allow_plaintext = true",
            );
        }
        findings.require(
            self.proxy.as_ref().is_none_or(|proxy| !proxy.is_https() && proxy.is_bare()),
            "agent.proxy",
            "is more than an http address",
            "name host and port alone, such as \"http://proxy.example.net:3128\"; what passes through is encrypted by itself",
        );
        findings.require(
            self.token_file.is_some() || self.client_certificate.is_some(),
            "agent.token_file",
            "is missing, and so is agent.client_certificate: nothing says who the agent is",
            "name the file with the edge's token, as `holdfast token create --scope edge` prints it",
        );
        findings.require(
            self.client_certificate.is_some() == self.client_key.is_some(),
            "agent.client_certificate",
            "and agent.client_key go together, and one is missing",
            "set both, or neither",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENTED: &str = include_str!("../../examples/agent.toml");

    fn load(text: &str) -> Result<AgentConfig, Problems> {
        let environment = Environment::default();
        let source =
            Source::parse("agent.toml", PathBuf::from("/etc/holdfast"), text, &environment)?;
        AgentConfig::from_source(&source)
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(DOCUMENTED.contains(from), "{from}");
        load(&DOCUMENTED.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_file_passes_as_it_stands() {
        let config = load(DOCUMENTED).unwrap();
        assert_eq!(config.agent.token_file, Some(PathBuf::from("/etc/holdfast/edge.token")));
        assert_eq!(config.agent.mode, AgentMode::Apply);
        assert_eq!(config.haproxy.unwrap().bufsize, 16_384);
    }

    #[test]
    fn several_servers_are_a_list_or_commas() {
        for several in [
            r#"["https://a.test", "https://b.test:8600"]"#,
            r#""https://a.test, https://b.test:8600""#,
        ] {
            let line = format!("server = {several}");
            let text =
                DOCUMENTED.replacen("server = \"https://holdfast.example.net:8600\"", &line, 1);
            assert_eq!(load(&text).unwrap().agent.server.0.len(), 2);
        }
    }

    #[test]
    fn what_is_unsafe_or_unclear_is_refused_with_its_remedy() {
        for (from, to, words) in [
            ("https://holdfast", "http://holdfast", "agent.allow_plaintext = true"),
            ("name = \"edge-1\"", "name = \"edge 1\"", "agent.name"),
            ("mode = \"apply\"", "mode = \"aply\"", "\"apply\" or \"observe\""),
            ("mode = \"apply\"", "proxy = \"https://p:1\"", "agent.proxy"),
            ("mode = \"apply\"", "client_key = \"k.pem\"", "set both, or neither"),
            ("[haproxy]", "[files]\ndirectory = \"/x\"\n[haproxy]", "remove one"),
            ("socket = \"/run/haproxy/admin.sock\"", "socket = \"admin.sock\"", "haproxy.socket"),
            ("/etc/haproxy/holdfast\"", "/etc/my haproxy\"", "without spaces"),
            ("probe = \"127.0.0.1:443\"", "bufsize = 12", "haproxy.probe is missing"),
            ("probe = \"127.0.0.1:443\"", "probe = \"127.0.0.1:443\"\nbufsize = 12", "from 4096"),
            ("token_file", "tokenfile", "did you mean agent.token_file?"),
        ] {
            let said = refused(from, to);
            assert!(said.contains(words) && said.contains("agent.toml"), "{words}: {said}");
        }
        let none = DOCUMENTED.split("[haproxy]").next().unwrap();
        assert!(load(none).unwrap_err().to_string().contains("add a section [haproxy] or [files]"));
    }

    #[test]
    fn files_and_their_command() {
        let head = DOCUMENTED.split("[haproxy]").next().unwrap();
        let with = |files: &str| load(&format!("{head}[files]\n{files}"));
        let config = with("directory = \"certs\"\nreload = [\"nginx\", \"-s\", \"reload\"]\nlayout = \"separate\"").unwrap();
        let files = config.files.unwrap();
        assert_eq!(files.directory, PathBuf::from("/etc/holdfast/certs"));
        assert_eq!(files.reload.len(), 3);
        let said =
            with("directory = \"certs\"\nreload = \"nginx -s reload\"").unwrap_err().to_string();
        assert!(said.contains("files.reload") && said.contains("a list"), "{said}");
    }

    #[test]
    fn the_table_of_keys_is_complete() {
        use crate::config::node::{Mismatch, Node};
        let mut known = std::collections::BTreeSet::new();
        for section in ["agent", "haproxy", "files"] {
            let text = "[agent]\n[haproxy]\n[files]\n";
            let mut source =
                Source::parse("x.toml", PathBuf::new(), text, &Environment::default()).unwrap();
            let Node::Table(sections) = &mut source.tree else { panic!("no table") };
            sections.retain(|name, _| name == section);
            sections
                .insert(section.to_owned(), Node::Table([("zzz".to_owned(), Node::Null)].into()));
            let error =
                serde_path_to_error::deserialize::<_, AgentConfig>(source.tree).unwrap_err();
            let Mismatch::UnknownKey(keys) = error.into_inner() else { panic!("{section}") };
            known.extend(keys.iter().map(|key| format!("{section}.{key}")));
        }
        let table: std::collections::BTreeSet<_> =
            KEYS.iter().map(|key| key.path.to_owned()).collect();
        assert_eq!(known, table);
    }
}
