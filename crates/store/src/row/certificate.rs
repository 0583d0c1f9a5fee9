//! A certificate's facts, and a bundle whose key is still sealed.

use holdfast_model::{CertificateSummary, DomainId, Hostname};
use uuid::Uuid;

use super::Fields;
use crate::{Bundle, CertificateId, Error, Result, Secret};

/// By which a chain is known to be the one that was written.
pub(crate) fn digest(chain_pem: &str) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, chain_pem.as_bytes()).as_ref().to_vec()
}

pub(crate) fn certificate(row: &impl Fields) -> Result<CertificateSummary> {
    Ok(CertificateSummary {
        serial: row.text("serial")?,
        sha256: row.text("sha256")?,
        not_before: row.at("not_before")?,
        not_after: row.at("not_after")?,
        issuer: row.text("issuer")?,
        directory: row.text("directory")?,
    })
}

/// A bundle as it lies in the database.
pub(crate) struct Unopened {
    pub(crate) id: Uuid,
    domain: DomainId,
    name: Hostname,
    chain_pem: String,
    chain_sha256: Option<Vec<u8>>,
    summary: CertificateSummary,
    pub(crate) value: Vec<u8>,
}

impl Unopened {
    pub(crate) fn read(row: &impl Fields) -> Result<Self> {
        Ok(Self {
            id: row.id("id")?,
            domain: DomainId(row.id("domain_id")?),
            name: row.hostname("name")?,
            chain_pem: row.text("chain_pem")?,
            chain_sha256: row.maybe_bytes("chain_sha256")?,
            summary: certificate(row)?,
            value: row.bytes("value")?,
        })
    }

    /// With its key. A chain is looked at before it is given to anybody: a letter of it may have changed on a disk.
    pub(crate) fn with_key(self, key: Secret) -> Result<Bundle> {
        let found = digest(&self.chain_pem);
        if self.chain_sha256.is_some_and(|written| written != found) {
            return Err(Error::Altered("certificate chain"));
        }
        Ok(Bundle {
            id: CertificateId(self.id),
            domain: self.domain,
            name: self.name,
            chain_pem: self.chain_pem,
            key,
            summary: self.summary,
        })
    }
}
