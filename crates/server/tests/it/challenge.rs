//! Challenge answers and proofs of reach, without a token, at any replica.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use holdfast_testkit::pace;
use http::{Request, StatusCode, header};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

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

/// Two thousand a second ask for what nobody has, under names of their own; meanwhile a CA asks for what was committed just now.
#[tokio::test(flavor = "multi_thread")]
async fn an_attack_does_not_starve_the_ca() {
    let kit = Arc::new(Kit::on_postgres().await);
    kit.add("shop.example.com").await;
    let mut attack = JoinSet::new();
    for n in 0..6_000_u32 {
        let kit = kit.clone();
        attack.spawn(async move {
            pace(Duration::from_micros(500) * n).await;
            let garbage = Request::get(format!("/.well-known/acme-challenge/garbage{n}"))
                .header(header::HOST, format!("n{n}.example.org"))
                .body(Body::empty());
            let answer = kit.router.clone().oneshot(garbage.unwrap()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        });
    }
    // It is under way.
    for _ in 0..1_000 {
        attack.join_next().await.unwrap().unwrap();
    }
    prepared(&kit, "real-1", "real-1.thumbprint").await;
    for _ in 0..50 {
        let asked = Request::get("/.well-known/acme-challenge/real-1")
            .header(header::HOST, "shop.example.com")
            .body(Body::empty());
        let answer = kit.send(asked.unwrap()).await;
        assert_eq!((answer.status, answer.text().as_str()), (StatusCode::OK, "real-1.thumbprint"));
    }
    assert!(!attack.is_empty());
    attack.join_all().await;
}
