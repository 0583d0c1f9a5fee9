//! Account keys that somebody brings along, in the forms that other clients keep them: PEM, or a JWK.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use holdfast_store::Secret;
use serde::Deserialize;

use crate::certificate::der::{P256, pkcs8, sec1};
use crate::certificate::{BadCertificate, KeyPair, PrivateKey};

/// A key with its public half, as a JWK (RFC 7517). It has no `Debug`.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
    #[serde(default)]
    d: String,
}

/// Reads an account key: PEM (PKCS #8 or SEC 1), or a JWK. Gives PKCS #8 DER, as the store keeps it.
///
/// # Errors
/// When it is no key, or one of a kind that is not used for accounts.
pub fn account_key(text: &Secret) -> Result<Secret, BadCertificate> {
    let key = match text.expose().trim_ascii_start().starts_with(b"{") {
        true => from_jwk(text)?,
        false => PrivateKey::parse_pem(text)?,
    };
    match &key.pair {
        KeyPair::P256(_) => Ok(key.to_der()),
        KeyPair::P384(_) => Err(BadCertificate::NotForAccounts("ECDSA P-384")),
        KeyPair::Rsa(_) => Err(BadCertificate::NotForAccounts("RSA")),
        KeyPair::Ed25519(_) => Err(BadCertificate::NotForAccounts("Ed25519")),
    }
}

fn from_jwk(text: &Secret) -> Result<PrivateKey, BadCertificate> {
    // Not what the parser says: it may quote the key.
    let unreadable = || BadCertificate::KeyUnusable("the JWK cannot be read".to_owned());
    let jwk: Jwk = serde_json::from_slice(text.expose()).map_err(|_| unreadable())?;
    match (jwk.kty.as_str(), jwk.crv.as_str()) {
        ("EC", "P-256") => {}
        ("RSA", _) => return Err(BadCertificate::NotForAccounts("RSA")),
        _ => return Err(BadCertificate::NotForAccounts("of another kind")),
    }
    let bytes = |text: &str| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        bytes.filter(|bytes| bytes.len() == 32).ok_or_else(unreadable)
    };
    let point = [vec![4], bytes(&jwk.x)?, bytes(&jwk.y)?].concat();
    let number = Secret::new(bytes(&jwk.d)?);
    PrivateKey::from_pkcs8(pkcs8(P256, sec1(number.expose(), &point).expose()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{KeyPair as Generated, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};

    use super::*;
    use crate::jws::SigningKey;

    fn secret(text: impl Into<String>) -> Secret {
        Secret::from(text.into())
    }

    #[test]
    fn pem_and_jwk_of_a_key_are_the_same_key() {
        let generated = Generated::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let pem = account_key(&secret(generated.serialize_pem())).unwrap();
        let signing = SigningKey::from_pkcs8_der(&pem).unwrap();
        let mut jwk = signing.jwk();
        // In PKCS #8 of a P-256 key the number stands in the same place always.
        let number = &generated.serialized_der()[36..68];
        jwk["d"] = BASE64_URL_SAFE_NO_PAD.encode(number).into();
        let der = account_key(&secret(jwk.to_string())).unwrap();
        assert_eq!(SigningKey::from_pkcs8_der(&der).unwrap().thumbprint(), signing.thumbprint());
    }

    #[test]
    fn other_kinds_are_named() {
        let other = Generated::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem();
        assert_eq!(
            account_key(&secret(other)).err(),
            Some(BadCertificate::NotForAccounts("ECDSA P-384"))
        );
        let certbot = r#"{"n": "AQ", "e": "AQAB", "d": "AQ", "kty": "RSA"}"#;
        assert_eq!(
            account_key(&secret(certbot)).err(),
            Some(BadCertificate::NotForAccounts("RSA"))
        );
    }

    proptest! {
        #[test]
        fn nothing_else_is_a_key(text in r#"\{"kty":"EC","crv":"P-256","d":"[A-Za-z_=-]{0,60}"\}|.*"#) {
            prop_assert!(account_key(&secret(text)).is_err());
        }
    }
}
