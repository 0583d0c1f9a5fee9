//! The certificate authority, as configured.

use std::time::Duration;

use holdfast_acme::{Ca, CaConfig, Error, KeyType, check_issuer_roots};
use holdfast_store::{ChallengeKind, OrderLimits, SharedStore};

use crate::{
    config::{self, Acme, Edge, EdgeMode},
    failure::{Failure, chain},
};

/// Longest time for one request to the CA.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Makes the conversation; nothing is sent yet.
pub(crate) fn open(acme: &Acme, edge: &Edge, store: SharedStore) -> Result<Ca, Failure> {
    Ca::new(settings(acme, edge)?, store).map_err(|error| refused(&error))
}

fn refused(error: &Error) -> Failure {
    Failure::usage(format!("[acme]: {}; mend that section.", chain(error)))
}

/// How many orders may be made and open.
pub(crate) const fn limits(acme: &Acme) -> OrderLimits {
    OrderLimits { per_3h: acme.max_new_orders_per_3h, in_flight: acme.max_orders_in_flight }
}

fn settings(acme: &Acme, edge: &Edge) -> Result<CaConfig, Failure> {
    Ok(CaConfig {
        directory: acme.directory.to_string(),
        extra_roots_pem: roots(acme)?,
        issuer_roots_pem: issuer_roots(acme)?,
        email: acme.email.clone(),
        agree_terms: acme.agree_terms,
        key_type: match acme.key_type {
            config::KeyType::EcdsaP256 => KeyType::EcdsaP256,
            config::KeyType::Rsa2048 => KeyType::Rsa2048,
        },
        profile: acme.profile.clone(),
        // The built-in edge answers where it listens; behind anything else it is HTTP that is routed here.
        challenge: match edge.mode == EdgeMode::Builtin && edge.http.is_none() {
            true => ChallengeKind::TlsAlpn01,
            false => ChallengeKind::Http01,
        },
        eab: acme.binding().map_err(|error| refused(&error))?,
        time_limit: TIME_LIMIT,
        limits: limits(acme),
    })
}

/// The extra root of the CA's own TLS.
pub(crate) fn roots(acme: &Acme) -> Result<Option<String>, Failure> {
    let Some(path) = &acme.root_certificate else { return Ok(None) };
    std::fs::read_to_string(path).map(Some).map_err(|error| {
        let path = path.display();
        Failure::usage(format!("acme.root_certificate: {path} cannot be read ({error}); put the CA's root there, in PEM, or remove the key."))
    })
}

/// The roots of what the CA issues.
pub(crate) fn issuer_roots(acme: &Acme) -> Result<Option<String>, Failure> {
    let Some(path) = &acme.issuer_roots else { return Ok(None) };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("acme.issuer_roots: {shown} cannot be read ({error}); put the roots of what the CA issues there, in PEM, or remove the key."))
    })?;
    check_issuer_roots(&text)
        .map_err(|error| Failure::usage(format!("{}, in {shown}.", chain(&error))))?;
    Ok(Some(text))
}
