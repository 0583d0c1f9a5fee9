//! The CA's own keys and what they sign. Every certificate says in its names what it is: development only.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::listener;
use holdfast_gateway::point::Point;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::csr::Csr;
use super::id::random_bytes;
use crate::{Error, clock};

/// What the CA calls itself, everywhere.
pub(crate) const LABEL: &str = "Holdfast DEVELOPMENT CA – do not trust";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Keys and certificates as they are kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    warning: String,
    root_certificate: String,
    root_key: String,
    intermediate_certificate: String,
    intermediate_key: String,
}

/// The keys in use.
pub(crate) struct Authority {
    root_pem: String,
    intermediate_pem: String,
    intermediate: Issuer<'static, KeyPair>,
    key_identifier: Vec<u8>,
}

/// What is wrong with a certificate on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Oddity {
    #[default]
    None,
    Foreign,
    SelfSigned,
    Expired,
    Early,
}

/// A certificate just signed.
pub(crate) struct Issued {
    /// PEM of what comes behind it, where that is not the intermediate.
    pub(crate) issuers_pem: Option<String>,
    pub(crate) der: Vec<u8>,
    pub(crate) serial: Vec<u8>,
    pub(crate) not_before: OffsetDateTime,
    pub(crate) not_after: OffsetDateTime,
}

impl Authority {
    /// New keys that are kept nowhere.
    pub(crate) fn in_memory() -> Result<Self, Error> {
        Ok(Self::from_kept(&make()?)?)
    }

    /// The keys kept in a file, or new ones that are kept there.
    pub(crate) fn in_file(path: &Path) -> Result<Self, Error> {
        let kept = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|_| Error::Authority { path: path.to_owned() })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let kept = make()?;
                let text = serde_json::to_vec_pretty(&kept).unwrap_or_default();
                files::create_new(Point::FILE_OTHER, path, &text, Access::Private)?;
                kept
            }
            Err(source) => return Err(Error::Open { path: path.to_owned(), source }),
        };
        Self::from_kept(&kept).map_err(|_| Error::Authority { path: path.to_owned() })
    }

    fn from_kept(kept: &Kept) -> Result<Self, rcgen::Error> {
        let key = KeyPair::from_pem(&kept.intermediate_key)?;
        let key_identifier = CertificateParams::default().key_identifier(&key);
        Ok(Self {
            root_pem: kept.root_certificate.clone(),
            intermediate_pem: kept.intermediate_certificate.clone(),
            intermediate: Issuer::from_ca_cert_pem(&kept.intermediate_certificate, key)?,
            key_identifier,
        })
    }

    /// The root certificate.
    pub(crate) fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// The certificate between root and what is issued.
    pub(crate) fn intermediate_pem(&self) -> &str {
        &self.intermediate_pem
    }

    /// The key identifier that every issued certificate names as its authority's.
    pub(crate) fn key_identifier(&self) -> &[u8] {
        &self.key_identifier
    }

    /// Signs a certificate.
    pub(crate) fn issue(
        &self,
        names: &[String],
        csr: &Csr,
        lifetime: Duration,
        oddity: Oddity,
    ) -> Result<Issued, rcgen::Error> {
        let serial = new_serial();
        let mut params = leaf(names.first().map(String::as_str), lifetime);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        for name in names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        if csr.is_rsa {
            params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        let moved = match oddity {
            Oddity::Expired => clock::now() - DAY - params.not_after,
            Oddity::Early => clock::now() + DAY - params.not_before,
            _ => time::Duration::ZERO,
        };
        params.not_before = whole_second(params.not_before + moved);
        params.not_after = params.not_before + lifetime;
        let (not_before, not_after) = (params.not_before, params.not_after);
        let (certificate, issuers_pem) = match oddity {
            Oddity::Foreign => {
                let other = Self::from_kept(&make()?)?;
                let signed = params.signed_by(&csr.key, &other.intermediate)?;
                (signed, Some(other.intermediate_pem))
            }
            Oddity::SelfSigned => {
                // The CA does not have the key that it names: whose signature it is, nobody can tell.
                let issuer = Issuer::from_params(&params, KeyPair::generate()?);
                (params.signed_by(&csr.key, &issuer)?, Some(String::new()))
            }
            _ => (params.signed_by(&csr.key, &self.intermediate)?, None),
        };
        Ok(Issued { issuers_pem, der: certificate.der().to_vec(), serial, not_before, not_after })
    }

    /// TLS settings for the CA's own listener, with a certificate of its own for these hosts.
    pub(crate) fn server_config(
        &self,
        hosts: &[String],
    ) -> Result<Arc<rustls::ServerConfig>, Error> {
        let key = KeyPair::generate()?;
        let mut params = leaf(Some("ca.holdfast.test"), 365 * DAY);
        for host in hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.as_str().try_into()?),
            });
        }
        let chain = params.signed_by(&key, &self.intermediate)?.pem() + &self.intermediate_pem;
        Ok(listener::server_config(chain.as_bytes(), key.serialize_pem().as_bytes(), None)?)
    }
}

/// A certificate in DER as PEM.
pub(crate) fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / 64 + 64);
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn make() -> Result<Kept, rcgen::Error> {
    let (root_key, intermediate_key) = (KeyPair::generate()?, KeyPair::generate()?);
    let root_params = ca_params("root", BasicConstraints::Constrained(1), 10 * 365 * DAY);
    let root = root_params.self_signed(&root_key)?;
    let issuer = Issuer::from_params(&root_params, &root_key);
    let mut params = ca_params("intermediate", BasicConstraints::Constrained(0), 10 * 365 * DAY);
    params.use_authority_key_identifier_extension = true;
    let intermediate = params.signed_by(&intermediate_key, &issuer)?;
    Ok(Kept {
        warning: LABEL.to_owned(),
        root_certificate: root.pem(),
        root_key: root_key.serialize_pem(),
        intermediate_certificate: intermediate.pem(),
        intermediate_key: intermediate_key.serialize_pem(),
    })
}

fn ca_params(role: &str, constraints: BasicConstraints, lifetime: Duration) -> CertificateParams {
    let mut params = params(lifetime);
    // Two authorities must never have one name: clients would take one for the other.
    let unique = super::id::hex(&random_bytes::<3>());
    params.distinguished_name.push(DnType::CommonName, format!("{LABEL} ({role} {unique})"));
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(common_name: Option<&str>, lifetime: Duration) -> CertificateParams {
    let mut params = params(lifetime);
    // A longer one does not fit the field; the alternative names are what counts.
    if let Some(name) = common_name.filter(|name| name.len() <= 64) {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params
}

fn params(lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, LABEL);
    // Begun a little earlier, as public CAs do, for those whose clocks are behind.
    let backdated = Duration::from_secs(60 * 60).min(lifetime / 10);
    params.not_before = whole_second(clock::now() - backdated);
    params.not_after = params.not_before + lifetime;
    params
}

fn whole_second(time: OffsetDateTime) -> OffsetDateTime {
    time.replace_millisecond(0).unwrap_or(time)
}

/// Sixteen bytes that are a positive number of that length in DER, without a byte added in front.
fn new_serial() -> Vec<u8> {
    let mut serial = random_bytes::<16>().to_vec();
    if let Some(first) = serial.first_mut() {
        *first = *first & 0x3f | 0x40;
    }
    serial
}
