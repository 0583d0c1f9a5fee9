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
        self.issue_as(name, |_| {})
    }

    /// One that an intermediate issued, which visitors need beside it.
    pub(crate) fn issue_below(&self, name: &str) -> Bundle {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Edge test intermediate");
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::signed_by(params, key, &self.issuer).unwrap();
        let below =
            Self { issuer, serial: AtomicU64::new(self.serial.fetch_add(1, Ordering::Relaxed)) };
        let mut bundle = below.issue(name);
        bundle.chain_pem += &below.issuer.pem();
        bundle
    }

    /// One for several names; as a bundle it is the first's.
    pub(crate) fn issue_for(&self, names: &[&str]) -> Bundle {
        self.issue_as(names[0], |params| {
            let more = names[1..].iter().map(|&name| name.try_into().unwrap());
            params.subject_alt_names.extend(more.map(rcgen::SanType::DnsName));
        })
    }

    /// One whose time is over.
    pub(crate) fn issue_expired(&self, name: &str) -> Bundle {
        self.issue_as(name, |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 4, 1);
        })
    }

    /// One with so many names and so long a chain that no 16 KB hold it.
    pub(crate) fn issue_large(&self, name: &str) -> Bundle {
        let mut bundle = self.issue_as(name, |params| {
            let more =
                (0..200).map(|n| format!("{n}.{}.{name}", "long".repeat(10)).try_into().unwrap());
            params.subject_alt_names.extend(more.map(rcgen::SanType::DnsName));
        });
        for _ in 0..8 {
            bundle.chain_pem += &self.issuer.pem();
        }
        bundle
    }

    fn issue_as(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Bundle {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
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
