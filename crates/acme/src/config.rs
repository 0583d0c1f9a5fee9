//! Which CA, as whom, and with what keys.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{
    BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD,
};
use holdfast_store::{ChallengeKind, OrderLimits, Secret};

use crate::Error;

/// How to talk to one CA.
#[derive(Debug, Clone)]
pub struct CaConfig {
    /// The ACME directory.
    pub directory: String,
    /// PEM of roots trusted beside the system's, for the CA's own TLS.
    pub extra_roots_pem: Option<String>,
    /// PEM of the roots of what the CA issues. Without it they are the system's; beside extra roots for its TLS, also those, or else
    /// the issuer of the account's first chain is pinned.
    pub issuer_roots_pem: Option<String>,
    /// Whom the CA may write to.
    pub email: Option<String>,
    /// Does the operator agree to the CA's terms of service?
    pub agree_terms: bool,
    /// The kind of key that certificates get.
    pub key_type: KeyType,
    /// The certificate profile to ask for.
    pub profile: Option<String>,
    /// The proof of control that is given where the CA leaves the choice.
    pub challenge: ChallengeKind,
    /// The account at the CA's other systems that ours is bound to.
    pub eab: Option<Eab>,
    /// Longest time for one request.
    pub time_limit: Duration,
    /// How many orders the account may make and have.
    pub limits: OrderLimits,
}

/// The kind of key a certificate gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// ECDSA on the curve P-256.
    #[default]
    EcdsaP256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

impl KeyType {
    /// As it is configured.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256",
            Self::Rsa2048 => "rsa-2048",
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names no kind of key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no key type; write ecdsa-p256 or rsa-2048 in [acme] key_type")]
pub struct UnknownKeyType(String);

impl FromStr for KeyType {
    type Err = UnknownKeyType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::EcdsaP256, Self::Rsa2048];
        known
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKeyType(text.to_owned()))
    }
}

/// An external account binding: what a CA that sells its service gives with the subscription.
#[derive(Debug, Clone)]
pub struct Eab {
    /// The key's name at the CA.
    pub key_id: String,
    /// The MAC key, decoded.
    pub hmac_key: Secret,
}

impl Eab {
    /// Takes the key as CAs print it: base64url, or plain base64, with or without padding.
    ///
    /// # Errors
    /// When it is neither, or empty.
    pub fn parse(key_id: &str, hmac_key: &str) -> Result<Self, Error> {
        let text = hmac_key.trim();
        let alphabets =
            [BASE64_URL_SAFE_NO_PAD, BASE64_URL_SAFE, BASE64_STANDARD, BASE64_STANDARD_NO_PAD];
        let decoded = alphabets.iter().find_map(|alphabet| alphabet.decode(text).ok());
        match decoded.filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => Ok(Self { key_id: key_id.to_owned(), hmac_key: Secret::new(bytes) }),
            None => Err(Error::BadEabKey),
        }
    }
}
