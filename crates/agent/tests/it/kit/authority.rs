//! A certificate authority of the test's own.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_agent::fingerprint;
use holdfast_model::{CertificateSummary, DomainId, Timestamp};
use holdfast_store::{Bundle, CertificateId, Secret};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SerialNumber,
};
use uuid::Uuid;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    serial: AtomicU64,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Edge test root");
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        Self { issuer, serial: AtomicU64::new(1) }
    }

    pub(crate) fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn root_der(&self) -> rustls::pki_types::CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// A new certificate, with a new key.
    pub(crate) fn issue(&self, name: &str) -> Bundle {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        Bundle {
            id: CertificateId(Uuid::new_v4()),
            domain: DomainId::new(),
            name: super::name(name),
            chain_pem: leaf.pem(),
            key: Secret::from(key.serialize_pem()),
            summary: CertificateSummary {
                serial: format!("{serial:x}"),
                sha256: fingerprint(leaf.der()),
                not_before: Timestamp::from_seconds(0),
                not_after: Timestamp::from_seconds(4_000_000_000),
                issuer: "Edge <test> root".to_owned(),
                directory: "imported".to_owned(),
            },
        }
    }
}
