//! An ACME account that an operator brings along.

use http::Method;
use rcgen::KeyPair;
use serde_json::json;

use crate::kit::{DIRECTORY, Kit};

async fn brought_along(kit: Kit) {
    let path = "/v1/acme/account";
    let key = KeyPair::generate().unwrap().serialize_pem();
    let refused = kit.json(Method::POST, path, &json!({"key": "none"})).await;
    refused.problem(422, "invalid-key");
    let kept = kit.json(Method::POST, path, &json!({"key": key})).await.expect(201);
    assert_eq!(kept, json!({"directory": DIRECTORY, "url": null}));
    let again = kit.json(Method::POST, path, &json!({"key": key})).await.expect(200);
    assert_eq!(again, kept);
    let other = KeyPair::generate().unwrap().serialize_pem();
    let refused = kit.json(Method::POST, path, &json!({"key": other})).await;
    let refused = refused.problem(409, "account-exists");
    assert!(refused["detail"].as_str().unwrap().contains(DIRECTORY), "{refused}");
    let account = kit.store.account(DIRECTORY, crate::kit::LIMITS).await.unwrap().unwrap();
    assert!(account.url.is_none(), "the CA was not asked");
}

#[tokio::test]
async fn an_account_is_brought_along_once() {
    brought_along(Kit::new().await).await;
}

#[tokio::test]
async fn an_account_is_brought_along_once_on_postgres() {
    brought_along(Kit::on_postgres().await).await;
}
