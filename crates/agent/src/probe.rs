//! Looks at what an address really serves for a name, by a handshake.
//!
//! Who issued the certificate does not matter here: it is compared with the one that is to be served. That
//! the server holds its key does, so the handshake's signature is checked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use holdfast_model::Hostname;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, DigitallySignedStruct, Error as TlsError,
    SignatureScheme,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::chain::Shown;
use crate::{Error, Result, fingerprint};

/// Of those for TLS 1.3 the cheapest for both sides, and the one that every server must have.
const CHEAPEST: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// A name that nobody serves.
const NOBODY: &str = "holdfast.invalid";

/// Makes handshakes to see which certificate is served.
///
/// Servers choose among what is offered, and most choose what is dear; a handshake is all there will be. So the dear ones
/// are offered only to who wants nothing else.
pub struct Prober {
    cheap: TlsConnector,
    full: TlsConnector,
    /// Did the last that would not have the cheapest take another?
    is_choosy: AtomicBool,
    limit: Duration,
}

impl Prober {
    /// A prober that gives up on a handshake after `limit`.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(limit: Duration) -> Result<Self> {
        let full = rustls::crypto::ring::default_provider();
        let mut cheap = full.clone();
        cheap.cipher_suites.retain(|suite| suite.tls13().is_none() || suite.suite() == CHEAPEST);
        let (cheap, full) = (connector(cheap)?, connector(full)?);
        Ok(Self { cheap, full, is_choosy: AtomicBool::new(false), limit })
    }

    /// The fingerprint of the leaf that `address` shows for `name`; none when it does not know the name.
    ///
    /// # Errors
    /// When nobody listens, or the handshake fails for another reason.
    pub async fn look(&self, address: SocketAddr, name: &Hostname) -> Result<Option<String>> {
        let chain = self.chain(address, name).await?;
        Ok(chain.first().map(|leaf| fingerprint(leaf)))
    }

    /// The same, where a proxy shows names that it does not know some certificate of other names.
    ///
    /// # Errors
    /// When nobody listens, or the handshake fails for another reason.
    pub async fn look_for(&self, address: SocketAddr, name: &Hostname) -> Result<Option<String>> {
        Ok(self.show(address, name).await?.map(|shown| shown.sha256()))
    }

    /// The same with what is shown beside the leaf.
    pub(crate) async fn show(&self, address: SocketAddr, name: &Hostname) -> Result<Option<Shown>> {
        let chain = self.chain(address, name).await?;
        Ok(Shown::new(&chain).filter(|_| chain.first().is_some_and(|leaf| covers(leaf, name))))
    }

    /// Does anybody listen there who shakes hands, for whatever name?
    ///
    /// # Errors
    /// When nobody does.
    pub async fn answers(&self, address: SocketAddr) -> Result<()> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long");
        let met = tokio::time::timeout(self.limit, handshake(&self.full, address, NOBODY)).await;
        match met.unwrap_or_else(|_| Err(late())) {
            Err(error) if !is_an_answer(&error) => Err(Error::ProxyDown { address, source: error }),
            _ => Ok(()),
        }
    }

    async fn chain(
        &self,
        address: SocketAddr,
        name: &Hostname,
    ) -> Result<Vec<CertificateDer<'static>>> {
        let unseen = |source| Error::Unseen { address, source };
        let late = || unseen(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        let looked = tokio::time::timeout(self.limit, self.meet(address, name.as_str())).await;
        match looked.map_err(|_| late())? {
            Err(error) if name_is_unknown(&error) => Ok(Vec::new()),
            seen => seen.map_err(unseen),
        }
    }

    async fn meet(
        &self,
        address: SocketAddr,
        name: &str,
    ) -> io::Result<Vec<CertificateDer<'static>>> {
        if !self.is_choosy.load(Relaxed) {
            match handshake(&self.cheap, address, name).await {
                Err(error) if nothing_is_shared(&error) => {}
                met => return met,
            }
        }
        let met = handshake(&self.full, address, name).await;
        self.is_choosy.store(met.is_ok(), Relaxed);
        met
    }
}

fn connector(provider: CryptoProvider) -> Result<TlsConnector> {
    let provider = Arc::new(provider);
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyIssuer(provider)))
        .with_no_client_auth();
    // A resumed session shows no certificate.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

async fn handshake(
    connector: &TlsConnector,
    address: SocketAddr,
    name: &str,
) -> io::Result<Vec<CertificateDer<'static>>> {
    let server_name = ServerName::try_from(name.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let tcp = TcpStream::connect(address).await?;
    let mut stream = connector.connect(server_name, tcp).await?;
    let (_, session) = stream.get_ref();
    let seen = session.peer_certificates().unwrap_or_default();
    let seen = seen.iter().map(|one| one.clone().into_owned()).collect();
    // A polite end; what was seen was seen.
    stream.shutdown().await.ok();
    Ok(seen)
}

fn covers(leaf: &CertificateDer<'_>, name: &Hostname) -> bool {
    let parsed = ParsedCertificate::try_from(leaf);
    let server_name = ServerName::try_from(name.as_str());
    matches!((parsed, server_name), (Ok(parsed), Ok(name)) if verify_server_name(&parsed, &name).is_ok())
}

fn name_is_unknown(error: &io::Error) -> bool {
    use AlertDescription::{AccessDenied, UnrecognisedName};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    matches!(tls, Some(TlsError::AlertReceived(UnrecognisedName | AccessDenied)))
}

/// Did the server say no, instead of nothing at all?
pub(crate) fn is_an_answer(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    matches!(tls, Some(TlsError::AlertReceived(_)))
}

/// Did the server refuse the handshake for this name?
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Unseen { source, .. } if is_an_answer(source))
}

/// Did the server find no ciphers that both have?
fn nothing_is_shared(error: &io::Error) -> bool {
    use AlertDescription::{HandshakeFailure, InsufficientSecurity};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    matches!(tls, Some(TlsError::AlertReceived(HandshakeFailure | InsufficientSecurity)))
}

#[derive(Debug)]
struct AnyIssuer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyIssuer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
