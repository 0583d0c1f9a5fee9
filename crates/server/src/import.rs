//! Certificates that operators bring along: checked against the name and the time before anything is kept.

use holdfast_acme::certificate::{self, BadCertificate};
use holdfast_model::{Hostname, Timestamp};
use holdfast_store::{Import, NewCertificate, Secret};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{Kind, Problem};

/// What stands for the directory of a certificate that came from no CA we know.
const IMPORTED: &str = "imported";

/// A certificate chain and its private key.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "an object with `chain` and `key`")]
#[schema(as = ImportedCertificate)]
pub(crate) struct Pem {
    /// Leaf first, PEM.
    chain: String,
    /// PEM: PKCS #8, SEC 1 or PKCS #1.
    #[schema(value_type = String, format = Password)]
    key: KeyText,
}

/// A private key on its way into a [`Secret`]: it has no `Debug`, and no copy of it stays behind here.
#[derive(Deserialize)]
#[serde(from = "String")]
struct KeyText(Secret);

impl From<String> for KeyText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

/// Checks that the certificate can serve the name now.
pub(crate) fn check(name: &Hostname, pem: &Pem, now: Timestamp) -> Result<Import, Problem> {
    let refused = |error: BadCertificate| {
        Problem::new(Kind::InvalidCertificate, error.to_string()).with("field", "certificate")
    };
    let pair = certificate::check_pair(name, &pem.chain, &pem.key.0, now).map_err(refused)?;
    let summary = certificate::facts(&pair.chain_pem, IMPORTED).map_err(refused)?;
    let certificate = NewCertificate { chain_pem: pair.chain_pem, key: pair.key, summary };
    Ok(Import { certificate })
}
