//! A certificate authority of a test's own, and one leaf from it for a server on this machine.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// A root and a leaf.
///
/// The leaf is a leaf: rustls refuses a CA certificate as that of a server.
pub struct Pki {
    /// PEM of the root.
    pub root_pem: String,
    /// PEM of the leaf's chain.
    pub chain_pem: String,
    /// PEM of the leaf's key.
    pub key_pem: String,
}

impl Pki {
    /// For `localhost` and 127.0.0.1.
    pub fn new() -> Result<Self> {
        Self::of(&["localhost", "127.0.0.1"])
    }

    /// For these names, with new keys.
    pub fn of(names: &[&str]) -> Result<Self> {
        let mut authority = CertificateParams::new([])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "Holdfast test root");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        Ok(Self { root_pem: authority.pem(), chain_pem: leaf.pem(), key_pem: key.serialize_pem() })
    }
}
