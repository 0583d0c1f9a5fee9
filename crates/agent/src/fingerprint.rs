//! How a certificate is named: the SHA-256 of its DER, lower-case hex.

use std::fmt::Write as _;

/// The fingerprint of a certificate's DER.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    digest.as_ref().iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        write!(hex, "{byte:02x}").ok();
        hex
    })
}
