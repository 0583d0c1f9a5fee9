//! Private keys in the three forms that tools write, as PKCS #8 from here on.

use holdfast_store::Secret;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RsaKeyPair,
};
use x509_parser::pem::Pem;

use super::BadCertificate;
use super::chain::encode;
use super::der::{P256, P384, RSA, pkcs8};

const SIZE_LIMIT: usize = 16 * 1024;

/// A private key that ring can use.
pub(crate) struct PrivateKey {
    pkcs8: Secret,
    pub(crate) pair: KeyPair,
}

/// The kinds there are.
pub(crate) enum KeyPair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Takes the first private key in PEM of any of the three forms; `EC PARAMETERS` before it are passed over.
    pub(crate) fn parse_pem(pem: &Secret) -> Result<Self, BadCertificate> {
        let bytes = pem.expose();
        if bytes.len() > SIZE_LIMIT {
            return Err(BadCertificate::KeyTooLarge { size: bytes.len(), limit: SIZE_LIMIT });
        }
        if bytes.windows(9).any(|window| window == b"ENCRYPTED") {
            return Err(BadCertificate::KeyEncrypted);
        }
        let mut seen = String::from("there is no PEM block");
        for block in Pem::iter_from_buffer(bytes) {
            let block = block.map_err(|error| BadCertificate::KeyNotPem(error.to_string()))?;
            let der = Secret::new(block.contents);
            match block.label.as_str() {
                "PRIVATE KEY" => return Self::from_pkcs8(der),
                "RSA PRIVATE KEY" => return Self::from_pkcs8(pkcs8(RSA, der.expose())),
                "EC PRIVATE KEY" => return Self::from_sec1(&der),
                other => seen = format!("it is a `{}`", other.chars().take(64).collect::<String>()),
            }
        }
        Err(BadCertificate::KeyNotPem(seen))
    }

    /// Takes PKCS #8 DER.
    pub(crate) fn from_pkcs8(pkcs8: Secret) -> Result<Self, BadCertificate> {
        let pair = KeyPair::from_pkcs8(pkcs8.expose())?;
        Ok(Self { pkcs8, pair })
    }

    /// SEC 1 need not name its curve: whichever fits.
    fn from_sec1(der: &Secret) -> Result<Self, BadCertificate> {
        Self::from_pkcs8(pkcs8(P256, der.expose()))
            .or_else(|_| Self::from_pkcs8(pkcs8(P384, der.expose())))
    }

    /// PKCS #8 DER.
    pub(crate) fn to_der(&self) -> Secret {
        self.pkcs8.clone()
    }

    /// PKCS #8 PEM.
    pub(crate) fn to_pem(&self) -> Secret {
        encode("PRIVATE KEY", self.pkcs8.expose()).into()
    }

    /// The public half, as it stands in a certificate.
    pub(crate) fn public(&self) -> &[u8] {
        match &self.pair {
            KeyPair::P256(pair) | KeyPair::P384(pair) => pair.public_key().as_ref(),
            KeyPair::Rsa(pair) => pair.public_key().as_ref(),
            KeyPair::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }
}

impl KeyPair {
    /// The first kind that takes it; when none does, what the kind it claims to be said of it.
    fn from_pkcs8(der: &[u8]) -> Result<Self, BadCertificate> {
        let rng = SystemRandom::new();
        let unusable =
            |error: ring::error::KeyRejected| BadCertificate::KeyUnusable(error.to_string());
        let holds =
            |algorithm: &[u8]| der.windows(algorithm.len()).take(32).any(|at| at == algorithm);
        if holds(P256) {
            return EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &rng)
                .map(Self::P256)
                .map_err(unusable);
        }
        if holds(P384) {
            return EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &rng)
                .map(Self::P384)
                .map_err(unusable);
        }
        if holds(RSA) {
            return RsaKeyPair::from_pkcs8(der).map(Self::Rsa).map_err(unusable);
        }
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Self::Ed25519).map_err(unusable)
    }
}
