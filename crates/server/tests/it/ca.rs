//! CAs over HTTP: what may be ordered, and pauses by hand.

use std::time::Duration;

use axum::body::Body;
use holdfast_store::{EventBody, EventCursor};
use holdfast_testkit::run_sql;
use http::{Method, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::kit::{Kit, asked};
use crate::work::{account, queued};

/// The host of the kit's directory.
const CA: &str = "/v1/cas/ca.example";

async fn post(kit: &Kit, path: &str, body: &Value) -> (u16, Value) {
    let request = asked(Method::POST, &format!("{CA}/{path}"), &kit.admin)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    let response = kit.router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_ca_is_shown_before_there_is_an_account() {
    let kit = Kit::new().await;
    let list = kit.get("/v1/cas").await.expect(200);
    let ca = &list["items"][0];
    assert_eq!((&ca["name"], &ca["active"]), (&json!("ca.example"), &json!(true)));
    assert_eq!((&ca["account"], &ca["healthy"]), (&Value::Null, &json!(true)));
    assert_eq!(ca["limits"][0]["left"], ca["limits"][0]["of"]);
    let (status, problem) = post(&kit, "pause", &json!({})).await;
    assert_eq!(status, 404, "{problem}");
    kit.get("/v1/cas/other.test").await.expect(404);
}

#[tokio::test]
async fn a_pause_by_hand_outlasts_what_the_ca_says_and_is_lifted_by_hand() {
    let kit = Kit::new().await;
    let id = account(&kit).await.id;
    let (status, paused) = post(&kit, "pause", &json!({})).await;
    assert_eq!(status, 200, "{paused}");
    // What the CA says, and that it is over, leaves it alone.
    kit.store.pause_account(id, Duration::ZERO, "acme-rate-limited: slow").await.unwrap();
    let ca = kit.get(CA).await.expect(200);
    let pause = &ca["pauses"][0];
    assert_eq!((&pause["cause"], &pause["by"]), (&json!("by-hand"), &json!("admin-token")));
    assert_eq!((&pause["scope"], &pause["until"]), (&json!("account"), &Value::Null));
    assert_eq!((&ca["healthy"], &ca["paused_until"]), (&json!(true), &Value::Null));
    let alert = &kit.get("/v1/alerts").await.expect(200)["items"][0];
    assert_eq!(alert["code"], "ca-paused");
    assert!(alert["detail"].as_str().unwrap().contains("admin-token paused"), "{alert}");
    assert!(alert["fix"].as_str().unwrap().contains("holdfast ca resume ca.example"), "{alert}");
    for _ in 0..2 {
        let (status, resumed) = post(&kit, "resume", &json!({})).await;
        assert_eq!((status, &resumed["pauses"]), (200, &json!([])), "{resumed}");
        assert_eq!(resumed["resumed"]["by"], "admin-token", "{resumed}");
    }
    let events = kit.store.events_after(EventCursor::default(), 100).await.unwrap();
    let kinds = events.iter().filter_map(|event| match &event.body {
        EventBody::Notice { kind, .. } => Some((kind.as_str(), event.actor.name.as_str())),
        EventBody::Transition { .. } => None,
    });
    let kinds: Vec<_> = kinds.filter(|(kind, _)| kind.starts_with("ca-")).collect();
    assert_eq!(kinds, [("ca-paused", "admin-token"), ("ca-resumed", "admin-token")]);
}

#[tokio::test]
async fn a_pause_may_have_an_end_and_both_are_listed() {
    let kit = Kit::new().await;
    let id = account(&kit).await.id;
    kit.store.pause_account(id, Duration::from_secs(600), "acme-rate-limited: slow").await.unwrap();
    let (_, paused) = post(&kit, "pause", &json!({"seconds": 60})).await;
    let pauses = paused["pauses"].as_array().unwrap();
    let causes: Vec<_> = pauses.iter().map(|pause| pause["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["by-hand", "acme-rate-limited"]);
    assert_eq!(paused["paused_until"], pauses[1]["until"]);
    let (status, problem) = post(&kit, "pause", &json!({"seconds": 0})).await;
    assert_eq!((status, &problem["code"]), (422, &json!("invalid-field")));
    // A person may also end what the CA asked for.
    let (_, resumed) = post(&kit, "resume", &json!({})).await;
    assert_eq!(resumed["pauses"], json!([]));
}

#[tokio::test]
async fn who_waits_is_told_who_paused() {
    let kit = Kit::new().await;
    account(&kit).await;
    kit.add("shop.example.com").await;
    queued(&kit).await;
    let ca = kit.get(CA).await.expect(200);
    assert_eq!(ca["queued"], json!({"new": 1, "renewal": 0, "ari": 0}));
    assert!(ca["drains_at"].is_string(), "{ca}");
    let (_, paused) = post(&kit, "pause", &json!({})).await;
    assert_eq!(paused["drains_at"], Value::Null);
    let told = kit.get("/v1/domains/shop.example.com/explain").await.expect(200);
    assert_eq!((&told["cause"], &told["who"]), (&json!("ca-paused"), &json!("operator")));
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("admin-token paused ca.example"), "{told}");
    assert!(told["fix"].as_str().unwrap().contains("holdfast ca resume"), "{told}");
}

/// Whoever may read may list them: no key is opened for that.
#[tokio::test]
async fn a_ca_is_shown_without_opening_its_key() {
    let kit = Kit::new().await;
    let id = account(&kit).await.id;
    let failure = "ca-unreachable: replica `one` says: no route";
    kit.store.note_failure(id, "one", failure, Duration::from_secs(60)).await.unwrap();
    let url = format!("sqlite:{}", kit.scratch.path().join("holdfast.db").display());
    run_sql(&url, "UPDATE sealed SET value = x'00' WHERE owner = 'account'").unwrap();
    let ca = kit.get(CA).await.expect(200);
    assert_eq!(ca["healthy"], json!(false));
    assert!(ca["reason"].as_str().unwrap().contains("replica `one` says: no route"), "{ca}");
    kit.store.end_failure(id, "one").await.unwrap();
    assert_eq!(kit.get(CA).await.expect(200)["healthy"], json!(true));
}
