//! Alerts over HTTP; what decides them is tested where it is decided.

use std::time::Duration;

use holdfast_model::{Note, Outcome};
use holdfast_store::{EdgeReport, NewEdge};
use serde_json::json;

use crate::kit::Kit;
use crate::work::account;

#[tokio::test]
async fn a_quiet_installation_has_none() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let alerts = kit.get("/v1/alerts").await.expect(200);
    assert_eq!(alerts, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_pause_an_edge_in_trouble_and_many_failures_are_told() {
    let kit = Kit::new().await;
    for n in 0..10 {
        kit.add(&format!("n{n}.example.com")).await;
        kit.work(Outcome::hopeless("test", "as the test says"), Default::default()).await;
    }
    let account = account(&kit).await;
    let until = kit.store.ping().await.unwrap().plus(Duration::from_secs(600));
    kit.store.pause_account(account.id, until, "slow down").await.unwrap();
    let new = NewEdge { name: "fra-1".into(), group: "default".into() };
    let edge = kit.store.register_edge(&new).await.unwrap();
    let error = Some(Note::new("edge-disk", "the disk is full"));
    kit.store.observe(edge.id, &EdgeReport { error, ..EdgeReport::default() }).await.unwrap();
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let codes: Vec<_> =
        alerts["items"].as_array().unwrap().iter().map(|alert| &alert["code"]).collect();
    assert_eq!(
        codes,
        [&json!("many-failures"), &json!("edge-error"), &json!("ca-paused")],
        "{alerts}"
    );
    let edges = kit.get("/v1/edges").await.expect(200);
    let edge = &edges["items"][0];
    assert_eq!((&edge["name"], &edge["live"]), (&json!("fra-1"), &json!(true)));
    assert_eq!(edge["last_error"], json!({"code": "edge-disk", "detail": "the disk is full"}));
}
