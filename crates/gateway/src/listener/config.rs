//! TLS settings of a listener, from PEM.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::Error;

/// Makes the settings of a server that speaks HTTP/2 and HTTP/1.1; with `client_ca_pem` only clients
/// with a certificate from one of these authorities are let in.
pub fn server_config(
    chain_pem: &[u8],
    key_pem: &[u8],
    client_ca_pem: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, Error> {
    let chain = certificates(chain_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|source| Error::KeyPem { source })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = client_verifier(client_ca_pem, provider.clone())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_client_cert_verifier(clients).with_single_cert(chain, key))
        .map_err(|source| Error::Certificate { source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn client_verifier(
    ca_pem: Option<&[u8]>,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let Some(ca_pem) = ca_pem else { return Ok(Arc::new(NoClientAuth)) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca_pem)? {
        roots.add(certificate).map_err(|source| Error::Certificate { source })?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|source| Error::ClientCa { source })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| Error::CertificatePem { source })?;
    if certificates.is_empty() { Err(Error::NoCertificate) } else { Ok(certificates) }
}
