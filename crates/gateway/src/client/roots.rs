//! Which certificate authorities a client trusts.

use std::sync::OnceLock;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::Error;

pub(super) fn parse(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| Error::RootsPem { source: Box::new(source) })?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store
            .add(certificate.clone())
            .map_err(|source| Error::RootsPem { source: Box::new(source) })?;
    }
    if store.is_empty() { Err(Error::NoRootsInPem) } else { Ok(certificates) }
}

/// The system's roots and these; a machine without roots of its own is fine as long as some are given.
pub(super) fn with_native(extra: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(native().iter().chain(extra).cloned());
    if store.is_empty() { Err(Error::NoRoots) } else { Ok(store) }
}

/// The system's root certificates, read once in the life of the process.
pub fn native() -> &'static [CertificateDer<'static>] {
    static NATIVE: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    NATIVE.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "a root certificate of this system could not be read");
        }
        found.certs
    })
}

pub(super) fn client_config(roots: RootCertStore) -> rustls::ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
