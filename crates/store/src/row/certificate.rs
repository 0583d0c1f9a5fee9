//! A certificate's facts, and a bundle whose key is still sealed.

use holdfast_model::{CertificateSummary, DomainId, Hostname};
use uuid::Uuid;

use super::Fields;
use crate::{Bundle, CertificateId, Result, Secret};

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
            summary: certificate(row)?,
            value: row.bytes("value")?,
        })
    }

    pub(crate) fn with_key(self, key: Secret) -> Bundle {
        Bundle {
            id: CertificateId(self.id),
            domain: self.domain,
            name: self.name,
            chain_pem: self.chain_pem,
            key,
            summary: self.summary,
        }
    }
}
