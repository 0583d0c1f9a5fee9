//! A chain and a key that are to serve a name: do they fit the name, each other and the time?

use std::time::Duration;

use holdfast_model::{Hostname, Timestamp};
use holdfast_store::Secret;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::chain::Chain;
use super::{BadCertificate, PrivateKey, moment};

/// The clocks of a CA and of the store differ a little: a certificate from just now is valid now.
pub(super) const CLOCK_LEEWAY: Duration = Duration::from_secs(300);

/// A chain and its key that fit.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Leaf first, PEM, with nothing around it.
    pub chain_pem: String,
    /// PKCS #8 PEM, whatever form was given.
    pub key: Secret,
    /// Until when visitors can verify it, as far as is known: the leaf's end, or that of an issuer which ends before.
    pub until: Timestamp,
}

/// Checks that a chain and a key can serve a name now.
///
/// # Errors
/// Says what does not fit and what to give instead.
pub fn check_pair(
    name: &Hostname,
    chain_pem: &str,
    key: &Secret,
    now: Timestamp,
) -> Result<Pair, BadCertificate> {
    let chain = Chain::parse(chain_pem)?;
    let certificates = chain.certificates()?;
    let leaf = certificates.first().ok_or(BadCertificate::NoCertificate)?;
    check_name(name, leaf)?;
    check_time(leaf, now)?;
    check_usage(leaf)?;
    let key = PrivateKey::parse_pem(key)?;
    if key.public() != leaf.public_key().subject_public_key.data.as_ref() {
        return Err(BadCertificate::KeyMismatch(covers(&names(leaf))));
    }
    check_links(&certificates)?;
    let until = moment(leaf.validity().not_after);
    Ok(Pair { chain_pem: chain.to_pem(), key: key.to_pem(), until })
}

/// A server proves that it has the key by a signature.
fn check_usage(leaf: &X509Certificate<'_>) -> Result<(), BadCertificate> {
    match leaf.key_usage() {
        Ok(Some(usage)) if !usage.value.digital_signature() => Err(BadCertificate::WrongUsage),
        _ => Ok(()),
    }
}

fn check_name(name: &Hostname, leaf: &X509Certificate<'_>) -> Result<(), BadCertificate> {
    let names = names(leaf);
    if names.iter().any(|covered| matches(covered, name.as_str())) {
        return Ok(());
    }
    // The usual mistake is a chain upside down: then the names are not what is wrong.
    if leaf.is_ca() {
        return Err(BadCertificate::LeafIsCa(leaf.subject().to_string()));
    }
    Err(BadCertificate::WrongName { name: name.clone(), covers: covers(&names) })
}

/// The names a certificate covers.
pub(super) fn names(leaf: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = leaf.subject_alternative_name() else { return Vec::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    names.collect()
}

/// A wildcard stands for one label, the first.
fn matches(covered: &str, name: &str) -> bool {
    match covered.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => covered == name,
    }
}

fn covers(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => return "no name at all".to_owned(),
        more if more > SHOWN => text.push(format!("{} more", more - SHOWN)),
        _ => {}
    }
    text.join(", ")
}

fn check_time(leaf: &X509Certificate<'_>, now: Timestamp) -> Result<(), BadCertificate> {
    let (from, until) = (moment(leaf.validity().not_before), moment(leaf.validity().not_after));
    if from > now.plus(CLOCK_LEEWAY) {
        return Err(BadCertificate::NotYetValid { from, now });
    }
    if until <= now {
        return Err(BadCertificate::Expired { until, now });
    }
    Ok(())
}

fn check_links(certificates: &[X509Certificate<'_>]) -> Result<(), BadCertificate> {
    let links = certificates.iter().zip(certificates.iter().skip(1));
    for (at, (certificate, next)) in links.enumerate() {
        let broken = |problem: String| BadCertificate::BrokenChain {
            place: at + 1,
            subject: certificate.subject().to_string(),
            next: next.subject().to_string(),
            problem,
        };
        if certificate.issuer().as_raw() != next.subject().as_raw() {
            return Err(broken(format!("its issuer is `{}`", certificate.issuer())));
        }
        if !next.is_ca() {
            return Err(broken("the next one is no CA".to_owned()));
        }
        certificate
            .verify_signature(Some(next.public_key()))
            .map_err(|error| broken(format!("its signature does not fit ({error})")))?;
    }
    Ok(())
}
