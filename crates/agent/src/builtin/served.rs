//! A certificate made ready to be served: TLS settings of its own, and what the page says of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_model::{CertificateSummary, Hostname};
use holdfast_store::Bundle;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::time::Instant;

use crate::{Error, Result, fingerprint};

/// A certificate, ready for handshakes.
pub(super) struct Served {
    pub(super) name: Hostname,
    pub(super) config: Arc<ServerConfig>,
    pub(super) summary: CertificateSummary,
    recheck_at: Mutex<Instant>,
}

impl Served {
    /// When it is to be looked up again.
    pub(super) fn recheck_in(&self, span: Duration) {
        *self.recheck_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + span;
    }

    /// Is it time to look it up again? Says yes once, and again after `retry`.
    pub(super) fn is_recheck_due(&self, retry: Duration) -> bool {
        let mut at = self.recheck_at.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, due) = (Instant::now(), *at);
        if now >= due {
            *at = now + retry;
        }
        now >= due
    }
}

/// Makes TLS settings, which share everything but the certificate: above all the key of session tickets, so that a
/// session can be resumed after a swap.
#[derive(Clone)]
pub(super) struct Maker {
    provider: Arc<CryptoProvider>,
    pattern: Arc<ServerConfig>,
}

impl Maker {
    pub(super) fn new() -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut pattern = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        pattern.ticketer = rustls::crypto::ring::Ticketer::new()?;
        // Tickets carry the sessions; a store of them per certificate would only take memory.
        pattern.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { provider, pattern: Arc::new(pattern) })
    }

    /// Makes a certificate ready, or says why it cannot be served.
    pub(super) fn make(&self, bundle: &Bundle) -> Result<Served> {
        let unusable = |source| Error::Unusable { name: bundle.name.to_string(), source };
        let key = self.certified_key(bundle).map_err(unusable)?;
        let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"http/1.0".to_vec()];
        Ok(Served {
            name: bundle.name.clone(),
            config: Arc::new(self.config(key, alpn)),
            summary: bundle.summary.clone(),
            recheck_at: Mutex::new(Instant::now()),
        })
    }

    /// Settings for a key and these protocols.
    pub(super) fn config(&self, key: CertifiedKey, alpn: Vec<Vec<u8>>) -> ServerConfig {
        let mut config = ServerConfig::clone(&self.pattern);
        config.cert_resolver = Arc::new(SingleCertAndKey::from(key));
        config.alpn_protocols = alpn;
        config
    }

    /// A key and its chain, taken as they are.
    pub(super) fn pair(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<CertifiedKey, rustls::Error> {
        Ok(CertifiedKey::new(chain, self.provider.key_provider.load_private_key(key)?))
    }

    fn certified_key(&self, bundle: &Bundle) -> Result<CertifiedKey, Unusable> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(bundle.chain_pem.as_bytes())
            .collect::<Result<_, _>>()?;
        let leaf = chain.first().ok_or("its chain is empty")?;
        if fingerprint(leaf) != bundle.summary.sha256 {
            return Err("it is not the certificate that was issued".into());
        }
        let name = ServerName::try_from(bundle.name.as_str())?;
        verify_server_name(&ParsedCertificate::try_from(leaf)?, &name)?;
        let key = PrivateKeyDer::from_pem_slice(bundle.key.expose())?;
        let pair = self.pair(chain, key)?;
        pair.keys_match()?;
        Ok(pair)
    }
}

/// Whatever a parser or TLS objects to.
type Unusable = Box<dyn std::error::Error + Send + Sync>;

/// The pattern itself is never served.
#[derive(Debug)]
struct NoCertificate;

impl rustls::server::ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
