//! TLS-ALPN-01: a handshake that only who controls the name can answer (RFC 8737). Also the TLS settings of an
//! unverified client, which a redirect from HTTP-01 to HTTPS needs too.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::super::Ca;
use super::super::problem::{Kind, Problem};
use super::Task;

const PROTOCOL: &[u8] = b"acme-tls/1";

/// id-pe-acmeIdentifier.
const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";

/// Makes the handshake and looks at the certificate.
pub(super) async fn check(ca: &Ca, task: &Task) -> Result<(), Problem> {
    let addresses = ca.resolver.addresses(&task.name).await?;
    let (stream, address) = connect(ca, &addresses, ca.tls_port(), &task.name).await?;
    let stream = handshake(stream, &task.name, Some(PROTOCOL)).await.map_err(|error| {
        Problem::new(
            Kind::Tls,
            format!("{address}: the handshake for {} failed: {error}", task.name),
        )
    })?;
    let (_, session) = stream.get_ref();
    if session.alpn_protocol() != Some(PROTOCOL) {
        let detail = format!("{address} did not agree to acme-tls/1 for {}", task.name);
        return Err(Problem::unauthorized(detail));
    }
    let certificate = session.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or_else(|| {
        Problem::unauthorized(format!("{address} presented no certificate for {}", task.name))
    })?;
    judge(certificate, task).map_err(|reason| {
        let detail = format!("{address} presented a wrong certificate for {}: {reason}", task.name);
        Problem::unauthorized(detail)
    })
}

/// Connects to the first address that lets itself be connected to: IPv6 before IPv4.
pub(super) async fn connect(
    ca: &Ca,
    addresses: &[IpAddr],
    port: u16,
    name: &str,
) -> Result<(TcpStream, SocketAddr), Problem> {
    let first_of_each = [
        addresses.iter().find(|address| address.is_ipv6()),
        addresses.iter().find(|address| address.is_ipv4()),
    ];
    let mut last = String::new();
    for address in first_of_each.into_iter().flatten() {
        let address = SocketAddr::new(*address, port);
        // Half the time for each family, so that a silent IPv6 address leaves some for IPv4.
        let limit = ca.settings.validation_limit / 2;
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => last = format!("{address}: {error}"),
            Err(_) => last = format!("{address}: timeout during connect"),
        }
    }
    Err(Problem::new(Kind::Connection, format!("cannot connect for {name}: {last}")))
}

/// A handshake with whoever is there, whatever their certificate.
pub(super) async fn handshake(
    stream: TcpStream,
    name: &str,
    protocol: Option<&[u8]>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.signature_verification_algorithms));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    let name = ServerName::try_from(name.to_owned()).map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn judge(certificate: &CertificateDer<'_>, task: &Task) -> Result<(), String> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| "it cannot be parsed".to_owned())?;
    check_name(&certificate, &task.name)?;
    let identifier = certificate
        .extensions()
        .iter()
        .find(|extension| extension.oid.to_id_string() == ACME_IDENTIFIER)
        .ok_or("it has no acmeIdentifier extension")?;
    if !identifier.critical {
        return Err("its acmeIdentifier extension is not critical".to_owned());
    }
    // An OCTET STRING of 32 bytes, in DER.
    let expected = [&[4, 32], task.digest().as_slice()].concat();
    match identifier.value == expected {
        true => Ok(()),
        false => Err("its acmeIdentifier is not the digest of the key authorization".to_owned()),
    }
}

fn check_name(certificate: &X509Certificate<'_>, name: &str) -> Result<(), String> {
    let alternatives =
        certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        });
    match alternatives.map(Vec::as_slice) {
        Some([GeneralName::DNSName(only)]) if only.eq_ignore_ascii_case(name) => Ok(()),
        _ => Err("its only alternative name must be the name itself".to_owned()),
    }
}

/// Takes any certificate, but not any signature: the handshake itself must be sound.
///
/// rustls's own check of the signature would refuse the certificate for its critical extension.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl AnyCertificate {
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| rustls::CertificateError::BadEncoding)?;
        let key = &parsed.public_key().subject_public_key.data;
        let fitting = self.0.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let mut algorithms = fitting.flat_map(|(_, algorithms)| algorithms.iter());
        match algorithms.any(|one| one.verify_signature(key, message, signed.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(rustls::CertificateError::BadSignature.into()),
        }
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
