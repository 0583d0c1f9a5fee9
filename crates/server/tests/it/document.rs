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
    let edge = kit.json(Method::PUT, "/v1/edges/edge-1", &json!({})).await;
    schemas.check("put", "/v1/edges/{edge}", &edge);
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
        ("/v1/edges/edge-1", "/v1/edges/{edge}"),
        ("/v1/edges/edge-1/changes", "/v1/edges/{edge}/changes"),
        ("/v1/edges/edge-1/desired", "/v1/edges/{edge}/desired"),
        ("/v1/edges/edge-1/strangers", "/v1/edges/{edge}/strangers"),
        ("/v1/edges/edge-1/refusals", "/v1/edges/{edge}/refusals"),
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

/// A whole body for each operation that takes one: everything that can be said.
fn whole_bodies() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let note = json!({"code": "c", "detail": "d"});
    let pem = json!({"chain": "x", "key": "y"});
    let id = "00000000-0000-0000-0000-000000000001";
    let domain = json!({
        "name": "shop.example.com", "tenant": "t", "resource": "r", "target": "edge.example.net",
        "edge_group": "default", "labels": {"a": "b"}, "orchestration_id": "o", "certificate": pem,
    });
    let report = json!({
        "up_to": "1.0", "error": note, "mode": "apply",
        "observations": [{"domain_id": id, "sha256": null, "error": note}],
        "strangers": [{"file": "f", "names": ["a.test"], "sha256": null, "shadows": false}],
        "adopted": [{"file": "f", "name": "a.example.com", "error": null}],
    });
    let agent = json!({"version": "1", "target": "haproxy", "mode": "apply"});
    let patch = json!({"tenant": "t", "resource": "r2", "edge_group": "g", "labels": {"a": "b"}});
    vec![
        ("post", "/v1/domains", "/v1/domains", domain.clone()),
        (
            "post",
            "/v1/domains:batch",
            "/v1/domains:batch",
            json!({"items": [domain], "dry_run": true}),
        ),
        ("patch", "/v1/domains/{domain}", "/v1/domains/none.example.com", patch),
        (
            "put",
            "/v1/claims/{resource}",
            "/v1/claims/r",
            json!({"name": "a.example.com", "orchestration_id": "o"}),
        ),
        (
            "put",
            "/v1/edges/{edge}",
            "/v1/edges/edge-1",
            json!({"group": "default", "agent": agent}),
        ),
        ("post", "/v1/edges/{edge}/report", "/v1/edges/edge-1/report", report),
        (
            "post",
            "/v1/tokens",
            "/v1/tokens",
            json!({"scope": "edge", "name": "n", "edge": "e", "group": "g"}),
        ),
    ]
}

/// Without a field the document calls required, or with one it does not know, the server refuses the body; and only then.
#[tokio::test]
async fn what_is_taken_is_what_is_documented() {
    let kit = Kit::new().await;
    let schemas = Schemas::of(document(&kit).await);
    for (method, template, path, whole) in whole_bodies() {
        let documented = schemas.takes(method, template, &whole);
        assert_eq!(documented, Ok(()), "{method} {template}");
        let mut bodies = vec![json!([]), json!("text"), json!({"no-such-field": 1})];
        for name in whole.as_object().unwrap().keys() {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(name);
            bodies.push(less);
            // What is in a list is looked at by itself, and in a batch refused by itself.
            if !whole[name].is_array() {
                let mut listed = whole.clone();
                listed[name] = json!(["x", "y"]);
                bodies.push(listed);
            }
        }
        let mut more = whole.clone();
        more["no-such-field"] = json!(1);
        bodies.extend([more, whole]);
        for body in bodies {
            let answer = kit.json(method.to_uppercase().parse().unwrap(), path, &body).await;
            let shape = ["invalid-body", "unknown-field", "malformed-json"];
            let refused = !answer.status.is_success()
                && shape.contains(&answer.json()["code"].as_str().unwrap());
            let documented = schemas.takes(method, template, &body);
            assert_eq!(
                documented.is_err(),
                refused,
                "{method} {path} {body}: {documented:?} {}",
                answer.text()
            );
        }
    }
}

#[tokio::test]
async fn every_body_is_needed_and_closed() {
    let kit = Kit::new().await;
    let document = document(&kit).await;
    let schemas = Schemas::of(document.clone());
    let all = schemas.with_bodies();
    assert!(all.len() >= whole_bodies().len());
    for (method, path) in all {
        let body = &document["paths"][&path][&method]["requestBody"];
        assert_eq!(body["required"], json!(true), "{method} {path}");
        let odd = json!({"no-such-field": 1});
        assert!(schemas.takes(&method, &path, &odd).is_err(), "{method} {path} takes anything");
    }
}
