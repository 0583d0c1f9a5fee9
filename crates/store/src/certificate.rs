//! Certificates: every one ever issued is kept, each with its directory; keys are sealed.

use async_trait::async_trait;
use holdfast_model::{CertificateSummary, Domain, DomainId, Hostname, Note, State, Timestamp};
use uuid::Uuid;

use crate::{Actor, Result, Secret};

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

    /// What is deployed for a name to this group now.
    async fn bundle_in(&self, group: &str, name: &Hostname) -> Result<Option<Bundle>>;

    /// A live domain's certificate by its fingerprint, and the group it is for. Where several domains have the same one,
    /// `domain`'s is given, else one of `group`, else any.
    async fn bundle_by_sha256(
        &self,
        sha256: &str,
        group: Option<&str>,
        domain: Option<DomainId>,
    ) -> Result<Option<(Bundle, String)>>;

    /// Goes back to an earlier certificate of a domain that is still valid: to the one with the fingerprint `to`, else to the
    /// newest before the present one. It becomes the domain's certificate and is deployed anew, and is not renewed before half of
    /// what is left of it has passed. `NotNow` while the domain is on its way to another one.
    async fn roll_back(&self, domain: DomainId, to: Option<&str>, actor: &Actor) -> Result<Domain>;

    /// Fails where a domain's certificate cannot be served as it is stored.
    async fn check_certificate(&self, domain: &Domain) -> Result<()> {
        let Some(certificate) = &domain.certificate else { return Ok(()) };
        self.bundle_by_sha256(&certificate.sha256, None, Some(domain.id)).await.map(drop)
    }

    /// How many certificates were made for a domain since, counted up to `limit`.
    async fn certificates_since(
        &self,
        domain: DomainId,
        since: Timestamp,
        limit: u32,
    ) -> Result<u32>;

    /// Until when the certificate that a person went back to is not renewed.
    async fn held_until(&self, domain: DomainId) -> Result<Option<Timestamp>>;
}

/// Where a domain may be when a person goes back to an earlier certificate: it serves, or is about to. Anywhere else a new one is
/// on its way.
pub(crate) const MAY_ROLL_BACK: [State; 4] = [
    State::CertificateDeploying,
    State::CertificateDeploymentFailed,
    State::CertificateDeployed,
    State::Active,
];

/// What a rollback's line in the history says.
pub(crate) fn rolled_back(from: Option<&CertificateSummary>, to: &str) -> Note {
    let from = from.map_or("none", |from| from.sha256.as_str());
    Note::new("rolled-back", format!("back to certificate {to}, from {from}"))
}
