//! What is said of a certificate without showing it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The facts of one certificate that decisions and people need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateSummary {
    /// Serial number, lower-case hex.
    pub serial: String,
    /// SHA-256 of the leaf's DER, lower-case hex.
    pub sha256: String,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// The issuer's common name.
    pub issuer: String,
    /// The ACME directory it came from; `imported` when it was brought in.
    pub directory: String,
}

impl CertificateSummary {
    /// How long it is valid in all.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.not_after.since(self.not_before)
    }
}
