//! TLS-ALPN-01 (RFC 8737): a handshake with a certificate that carries the digest of the key authorization.

use std::sync::Arc;

use holdfast_model::Hostname;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use super::served::Maker;
use crate::{Error, Result};

/// The protocol's name.
pub(super) const PROTOCOL: &[u8] = b"acme-tls/1";

/// Settings that answer the challenge of a name.
pub(super) fn challenge_config(
    maker: &Maker,
    name: &Hostname,
    key_authorization: &str,
) -> Result<Arc<ServerConfig>> {
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Unusable {
        name: name.to_string(),
        source,
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, key_authorization.as_bytes());
    let (certificate, key) =
        self_signed(name, digest.as_ref()).map_err(|error| unusable(error.into()))?;
    let key =
        PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| unusable(error.into()))?;
    let pair = maker.pair(vec![certificate.der().clone()], key)?;
    let mut config = maker.config(pair, vec![PROTOCOL.to_vec()]);
    // Each validation is to see the certificate.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn self_signed(
    name: &Hostname,
    digest: &[u8],
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    let mut params = CertificateParams::new([name.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Holdfast TLS-ALPN-01 challenge");
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?, key))
}
