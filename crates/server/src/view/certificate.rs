//! A certificate's facts.

use holdfast_model::{CertificateSummary, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// A certificate's facts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Certificate)]
pub(crate) struct CertificateView {
    /// Lower-case hex.
    serial: String,
    /// SHA-256 of the leaf, lower-case hex.
    sha256: String,
    /// Start of validity.
    #[schema(value_type = String, format = DateTime)]
    not_before: Timestamp,
    /// End of validity.
    #[schema(value_type = String, format = DateTime)]
    not_after: Timestamp,
    /// The issuer's common name.
    issuer: String,
    /// The ACME directory it came from, or `imported`.
    directory: String,
}

impl From<CertificateSummary> for CertificateView {
    fn from(summary: CertificateSummary) -> Self {
        let CertificateSummary { serial, sha256, not_before, not_after, issuer, directory } =
            summary;
        Self { serial, sha256, not_before, not_after, issuer, directory }
    }
}
