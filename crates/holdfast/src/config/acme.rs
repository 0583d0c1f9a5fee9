//! `[acme]`: the certificate authority and our account there.

use std::path::{Path, PathBuf};

use holdfast_acme::Eab;
use serde::Deserialize;

use super::{anchored, problem::Findings, secret::SecretText, url::WebUrl};

/// What kind of key certificates get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum KeyType {
    /// ECDSA on P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
    /// RSA with 2048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
}

/// The section.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acme {
    /// The CA's directory.
    pub(crate) directory: WebUrl,
    /// What the CA is called; by the host of its directory where this says nothing.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// An extra root for the CA's own TLS.
    #[serde(default)]
    pub(crate) root_certificate: Option<PathBuf>,
    /// The roots of what the CA issues, where they are not the system's.
    #[serde(default)]
    pub(crate) issuer_roots: Option<PathBuf>,
    /// Whom the CA may write to.
    #[serde(default)]
    pub(crate) email: Option<String>,
    /// Are the CA's terms agreed to?
    #[serde(default)]
    pub(crate) agree_terms: bool,
    /// New orders per three hours, over all replicas.
    #[serde(default = "default_new_orders")]
    pub(crate) max_new_orders_per_3h: u32,
    /// Open orders at once, over all replicas.
    #[serde(default = "default_in_flight")]
    pub(crate) max_orders_in_flight: u32,
    /// What kind of key certificates get.
    #[serde(default = "default_key_type")]
    pub(crate) key_type: KeyType,
    /// Which of the CA's profiles.
    #[serde(default)]
    pub(crate) profile: Option<String>,
    /// External account binding: the id of its key.
    #[serde(default)]
    pub(crate) eab_key_id: Option<String>,
    /// External account binding: its key.
    #[serde(default)]
    pub(crate) eab_hmac_key: Option<SecretText>,
}

const fn default_new_orders() -> u32 {
    300
}

const fn default_in_flight() -> u32 {
    64
}

const fn default_key_type() -> KeyType {
    KeyType::EcdsaP256
}

impl Acme {
    pub(super) fn anchor(&mut self, directory: &Path) {
        anchored(&mut self.root_certificate, directory);
        anchored(&mut self.issuer_roots, directory);
    }

    /// The external account, if there is one; `Err` when its key cannot be read.
    pub(crate) fn binding(&self) -> Result<Option<Eab>, holdfast_acme::Error> {
        match (&self.eab_key_id, &self.eab_hmac_key) {
            (Some(id), Some(key)) => Eab::parse(id, key.expose()).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn check(&self, findings: &mut Findings<'_>) {
        findings.require(
            self.directory.is_https() || self.directory.is_loopback(),
            "acme.directory",
            "is http on another machine, where anybody on the way could answer for the CA",
            "write https",
        );
        findings.require(
            self.agree_terms,
            "acme.agree_terms",
            "is not true, and a CA gives no account to who does not agree to its terms",
            "read them (`holdfast doctor --config FILE` says where they are) and set acme.agree_terms = true",
        );
        if self.email.as_deref().is_some_and(|email| !is_email(email)) {
            findings.refuse_form("acme.email", "is no e-mail address");
        }
        if self.name.as_deref().is_some_and(|name| !is_name(name)) {
            findings.refuse_form("acme.name", "is no name of letters, digits, `.`, `-` and `_`");
        }
        if self.profile.as_deref().is_some_and(str::is_empty) {
            findings.refuse_form("acme.profile", "is empty");
        }
        self.check_binding(findings);
    }

    fn check_binding(&self, findings: &mut Findings<'_>) {
        match (&self.eab_key_id, &self.eab_hmac_key) {
            (Some(_), None) => findings.refuse(
                "acme.eab_hmac_key",
                "is missing beside acme.eab_key_id",
                "set both, or neither",
            ),
            (None, Some(_)) => findings.refuse(
                "acme.eab_key_id",
                "is missing beside acme.eab_hmac_key",
                "set both, or neither",
            ),
            (Some(_), Some(_)) if self.binding().is_err() => {
                findings.refuse_form("acme.eab_hmac_key", "is not base64");
            }
            _ => {}
        }
    }
}

/// It stands in paths and commands.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=63).contains(&text.len()) && text.chars().all(fits)
}

fn is_email(text: &str) -> bool {
    let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != ',');
    let parts = text.split_once('@');
    plain
        && parts
            .is_some_and(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'))
}
