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
    /// Who may read them: permission bits, in octal.
    #[serde(default = "private")]
    pub(crate) mode: String,
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

fn private() -> String {
    "0600".to_owned()
}

const fn reload_seconds() -> u32 {
    30
}

impl FilesSection {
    /// The permission bits. Of those who are neither owner nor group nobody may have a private key, and nobody may run one.
    pub(crate) fn permissions(&self) -> Option<u32> {
        let mode = u32::from_str_radix(&self.mode, 8).ok()?;
        (mode & !0o660 == 0 && mode & 0o600 == 0o600).then_some(mode)
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        if self.permissions().is_none() {
            findings.refuse_form("files.mode", "is no mode for private keys");
        }
        if self.reload.first().is_some_and(String::is_empty) {
            findings.refuse_form("files.reload", "names no program");
        }
    }
}
