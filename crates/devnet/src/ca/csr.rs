//! Certificate requests: what they ask for, and whether that may be signed. Pure.

use std::collections::BTreeSet;

use rcgen::SubjectPublicKeyInfo as CertifiedKey;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::jwk::Jwk;
use super::problem::{Kind, Problem};

/// What a request asks for.
pub(crate) struct Csr {
    pub(crate) key: CertifiedKey,
    pub(crate) is_rsa: bool,
    names: BTreeSet<String>,
}

impl Csr {
    /// Parses a request in DER and checks its signature and the strength of its key.
    pub(crate) fn parse(der: &[u8], account_key: &Jwk) -> Result<Self, Problem> {
        let (rest, request) = X509CertificationRequest::from_der(der)
            .map_err(|_| bad("it is no PKCS #10 request in DER"))?;
        if !rest.is_empty() {
            return Err(bad("something follows it"));
        }
        let key = &request.certification_request_info.subject_pki;
        check_strength(key)?;
        if account_key.is(key) {
            return Err(bad("its key is the account's key: a certificate needs one of its own"));
        }
        request.verify_signature().map_err(|_| bad("its signature does not match its key"))?;
        Ok(Self {
            key: CertifiedKey::from_der(key.raw).map_err(|_| bad("its key is not supported"))?,
            is_rsa: matches!(key.parsed(), Ok(PublicKey::RSA(_))),
            names: names(&request)?,
        })
    }

    /// Checks that exactly these names are asked for.
    pub(crate) fn must_ask_for(&self, names: &[String]) -> Result<(), Problem> {
        let ordered: BTreeSet<String> = names.iter().cloned().collect();
        if self.names == ordered {
            return Ok(());
        }
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let (asked, ordered) = (list(&self.names), list(&ordered));
        Err(bad(&format!("it asks for [{asked}], but the order is for [{ordered}]")))
    }
}

fn bad(detail: &str) -> Problem {
    Problem::new(Kind::BadCsr, format!("the CSR cannot be used: {detail}"))
}

fn check_strength(key: &SubjectPublicKeyInfo<'_>) -> Result<(), Problem> {
    match key.parsed() {
        Ok(PublicKey::RSA(key)) if (2048..=4096).contains(&key.key_size()) => Ok(()),
        Ok(PublicKey::RSA(_)) => Err(bad("its RSA key must have 2048 to 4096 bits")),
        Ok(PublicKey::EC(point)) if [256, 384].contains(&point.key_size()) => Ok(()),
        _ => Err(bad("its key must be RSA, EC P-256 or EC P-384")),
    }
}

fn names(request: &X509CertificationRequest<'_>) -> Result<BTreeSet<String>, Problem> {
    let mut names = BTreeSet::new();
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(alternatives) = extension else { continue };
        for name in &alternatives.general_names {
            let GeneralName::DNSName(name) = name else {
                return Err(bad("it asks for a subject alternative name that is no DNS name"));
            };
            names.insert(name.to_ascii_lowercase());
        }
    }
    for name in request.certification_request_info.subject.iter_common_name() {
        let name = name.as_str().map_err(|_| bad("its common name is no text"))?;
        names.insert(name.to_ascii_lowercase());
    }
    Ok(names)
}
