//! Keys in requests made by hand: rollover, other algorithms, external account binding.

use ring::hmac;
use serde_json::{Value, json};

use crate::signed::{Signer, b64, nonce, post};
use crate::world::{World, header};

const NEW_ACCOUNT: &str = "/acme/new-account";
const NEW_ORDER: &str = "/acme/new-order";

#[tokio::test]
async fn key_changes_that_are_wrong_are_refused() {
    let world = World::start().await;
    let (signer, new, other) = (Signer::generate(), Signer::generate(), Signer::generate());
    let account = signer.register(&world).await;
    let other_account = other.register(&world).await;
    let path = "/acme/key-change";
    let url = world.net.url(path);
    let change = |account: &str, old: &Signer| {
        json!({ "account": account, "oldKey": old.jwk() }).to_string()
    };
    let inner = |signer: &Signer, url: &str, payload: &str| {
        signer.sign(&json!({ "alg": "ES256", "jwk": signer.jwk(), "url": url }), payload)
    };
    let mut forged = inner(&new, &url, &change(&account, &signer));
    forged["signature"] = json!(b64(&[0; 64]));
    let with_nonce = new.sign(
        &json!({ "alg": "ES256", "jwk": new.jwk(), "url": url, "nonce": nonce(&world).await }),
        &change(&account, &signer),
    );
    let cases = [
        ("another account", inner(&new, &url, &change(&other_account, &signer)), 400),
        ("another old key", inner(&new, &url, &change(&account, &new)), 400),
        ("another url", inner(&new, &world.net.url("/other"), &change(&account, &signer)), 400),
        ("a forged signature", forged, 400),
        ("a nonce inside", with_nonce, 400),
        ("a key in use", inner(&other, &url, &change(&account, &signer)), 409),
    ];
    for (what, inner, status) in cases {
        let answer = signer.post(&world, &account, path, &inner.to_string()).await;
        assert_eq!(
            (answer.status, answer.kind()),
            (status, "malformed"),
            "{what}: {}",
            answer.body
        );
        if status == 409 {
            assert_eq!(header(&answer.headers, "location"), other_account);
        }
    }
    let good = inner(&new, &url, &change(&account, &signer)).to_string();
    assert_eq!(signer.post(&world, &account, path, &good).await.status, 200);
    assert_eq!(new.post(&world, &account, NEW_ORDER, &order()).await.status, 201);
}

#[tokio::test]
async fn other_signature_algorithms_work() {
    let world = World::start().await;
    let random = ring::rand::SystemRandom::new();
    let pkcs8 = ring::signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let key = ring::signature::Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let public = ring::signature::KeyPair::public_key(&key).as_ref().to_vec();
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(&public) });
    let protected = json!({ "alg": "EdDSA", "jwk": jwk, "nonce": nonce(&world).await, "url": world.net.url(NEW_ACCOUNT) });
    let (protected, payload) =
        (b64(protected.to_string().as_bytes()), b64(r#"{"termsOfServiceAgreed":true}"#.as_bytes()));
    let signature = key.sign(format!("{protected}.{payload}").as_bytes());
    let body =
        json!({ "protected": protected, "payload": payload, "signature": b64(signature.as_ref()) });
    assert_eq!(post(&world, NEW_ACCOUNT, &body).await.status, 201);
}

#[tokio::test]
async fn a_binding_must_be_for_this_account_and_url() {
    let world = World::start_with(|config| {
        let known =
            holdfast_devnet::ExternalAccount { key_id: "k".to_owned(), hmac_key: b64(&[7; 32]) };
        config.external_accounts = vec![known];
    })
    .await;
    let bind = |jwk: &Value, url: &str, alg: &str| {
        let protected = b64(json!({ "alg": alg, "kid": "k", "url": url }).to_string().as_bytes());
        let payload = b64(jwk.to_string().as_bytes());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let tag = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        json!({ "protected": protected, "payload": payload, "signature": b64(tag.as_ref()) })
    };
    let signer = Signer::generate();
    let url = world.net.url(NEW_ACCOUNT);
    let cases = [
        (bind(&Signer::generate().jwk(), &url, "HS256"), 400),
        (bind(&signer.jwk(), "https://elsewhere.test", "HS256"), 400),
        (bind(&signer.jwk(), &url, "HS512"), 403),
        (bind(&signer.jwk(), &url, "HS256"), 201),
    ];
    for (binding, status) in cases {
        let payload = json!({ "termsOfServiceAgreed": true, "externalAccountBinding": binding });
        let answer = signer.post_as_key(&world, NEW_ACCOUNT, &payload).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

fn order() -> String {
    json!({ "identifiers": [{ "type": "dns", "value": "a.test" }] }).to_string()
}
