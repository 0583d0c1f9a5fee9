//! Signatures that instant-acme cannot make: with a key of the store's choosing, without an order at hand, by the
//! certificate's own key, or one inside another (RFC 8555 §6.2, §7.3.4, §7.3.5, §7.6).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use holdfast_store::Secret;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use ring::{digest, hmac};
use serde_json::{Value, json};

use crate::certificate::{KeyPair, PrivateKey};
use crate::{Eab, Error};

/// A key that signs.
pub(crate) struct SigningKey {
    key: PrivateKey,
    algorithm: &'static str,
    jwk: Jwk,
}

/// The public half, its members in the order in which they are hashed.
struct Jwk(Vec<(&'static str, String)>);

/// Who signs, as the CA is told.
#[derive(Clone, Copy)]
pub(crate) enum Signer<'a> {
    /// An account, by its URL.
    Account(&'a str),
    /// A key the CA may not know, by itself.
    Key,
}

impl SigningKey {
    /// A new account key, PKCS #8 DER.
    pub(crate) fn generate() -> Result<Secret, Error> {
        let rng = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng);
        let key = key.map_err(|_| Error::Key("the system gave no randomness for a key"))?;
        Ok(Secret::new(key.as_ref().to_vec()))
    }

    pub(crate) fn from_pkcs8_der(der: &Secret) -> Result<Self, Error> {
        Self::new(PrivateKey::from_pkcs8(der.clone())?)
    }

    pub(crate) fn new(key: PrivateKey) -> Result<Self, Error> {
        let (algorithm, jwk) = match &key.pair {
            KeyPair::P256(_) => ("ES256", Jwk::elliptic("P-256", key.public())),
            KeyPair::P384(_) => ("ES384", Jwk::elliptic("P-384", key.public())),
            KeyPair::Rsa(pair) => ("RS256", Jwk::rsa(&pair.public_key().into())),
            KeyPair::Ed25519(_) => return Err(Error::Key("an Ed25519 key cannot sign for a CA")),
        };
        Ok(Self { key, algorithm, jwk })
    }

    pub(crate) fn jwk(&self) -> Value {
        self.jwk.0.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// RFC 7638: what stands behind the token in a key authorization.
    pub(crate) fn thumbprint(&self) -> String {
        let members = self.jwk.0.iter().map(|(name, value)| format!("\"{name}\":\"{value}\""));
        let canonical = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        encode(digest::digest(&digest::SHA256, canonical.as_bytes()))
    }

    /// Signs for `url`; without a payload it is a POST-as-GET. A signature inside another has no nonce.
    pub(crate) fn sign(
        &self,
        signer: Signer<'_>,
        url: &str,
        nonce: Option<&str>,
        payload: Option<&Value>,
    ) -> Result<Value, Error> {
        let (name, value) = match signer {
            Signer::Account(account) => ("kid", account.into()),
            Signer::Key => ("jwk", self.jwk()),
        };
        let fixed = [("alg", self.algorithm.into()), ("url", url.into()), (name, value)];
        let nonce = nonce.map(|nonce| ("nonce", nonce.into()));
        let header = fixed.into_iter().chain(nonce).collect();
        sealed(&header, payload, |message| self.signature(message))
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let rng = SystemRandom::new();
        let failed = |_| Error::Key("the key did not sign");
        match &self.key.pair {
            KeyPair::P256(pair) | KeyPair::P384(pair) => {
                Ok(pair.sign(&rng, message).map_err(failed)?.as_ref().to_vec())
            }
            KeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            KeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

impl Eab {
    /// Binds an account's key to the external account.
    pub(crate) fn bind(&self, key: &SigningKey, url: &str) -> Result<Value, Error> {
        let header = json!({ "alg": "HS256", "kid": self.key_id, "url": url });
        let mac = hmac::Key::new(hmac::HMAC_SHA256, self.hmac_key.expose());
        sealed(&header, Some(&key.jwk()), |message| Ok(hmac::sign(&mac, message).as_ref().to_vec()))
    }
}

impl Jwk {
    /// `point` is uncompressed: a byte that says so, then both coordinates.
    fn elliptic(curve: &str, point: &[u8]) -> Self {
        let coordinates = point.get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        Self(vec![
            ("crv", curve.to_owned()),
            ("kty", "EC".to_owned()),
            ("x", encode(x)),
            ("y", encode(y)),
        ])
    }

    fn rsa(public: &PublicKeyComponents<Vec<u8>>) -> Self {
        Self(vec![("e", encode(&public.e)), ("kty", "RSA".to_owned()), ("n", encode(&public.n))])
    }
}

fn sealed(
    header: &Value,
    payload: Option<&Value>,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, Error>,
) -> Result<Value, Error> {
    let protected = encode(header.to_string());
    let payload = payload.map(|payload| encode(payload.to_string())).unwrap_or_default();
    let signature = encode(sign(format!("{protected}.{payload}").as_bytes())?);
    Ok(json!({ "protected": protected, "payload": payload, "signature": signature }))
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
