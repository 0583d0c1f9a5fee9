//! Tokens: shown once, revoked at once.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::kit::{Kit, asked};

async fn create(kit: &Kit, body: Value) -> Value {
    kit.json(Method::POST, "/v1/tokens", &body).await.expect(201)
}

async fn may_list(kit: &Kit, token: &str) -> StatusCode {
    let request = asked(Method::GET, "/v1/domains", token).body(Body::empty()).unwrap();
    kit.send(request).await.status
}

#[tokio::test]
async fn a_token_works_from_its_making_to_its_revocation() {
    let kit = Kit::new().await;
    let made = create(&kit, json!({"name": "ci", "scope": "read"})).await;
    let text = made["token"].as_str().unwrap();
    assert!(text.starts_with("hf_") && text.len() == 46, "{text}");
    assert_eq!(may_list(&kit, text).await, StatusCode::OK);
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(kit.call(Method::DELETE, &path).await.status, StatusCode::NO_CONTENT);
    }
    assert_eq!(may_list(&kit, text).await, StatusCode::UNAUTHORIZED);
    let listed = kit.get("/v1/tokens").await;
    let items = listed.expect(200)["items"].as_array().unwrap().clone();
    let kept = items.iter().find(|item| item["id"] == made["id"]).unwrap();
    assert!(kept["revoked_at"].is_string() && kept.get("token").is_none());
    assert!(!listed.text().contains(text));
}

#[tokio::test]
async fn an_edge_token_names_its_edge_and_group() {
    let kit = Kit::new().await;
    let made = create(&kit, json!({"scope": "edge", "edge": "fra-1", "group": "eu"})).await;
    assert_eq!(
        (&made["name"], &made["edge"], &made["group"]),
        (&json!("fra-1"), &json!("fra-1"), &json!("eu"))
    );
    let made = create(&kit, json!({"scope": "edge", "edge": "fra-2"})).await;
    assert_eq!(made["group"], "default");
}

#[tokio::test]
async fn the_last_admin_token_stays() {
    let kit = Kit::new().await;
    let items = kit.get("/v1/tokens").await.expect(200)["items"].as_array().unwrap().clone();
    let last = items.iter().find(|item| item["scope"] == "admin").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/tokens/{last}");
    kit.call(Method::DELETE, &path).await.problem(409, "last-admin-token");
    create(&kit, json!({"scope": "admin"})).await;
    assert_eq!(kit.call(Method::DELETE, &path).await.status, StatusCode::NO_CONTENT);
}
