//! Public keys of accounts, as JSON Web Keys: parsing, thumbprints, signatures (RFC 7517, 7638, 7518, 8037).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::problem::{Kind, Problem};

/// The algorithms that requests may be signed with.
pub(crate) const ALGORITHMS: [&str; 4] = ["ES256", "ES384", "RS256", "EdDSA"];

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(crate) enum Jwk {
    P256 { x: Vec<u8>, y: Vec<u8> },
    P384 { x: Vec<u8>, y: Vec<u8> },
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ed25519 { x: Vec<u8> },
}

impl Jwk {
    /// Parses a key, refusing weak ones and private parts.
    pub(crate) fn parse(value: &Value) -> Result<Self, Problem> {
        let refused = |detail: &str| Problem::new(Kind::BadPublicKey, detail);
        let members = value.as_object().ok_or_else(|| refused("the jwk is not an object"))?;
        if ["d", "p", "q", "dp", "dq", "qi", "k"].iter().any(|name| members.contains_key(*name)) {
            return Err(refused("the jwk holds a private key: change it, it is no longer secret"));
        }
        let key = match (text(members, "kty"), text(members, "crv")) {
            (Some("EC"), Some("P-256")) => point(members, 32).map(|(x, y)| Jwk::P256 { x, y }),
            (Some("EC"), Some("P-384")) => point(members, 48).map(|(x, y)| Jwk::P384 { x, y }),
            (Some("OKP"), Some("Ed25519")) => bytes(members, "x", 32).map(|x| Jwk::Ed25519 { x }),
            (Some("RSA"), _) => rsa(members),
            _ => return Err(refused("the key must be EC P-256 or P-384, OKP Ed25519, or RSA")),
        };
        key.ok_or_else(|| {
            refused("the key's members are wrong: unpadded base64url of the right length, RSA of 2048 to 4096 bits")
        })
    }

    /// The algorithm that this key signs with.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Jwk::P256 { .. } => "ES256",
            Jwk::P384 { .. } => "ES384",
            Jwk::Rsa { .. } => "RS256",
            Jwk::Ed25519 { .. } => "EdDSA",
        }
    }

    /// Whether this key made the signature.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verify = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match self {
            Jwk::P256 { .. } => verify(&ECDSA_P256_SHA256_FIXED, &self.raw()),
            Jwk::P384 { .. } => verify(&ECDSA_P384_SHA384_FIXED, &self.raw()),
            Jwk::Ed25519 { x } => verify(&ED25519, x),
            Jwk::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
        }
    }

    /// The key's fingerprint (RFC 7638), in base64url.
    pub(crate) fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.canonical().as_bytes()))
    }

    /// The required members alone, in lexical order and without spaces: what the thumbprint is taken of.
    fn canonical(&self) -> String {
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Jwk::P256 { x, y } => {
                format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, b64(x), b64(y))
            }
            Jwk::P384 { x, y } => {
                format!(r#"{{"crv":"P-384","kty":"EC","x":"{}","y":"{}"}}"#, b64(x), b64(y))
            }
            Jwk::Rsa { n, e } => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, b64(e), b64(n)),
            Jwk::Ed25519 { x } => format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, b64(x)),
        }
    }

    /// Whether a certificate or a CSR has this key.
    pub(crate) fn is(&self, other: &SubjectPublicKeyInfo<'_>) -> bool {
        match (self, other.parsed()) {
            (Jwk::Rsa { n, e }, Ok(PublicKey::RSA(key))) => {
                trimmed(key.modulus) == n && trimmed(key.exponent) == e
            }
            (Jwk::Rsa { .. }, _) => false,
            _ => other.subject_public_key.data.as_ref() == self.raw(),
        }
    }

    fn raw(&self) -> Vec<u8> {
        match self {
            Jwk::P256 { x, y } | Jwk::P384 { x, y } => [&[4], x.as_slice(), y].concat(),
            Jwk::Ed25519 { x } => x.clone(),
            Jwk::Rsa { .. } => Vec::new(),
        }
    }
}

impl TryFrom<Value> for Jwk {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        Jwk::parse(&value).map_err(|problem| problem.detail().to_owned())
    }
}

impl From<Jwk> for Value {
    fn from(key: Jwk) -> Value {
        serde_json::from_str(&key.canonical()).unwrap_or_default()
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

fn decoded(members: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text(members, name)?).ok()
}

fn bytes(members: &Map<String, Value>, name: &str, length: usize) -> Option<Vec<u8>> {
    decoded(members, name).filter(|bytes| bytes.len() == length)
}

fn point(members: &Map<String, Value>, length: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    Some((bytes(members, "x", length)?, bytes(members, "y", length)?))
}

fn rsa(members: &Map<String, Value>) -> Option<Jwk> {
    let (n, e) = (decoded(members, "n")?, decoded(members, "e")?);
    // A leading zero byte would give one key two thumbprints.
    let minimal = |number: &[u8]| number.first().is_some_and(|first| *first != 0);
    let strong = (256..=512).contains(&n.len()) && (3..=4).contains(&e.len());
    (minimal(&n) && minimal(&e) && strong).then_some(Jwk::Rsa { n, e })
}

/// A DER integer without the zero byte that keeps it positive.
fn trimmed(integer: &[u8]) -> &[u8] {
    integer.strip_prefix(&[0]).unwrap_or(integer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 7638, section 3.1.
    const N: &str = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";

    #[test]
    fn the_thumbprint_is_that_of_the_rfc() {
        let key = json!({ "kty": "RSA", "n": N, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29" });
        let key = Jwk::parse(&key).unwrap();
        assert_eq!(key.thumbprint(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        assert_eq!(Jwk::try_from(Value::from(key.clone())), Ok(key));
    }

    #[test]
    fn what_is_no_good_key_is_refused() {
        let short = URL_SAFE_NO_PAD.encode([0xff; 128]);
        let cases = [
            json!("text"),
            json!({}),
            json!({ "kty": "oct", "k": "AAAA" }),
            json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA" }),
            json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }),
            json!({ "kty": "RSA", "n": short, "e": "AQAB" }),
            json!({ "kty": "RSA", "n": N, "e": "Aw" }),
            json!({ "kty": "RSA", "n": format!("AA{N}"), "e": "AQAB" }),
            json!({ "kty": "RSA", "n": N, "e": "AQAB", "d": "AQAB" }),
            json!({ "kty": "RSA", "n": format!("{N}="), "e": "AQAB" }),
        ];
        for case in cases {
            assert!(Jwk::parse(&case).is_err(), "{case}");
        }
    }
}
