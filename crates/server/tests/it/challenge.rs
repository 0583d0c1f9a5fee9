//! Challenge answers and proofs of reach, without a token, at any replica.

use axum::body::Body;
use http::{Request, StatusCode, header};

use crate::kit::{Answer, Kit};
use crate::work::prepared;

async fn ask(kit: &Kit, path: &str) -> Answer {
    kit.send(Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn an_open_order_is_answered_as_plain_text() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    prepared(&kit, "tok_en-1", "tok_en-1.thumbprint").await;
    let answer = ask(&kit, "/.well-known/acme-challenge/tok_en-1").await;
    assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, "tok_en-1.thumbprint"));
    assert_eq!(answer.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
}

#[tokio::test]
async fn what_no_ca_sent_is_not_found() {
    let kit = Kit::new().await;
    let long = "a".repeat(5_000);
    for token in ["none", "a%2Fb", "..%2F..%2Fetc%2Fpasswd", "%00", "%F0%9F%A6%80", &long] {
        let answer = ask(&kit, &format!("/.well-known/acme-challenge/{token}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{token}");
    }
}

#[tokio::test]
async fn only_this_installation_answers_a_nonce_so() {
    let (one, other) = (Kit::new().await, Kit::new().await);
    let path = "/.well-known/holdfast/0123456789abcdef";
    let answer = ask(&one, path).await;
    let secret = one.store.cluster_secret().await.unwrap();
    assert_eq!(answer.text(), holdfast_store::proof_answer(&secret, "0123456789abcdef"));
    assert_ne!(answer.text(), ask(&other, path).await.text());
    for nonce in ["short", "0123456789abcdef%0a", &"a".repeat(65)] {
        ask(&one, &format!("/.well-known/holdfast/{nonce}")).await.problem(404, "not-found");
    }
}
