//! A rolling restart under load: a client that follows readiness sees no failed request.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::pace;
use http::{Method, Request, StatusCode};
use serde_json::json;

use super::group::{BREATH, Group, TOKEN};

/// Asks whoever said it was ready, and looks again before each request, as a balancer does.
async fn load(ports: Vec<u16>, on: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Vec<String> {
    let client = Client::new(ClientConfig::default()).unwrap();
    let mut failed = Vec::new();
    let mut turn = 0_usize;
    while on.load(Ordering::SeqCst) {
        turn += 1;
        let port = ports[turn % ports.len()];
        let ready = Request::get(format!("http://127.0.0.1:{port}/health/ready"));
        let ready = client.send(ready.body(Bytes::new()).unwrap()).await;
        if !ready.is_ok_and(|reply| reply.status() == StatusCode::OK) {
            pace(BREATH).await;
            continue;
        }
        let (method, path, body) = match turn % 2 {
            0 => (Method::GET, "/v1/domains?limit=1", String::new()),
            _ => (
                Method::POST,
                "/v1/domains",
                json!({ "name": format!("n{turn}.example.com") }).to_string(),
            ),
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("http://127.0.0.1:{port}{path}"))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Bytes::from(body))
            .unwrap();
        match client.send(request).await {
            Ok(reply) if reply.status().is_success() => {
                done.fetch_add(1, Ordering::SeqCst);
            }
            other => failed.push(format!("{method} {path} at {port}: {other:?}")),
        }
        pace(BREATH).await;
    }
    failed
}

#[tokio::test]
async fn nobody_notices_a_rolling_restart() {
    let mut group = Group::start(3, 6, "").await;
    let ports: Vec<_> = group.members.iter().map(|one| one.port).collect();
    let (on, done) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let loading = tokio::spawn(load(ports, on.clone(), done.clone()));
    for at in 0..3 {
        let before = done.load(Ordering::SeqCst);
        group.end(at).await;
        group.begin(at).await;
        holdfast_testkit::eventually(crate::kit::SOON, "more requests", async || {
            if done.load(Ordering::SeqCst) > before + 5 { Ok(()) } else { Err("too few") }
        })
        .await;
    }
    on.store(false, Ordering::SeqCst);
    let failed = loading.await.unwrap();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), done.load(Ordering::SeqCst));
}
