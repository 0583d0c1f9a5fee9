//! Certificates and keys as people and CAs hand them over: read, checked against each other, never trusted.
//!
//! Used for what is imported and for what was downloaded. Pure: bytes and a time in, facts or a clear refusal out.

mod chain;
pub(crate) mod der;
mod error;
mod key;
mod pair;
mod verify;

use holdfast_model::{CertificateSummary, Timestamp, cleaned};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

pub(crate) use chain::Chain;
pub use error::BadCertificate;
pub(crate) use key::{KeyPair, PrivateKey};
pub use pair::{Pair, check_pair};
pub(crate) use verify::{Anchors, Roots, judge};
pub use verify::{Pin, Untrusted};

/// The facts of a chain's leaf; `directory` is where it came from.
///
/// # Errors
/// When the text is not a chain of certificates.
pub fn facts(chain_pem: &str, directory: &str) -> Result<CertificateSummary, BadCertificate> {
    let chain = Chain::parse(chain_pem)?;
    let leaf = chain.leaf()?;
    Ok(CertificateSummary {
        serial: serial(&leaf),
        sha256: hex(ring::digest::digest(&ring::digest::SHA256, chain.leaf_der()).as_ref()),
        not_before: moment(leaf.validity().not_before),
        not_after: moment(leaf.validity().not_after),
        issuer: issuer(&leaf),
        directory: directory.to_owned(),
    })
}

/// The names that a chain's leaf covers, wildcards too.
///
/// # Errors
/// When the text is not a chain of certificates.
pub fn names(chain_pem: &str) -> Result<Vec<String>, BadCertificate> {
    let chain = Chain::parse(chain_pem)?;
    Ok(pair::names(&chain.leaf()?))
}

/// Whom a client's certificate is for: its subject's common name and the URIs among its alternative names.
#[must_use]
pub fn identities(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else { return Vec::new() };
    let mut found: Vec<_> = common_name(certificate.subject()).into_iter().collect();
    if let Ok(Some(extension)) = certificate.subject_alternative_name() {
        found.extend(extension.value.general_names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        }));
    }
    found
}

fn moment(at: ASN1Time) -> Timestamp {
    Timestamp::from_seconds(at.timestamp())
}

/// The issuer's common name; where it has none, all that it has.
fn issuer(leaf: &X509Certificate<'_>) -> String {
    let name = common_name(leaf.issuer()).unwrap_or_else(|| leaf.issuer().to_string());
    clean(&name)
}

/// A name in a certificate, fit to be kept and shown: it may hold anything.
fn clean(name: &str) -> String {
    const LONGEST: usize = 500;
    cleaned(name.to_owned(), LONGEST)
}

/// RFC 5280 allows twenty bytes; the rest of a longer one is not kept.
fn serial(leaf: &X509Certificate<'_>) -> String {
    const LONGEST: usize = 64;
    leaf.tbs_certificate.raw_serial().chunks(LONGEST).next().map(hex).unwrap_or_default()
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    let value = name.iter_common_name().next()?;
    value.as_str().ok().map(ToOwned::to_owned)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
