//! Signed requests: a flattened JWS with a strict protected header (RFC 7515, RFC 8555 section 6.2). Pure: who the
//! signer is, whether its nonce is good and where it was sent are for others to judge.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::Deserialize;
use serde_json::Value;

use super::jwk::{ALGORITHMS, Jwk};
use super::problem::{Kind, Problem};

/// A parsed request, its signature not yet checked.
#[derive(Debug)]
pub(crate) struct Jws {
    pub(crate) algorithm: String,
    pub(crate) signer: Signer,
    pub(crate) nonce: Option<String>,
    pub(crate) url: String,
    pub(crate) payload: Vec<u8>,
    signed: Vec<u8>,
    signature: Vec<u8>,
}

/// Who says to have signed: a key itself, or the name of one.
#[derive(Debug)]
pub(crate) enum Signer {
    Jwk(Jwk),
    Kid(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flattened {
    protected: String,
    payload: String,
    signature: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    jwk: Option<Value>,
    kid: Option<String>,
    nonce: Option<String>,
    url: Option<String>,
    crit: Option<Value>,
}

impl Jws {
    /// Parses a request's body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let flattened: Flattened = serde_json::from_slice(body).map_err(|error| {
            Problem::malformed(format!(
                "the body is no flattened JWS with protected, payload and signature: {error}"
            ))
        })?;
        let header = decode("protected header", &flattened.protected)?;
        let header: Header = serde_json::from_slice(&header).map_err(|error| {
            Problem::malformed(format!("the protected header is wrong: {error}"))
        })?;
        if header.crit.is_some() {
            return Err(Problem::malformed(
                "the protected header has crit, and nothing critical is known here",
            ));
        }
        Ok(Self {
            algorithm: header.alg,
            signer: signer(header.jwk, header.kid)?,
            nonce: header.nonce,
            url: header.url.ok_or_else(|| Problem::malformed("the protected header has no url"))?,
            payload: decode("payload", &flattened.payload)?,
            signature: decode("signature", &flattened.signature)?,
            signed: format!("{}.{}", flattened.protected, flattened.payload).into_bytes(),
        })
    }

    /// Checks the signature, and that its algorithm is the key's own.
    pub(crate) fn verify(&self, key: &Jwk) -> Result<(), Problem> {
        if !ALGORITHMS.contains(&self.algorithm.as_str()) || self.algorithm != key.algorithm() {
            let detail = format!("a key of this type does not sign with {:?}", self.algorithm);
            let problem = Problem::new(Kind::BadSignatureAlgorithm, detail);
            return Err(problem.with_algorithms(&ALGORITHMS));
        }
        match key.verifies(&self.signed, &self.signature) {
            true => Ok(()),
            false => Err(Problem::malformed("the signature does not match key and content")),
        }
    }

    /// Checks a message authentication code with a shared key (external account binding).
    pub(crate) fn verify_hs256(&self, key: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        self.algorithm == "HS256" && hmac::verify(&key, &self.signed, &self.signature).is_ok()
    }
}

fn signer(jwk: Option<Value>, kid: Option<String>) -> Result<Signer, Problem> {
    match (jwk, kid) {
        (Some(jwk), None) => Jwk::parse(&jwk).map(Signer::Jwk),
        (None, Some(kid)) => Ok(Signer::Kid(kid)),
        (Some(_), Some(_)) => Err(Problem::malformed("the protected header has both jwk and kid")),
        (None, None) => Err(Problem::malformed("the protected header has neither jwk nor kid")),
    }
}

fn decode(what: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| Problem::malformed(format!("the {what} is not unpadded base64url")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..512)) {
            let _ = Jws::parse(&body);
        }

        #[test]
        fn no_header_makes_it_panic(header in "\\PC{0,200}", payload in "[A-Za-z0-9_=-]{0,80}") {
            let protected = URL_SAFE_NO_PAD.encode(header);
            let body = serde_json::json!({ "protected": protected, "payload": payload, "signature": "AA" });
            let _ = Jws::parse(body.to_string().as_bytes());
        }

        #[test]
        fn no_key_makes_it_panic(members in prop::collection::hash_map("kty|crv|x|y|n|e", "EC|RSA|OKP|P-256|P-384|Ed25519|[A-Za-z0-9_-]{0,700}", 0..6)) {
            if let Ok(key) = Jwk::parse(&serde_json::json!(members)) {
                let _ = (key.thumbprint(), key.verifies(b"message", b"signature"));
            }
        }
    }
}
