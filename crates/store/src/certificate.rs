//! Certificates: every one ever issued is kept, each with its directory; keys are sealed.

use async_trait::async_trait;
use holdfast_model::{CertificateSummary, DomainId, Hostname};
use uuid::Uuid;

use crate::{Result, Secret};

/// Identifies one certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateId(pub Uuid);

/// A certificate to be kept.
#[derive(Debug, Clone)]
pub struct NewCertificate {
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// Its private key, PKCS #8 PEM.
    pub key: Secret,
    /// Its facts.
    pub summary: CertificateSummary,
}

/// What an edge needs.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Which certificate.
    pub id: CertificateId,
    /// Of which domain.
    pub domain: DomainId,
    /// For which name.
    pub name: Hostname,
    /// Leaf first, PEM.
    pub chain_pem: String,
    /// Its private key, PKCS #8 PEM.
    pub key: Secret,
    /// Its facts.
    pub summary: CertificateSummary,
}

/// Certificates.
#[async_trait]
pub trait Certificates: Send + Sync {
    /// The newest certificate of a domain, with its key.
    async fn bundle(&self, domain: DomainId) -> Result<Option<Bundle>>;

    /// What is deployed for a name now: what an edge that loads on demand serves.
    async fn bundle_named(&self, name: &Hostname) -> Result<Option<Bundle>>;
}
