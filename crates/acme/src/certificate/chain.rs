//! A chain of certificates in PEM: bounded, read whole, put out clean.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

use super::BadCertificate;

/// Largest chain taken: five times what a long one of RSA certificates has.
const SIZE_LIMIT: usize = 64 * 1024;
const LENGTH_LIMIT: usize = 10;

/// At least one certificate, leaf first, each known to be X.509.
pub(crate) struct Chain(Vec<Vec<u8>>);

impl Chain {
    pub(crate) fn parse(pem: &str) -> Result<Self, BadCertificate> {
        if pem.len() > SIZE_LIMIT {
            return Err(BadCertificate::ChainTooLarge { size: pem.len(), limit: SIZE_LIMIT });
        }
        let mut ders = Vec::new();
        for block in Pem::iter_from_buffer(pem.as_bytes()) {
            ders.push(certificate_in(block)?);
            if ders.len() > LENGTH_LIMIT {
                return Err(BadCertificate::ChainTooLong { limit: LENGTH_LIMIT });
            }
        }
        let chain = Self(ders);
        chain.certificates()?;
        if chain.0.is_empty() { Err(BadCertificate::NoCertificate) } else { Ok(chain) }
    }

    /// Every certificate, leaf first.
    pub(super) fn certificates(&self) -> Result<Vec<X509Certificate<'_>>, BadCertificate> {
        self.0.iter().enumerate().map(|(at, der)| read(at + 1, der)).collect()
    }

    pub(crate) fn leaf(&self) -> Result<X509Certificate<'_>, BadCertificate> {
        read(1, self.leaf_der())
    }

    /// The certificate in this place; the leaf is in the first, 0.
    pub(super) fn der(&self, place: usize) -> Option<&[u8]> {
        self.0.get(place).map(Vec::as_slice)
    }

    pub(crate) fn leaf_der(&self) -> &[u8] {
        self.0.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// PEM with nothing around it: some proxies stop at a blank line.
    pub(crate) fn to_pem(&self) -> String {
        self.0.iter().map(|der| encode("CERTIFICATE", der)).collect()
    }
}

fn certificate_in(
    block: Result<Pem, x509_parser::error::PEMError>,
) -> Result<Vec<u8>, BadCertificate> {
    let block = block.map_err(|error| BadCertificate::ChainNotPem(error.to_string()))?;
    match block.label.as_str() {
        "CERTIFICATE" | "X509 CERTIFICATE" => Ok(block.contents),
        other => Err(BadCertificate::NotACertificate(other.chars().take(64).collect())),
    }
}

fn read(place: usize, der: &[u8]) -> Result<X509Certificate<'_>, BadCertificate> {
    let wrong = |problem: String| BadCertificate::NotX509 { place, problem };
    match parse_x509_certificate(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(wrong("there is more behind it".to_owned())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// One PEM block.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    for (at, letter) in BASE64_STANDARD.encode(der).chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            pem.push('\n');
        }
        pem.push(letter);
    }
    pem.push_str(&format!("\n-----END {label}-----\n"));
    pem
}
