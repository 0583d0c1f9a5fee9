//! Who may do what: every operation of the document with every scope, and without a token.

use axum::body::Body;
use holdfast_server::document;
use http::{Method, Request, header};
use serde_json::Value;

use crate::kit::{Kit, asked};

/// Every operation: its id, method and a path that names something that is there.
pub(crate) fn operations() -> Vec<(String, Method, String)> {
    let document = serde_json::to_value(document()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            operations.push((id, method.to_uppercase().parse().unwrap(), filled(path)));
        }
    }
    operations
}

fn filled(path: &str) -> String {
    path.replace("{domain}", "shop.example.com")
        .replace("{resource}", "r")
        .replace("{id}", "00000000-0000-0000-0000-000000000000")
        .replace("{edge}", "edge-1")
        .replace("{sha256}", "00")
        .replace("{name}", "holdfast")
        .replace("{token}", "none")
        .replace("{nonce}", "0123456789abcdef")
}

async fn seen(kit: &Kit, method: &Method, path: &str, token: Option<&str>) -> String {
    let request = match token {
        Some(token) => asked(method.clone(), path, token),
        None => Request::builder().method(method).uri(path),
    };
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from("{}"));
    let router = kit.router.clone();
    let response = tower::ServiceExt::oneshot(router, request.unwrap()).await.unwrap();
    match response.status().as_u16() {
        401 => "needs a token".to_owned(),
        403 => "refused".to_owned(),
        status if status < 500 => "let in".to_owned(),
        status => format!("{status}"),
    }
}

#[tokio::test]
async fn each_scope_may_do_what_it_is_for() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    kit.add("shop.example.com").await;
    let mut table = String::new();
    for (id, method, path) in operations() {
        // Removal last: it changes what the others find.
        let scopes = [None, Some(&kit.read), Some(&kit.edge), Some(&kit.admin)];
        table.push_str(&format!("{id:20}"));
        for token in scopes {
            table.push_str(&format!(
                "{:15}",
                seen(&kit, &method, &path, token.map(String::as_str)).await
            ));
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    insta::assert_snapshot!(format!(
        "{:20}{:15}{:15}{:15}{}\n{table}",
        "", "no token", "read", "edge", "admin"
    ));
}

#[tokio::test]
async fn readers_see_domains_without_orchestration_ids() {
    let kit = Kit::new().await;
    let id = kit.add("shop.example.com").await["orchestration_id"].as_str().unwrap().to_owned();
    for path in
        ["/v1/domains", "/v1/domains/shop.example.com", "/v1/domains/shop.example.com/history"]
    {
        let request = asked(Method::GET, path, &kit.read).body(Body::empty()).unwrap();
        let answer = kit.send(request).await;
        answer.expect(200);
        assert!(!answer.text().contains(&id), "{path}");
    }
    let request = asked(Method::GET, "/v1/domains/shop.example.com", &kit.read).body(Body::empty());
    assert_eq!(kit.send(request.unwrap()).await.json()["orchestration_id"], Value::Null);
}
