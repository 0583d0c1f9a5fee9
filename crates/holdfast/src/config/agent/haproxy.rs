//! `[haproxy]`: how it is told, where its files are, and where it serves.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use holdfast_agent::RuntimeAddress;
use serde::{Deserialize, Deserializer, de};

use crate::config::problem::Findings;

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaproxySection {
    /// Its Runtime API.
    #[serde(deserialize_with = "address")]
    pub(crate) socket: RuntimeAddress,
    /// Where our certificates lie.
    pub(crate) directory: PathBuf,
    /// The list on its bind line; `crt-list` in the directory where absent.
    pub(crate) crt_list: Option<PathBuf>,
    /// Where it serves.
    pub(crate) probe: SocketAddr,
    /// Its `tune.bufsize`.
    #[serde(default = "bufsize")]
    pub(crate) bufsize: u32,
}

const fn bufsize() -> u32 {
    16_384
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RuntimeAddress, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

impl HaproxySection {
    /// The list on the bind line.
    pub(crate) fn list(&self) -> PathBuf {
        self.crt_list.clone().unwrap_or_else(|| self.directory.join("crt-list"))
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        let paths = [
            ("haproxy.directory", Some(&self.directory)),
            ("haproxy.crt_list", self.crt_list.as_ref()),
        ];
        for (key, path) in paths {
            let fine = path.is_none_or(|path| {
                path.to_str().is_some_and(|text| !text.contains(char::is_whitespace))
            });
            if !fine {
                findings.refuse_form(key, "cannot be written in a list of HAProxy");
            }
        }
        findings.require(
            self.probe.port() != 0,
            "haproxy.probe",
            "has port 0, where nobody serves",
            "name the address of the bind line, such as \"127.0.0.1:443\"",
        );
    }

    pub(super) fn anchor(&mut self, directory: &Path) {
        self.directory = directory.join(&self.directory);
        if let Some(list) = &mut self.crt_list {
            *list = directory.join(&*list);
        }
    }
}
