//! `[security]`: the master key, the first admin token, and where plaintext is allowed.

use std::path::{Path, PathBuf};

use holdfast_store::MasterKey;
use serde::Deserialize;

use super::{anchored, problem::Findings, secret::SecretText};

/// The section.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Security {
    /// Where the master key is, or is to be made.
    pub(crate) master_key_file: Option<PathBuf>,
    /// The master key itself.
    pub(crate) master_key: Option<SecretText>,
    /// The first admin token.
    pub(crate) admin_token: Option<SecretText>,
    /// Where the first admin token is, or is to be written.
    pub(crate) admin_token_file: Option<PathBuf>,
    /// May bundles and forwarded requests leave this machine unencrypted?
    pub(crate) allow_plaintext: bool,
}

/// Shorter tokens can be guessed.
const SHORTEST_TOKEN: usize = 16;

impl Security {
    pub(super) fn anchor(&mut self, directory: &Path) {
        anchored(&mut self.master_key_file, directory);
        anchored(&mut self.admin_token_file, directory);
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        match (&self.master_key_file, &self.master_key) {
            (Some(_), Some(_)) => findings.refuse(
                "security.master_key_file",
                "and security.master_key are both set, and which one counts is unclear",
                "remove one of them",
            ),
            (None, None) => findings.refuse(
                "security.master_key_file",
                "is missing, and so is security.master_key",
                "name a file, which is made at the first start, or give 32 bytes in base64",
            ),
            (None, Some(key)) if MasterKey::parse(key.expose()).is_err() => {
                findings.refuse_form("security.master_key", "is no key");
            }
            _ => {}
        }
        findings.require(
            self.admin_token.is_none() || self.admin_token_file.is_none(),
            "security.admin_token_file",
            "and security.admin_token are both set, and which one counts is unclear",
            "remove one of them",
        );
        if self.admin_token.as_ref().is_some_and(|token| !is_token(token.expose())) {
            findings.refuse_form("security.admin_token", "is too easy to guess, or has spaces");
        }
    }
}

/// Could this be sent as a bearer token, and is it long enough?
pub(crate) fn is_token(text: &str) -> bool {
    text.len() >= SHORTEST_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}
