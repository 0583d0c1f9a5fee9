//! `[files]`: where certificates are written, and what is run then.

use std::{net::SocketAddr, path::PathBuf};

use serde::Deserialize;

use crate::config::problem::Findings;

/// Which files a certificate makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileLayout {
    /// `NAME.pem`.
    Combined,
    /// `NAME.crt` and `NAME.key`.
    Separate,
    /// All three.
    Both,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesSection {
    /// Where they are written.
    pub(crate) directory: PathBuf,
    /// Which.
    #[serde(default = "combined")]
    pub(crate) layout: FileLayout,
    /// Program and arguments.
    #[serde(default)]
    pub(crate) reload: Vec<String>,
    /// How long it may take.
    #[serde(default = "reload_seconds")]
    pub(crate) reload_seconds: u32,
    /// Where the server serves.
    pub(crate) probe: Option<SocketAddr>,
}

const fn combined() -> FileLayout {
    FileLayout::Combined
}

const fn reload_seconds() -> u32 {
    30
}

impl FilesSection {
    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        if self.reload.first().is_some_and(String::is_empty) {
            findings.refuse_form("files.reload", "names no program");
        }
    }
}
