//! Requests signed by hand, so that every part of them can be wrong.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::world::{World, header};

pub(crate) fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An answer of the CA.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The last part of the problem's type.
    pub(crate) fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default().rsplit(':').next().unwrap_or_default()
    }
}

/// A P-256 key that signs requests.
pub(crate) struct Signer(EcdsaKeyPair);

impl Signer {
    pub(crate) fn generate() -> Self {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Self::from_pkcs8(der.as_ref())
    }

    pub(crate) fn from_pkcs8(der: &[u8]) -> Self {
        let random = SystemRandom::new();
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).unwrap())
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.0.public_key().as_ref();
        json!({ "kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) })
    }

    /// A flattened JWS.
    pub(crate) fn sign(&self, protected: &Value, payload: &str) -> Value {
        let (protected, payload) = (b64(protected.to_string().as_bytes()), b64(payload.as_bytes()));
        let message = format!("{protected}.{payload}");
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        json!({ "protected": protected, "payload": payload, "signature": b64(signature.as_ref()) })
    }

    /// A protected header that is right.
    pub(crate) async fn protected(&self, world: &World, path: &str, key: (&str, Value)) -> Value {
        let nonce = nonce(world).await;
        json!({ "alg": "ES256", "nonce": nonce, "url": world.net.url(path), key.0: key.1 })
    }

    /// A request signed with the key that it brings along.
    pub(crate) async fn post_as_key(&self, world: &World, path: &str, payload: &Value) -> Answer {
        let protected = self.protected(world, path, ("jwk", self.jwk())).await;
        post(world, path, &self.sign(&protected, &payload.to_string())).await
    }

    /// A request signed as an account.
    pub(crate) async fn post(
        &self,
        world: &World,
        account: &str,
        path: &str,
        payload: &str,
    ) -> Answer {
        let protected = self.protected(world, path, ("kid", json!(account))).await;
        post(world, path, &self.sign(&protected, payload)).await
    }

    /// A new account's URL.
    pub(crate) async fn register(&self, world: &World) -> String {
        let payload = json!({ "termsOfServiceAgreed": true });
        let answer = self.post_as_key(world, "/acme/new-account", &payload).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        header(&answer.headers, "location").to_owned()
    }
}

/// A fresh nonce.
pub(crate) async fn nonce(world: &World) -> String {
    let answer = world.send(Method::HEAD, "/acme/new-nonce", "").await;
    header(answer.headers(), "replay-nonce").to_owned()
}

/// Sends a body as a signed request.
pub(crate) async fn post(world: &World, path: &str, body: &Value) -> Answer {
    post_typed(world, path, body.to_string(), "application/jose+json").await
}

/// Sends any body with any content type.
pub(crate) async fn post_typed(
    world: &World,
    path: &str,
    body: String,
    content_type: &str,
) -> Answer {
    let request = Request::builder()
        .method(Method::POST)
        .uri(world.net.url(path))
        .header(CONTENT_TYPE, content_type)
        .body(Bytes::from(body))
        .unwrap();
    let answer = world.http.send(request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}
