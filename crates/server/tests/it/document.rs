//! The OpenAPI document: open, complete, and true of what is answered.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::kit::Kit;
use crate::schema::Schemas;
use crate::scope::operations;

async fn document(kit: &Kit) -> Value {
    let request = Request::get("/v1/openapi.json").body(Body::empty()).unwrap();
    kit.send(request).await.expect(200)
}

#[tokio::test]
async fn operations_are_stable() {
    let kit = Kit::new().await;
    let document = document(&kit).await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut table = String::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let open = operation["security"] == json!([{}]);
            let id = operation["operationId"].as_str().unwrap();
            let statuses: Vec<_> =
                operation["responses"].as_object().unwrap().keys().cloned().collect();
            let door = if open { "open" } else { "token" };
            table.push_str(&format!(
                "{id:18} {method:6} {path:40} {door:5} {}\n",
                statuses.join(" ")
            ));
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn every_operation_documented_is_routed_and_ids_are_unique() {
    let kit = Kit::new().await;
    let ids: BTreeSet<_> = operations().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids.len(), operations().len());
    for (id, method, path) in operations() {
        if id == "streamEvents" {
            continue;
        }
        let answer = kit.call(method, &path).await;
        assert_ne!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{id}");
        assert!(!answer.text().contains("There is nothing at"), "{id}: {}", answer.text());
    }
}

#[tokio::test]
async fn what_is_answered_is_what_is_documented() {
    let kit = Kit::new().await;
    let schemas = Schemas::of(document(&kit).await);
    let body = json!({"name": "shop.example.com", "labels": {"a": "b"}});
    let answer = kit.json(Method::POST, "/v1/domains", &body).await;
    schemas.check("post", "/v1/domains", &answer);
    schemas.check("post", "/v1/domains", &kit.json(Method::POST, "/v1/domains", &body).await);
    let batch = json!({"items": [{"name": "a.example.com"}, {"name": "com"}]});
    schemas.check(
        "post",
        "/v1/domains:batch",
        &kit.json(Method::POST, "/v1/domains:batch", &batch).await,
    );
    let claim = json!({"orchestration_id": "o"});
    schemas.check(
        "put",
        "/v1/claims/{resource}",
        &kit.json(Method::PUT, "/v1/claims/r", &claim).await,
    );
    let token = json!({"scope": "read"});
    schemas.check("post", "/v1/tokens", &kit.json(Method::POST, "/v1/tokens", &token).await);
    for (path, documented) in [
        ("/v1/domains", "/v1/domains"),
        ("/v1/domains/shop.example.com", "/v1/domains/{domain}"),
        ("/v1/domains/none.example.com", "/v1/domains/{domain}"),
        ("/v1/domains/shop.example.com/history", "/v1/domains/{domain}/history"),
        ("/v1/domains/shop.example.com/explain", "/v1/domains/{domain}/explain"),
        ("/v1/domains/shop.example.com/bundle", "/v1/domains/{domain}/bundle"),
        ("/v1/claims/r", "/v1/claims/{resource}"),
        ("/v1/edges", "/v1/edges"),
        ("/v1/alerts", "/v1/alerts"),
        ("/v1/tokens", "/v1/tokens"),
        ("/health", "/health"),
        ("/health/ready", "/health/ready"),
    ] {
        schemas.check("get", documented, &kit.get(path).await);
    }
    let wrong = json!({"name": 7});
    schemas.check("post", "/v1/domains", &kit.json(Method::POST, "/v1/domains", &wrong).await);
}
