//! Sealing keys rotated while the server runs.

use http::Method;
use serde_json::json;

use crate::bundle::{import, imported};
use crate::kit::Kit;

#[tokio::test]
async fn everything_is_sealed_anew_and_still_opens() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    let pem = import("shop.example.com");
    imported(&kit, "shop.example.com", &pem).await;
    let before = kit.get("/v1/domains/shop.example.com/bundle").await;
    let rotation = kit.call(Method::POST, "/v1/keys:rotate").await.expect(200);
    assert_eq!(rotation["complete"], json!(true));
    assert!(rotation["resealed"].as_u64().unwrap() >= 1, "{rotation}");
    let after = kit.get("/v1/domains/shop.example.com/bundle").await;
    assert_eq!((before.status, before.body), (after.status, after.body));
}
