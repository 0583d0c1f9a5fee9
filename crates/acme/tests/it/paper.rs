//! Certificates of a test's own making.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair,
};
use time::{Duration, OffsetDateTime};

/// When these certificates are valid: around this moment, in seconds since the Unix epoch.
pub(crate) const NOW: i64 = 1_750_000_000;

/// A root, an intermediate below it, and leaves from that.
pub(crate) struct Authority {
    pub(crate) root: CertifiedIssuer<'static, KeyPair>,
    pub(crate) intermediate: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named(DnType::CommonName, "Paper intermediate")
    }

    /// One whose intermediate has this name alone.
    pub(crate) fn named(kind: DnType, name: &str) -> Self {
        let root = ca(DnType::CommonName, "Paper root");
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let intermediate = CertifiedIssuer::signed_by(ca(kind, name), key, &root).unwrap();
        Self { root, intermediate }
    }

    /// PEM of a leaf for these names and this key, by the intermediate.
    pub(crate) fn leaf(&self, names: &[&str], key: &KeyPair) -> String {
        leaf(names, key, &self.intermediate)
    }

    /// PEM of a leaf and the intermediate.
    pub(crate) fn chain(&self, names: &[&str], key: &KeyPair) -> String {
        self.leaf(names, key) + &self.intermediate.pem()
    }
}

fn ca(kind: DnType, name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(kind, name);
    params
}

fn leaf(names: &[&str], key: &KeyPair, issuer: &Issuer<'_, KeyPair>) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.use_authority_key_identifier_extension = true;
    params.not_before = OffsetDateTime::from_unix_timestamp(NOW).unwrap() - Duration::days(1);
    params.not_after = OffsetDateTime::from_unix_timestamp(NOW).unwrap() + Duration::days(89);
    params.signed_by(key, issuer).unwrap().pem()
}
