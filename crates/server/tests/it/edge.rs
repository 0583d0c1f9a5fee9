//! What edges were seen serving, as domains and the list of edges show it.

use axum::body::Body;
use holdfast_model::{Note, Outcome};
use holdfast_store::{EdgeReport, NewEdge, Observation, PROXY_DOWN, Products, Revision};
use http::Method;
use serde_json::{Value, json};

use crate::bundle::{import, imported};
use crate::kit::{Kit, actor, asked};

#[tokio::test]
async fn what_an_edge_was_seen_serving_stands_in_the_domain() {
    let kit = Kit::new().await;
    let new = NewEdge { name: "fra-1".into(), group: "default".into() };
    let edge = kit.store.register_edge(&new).await.unwrap();
    imported(&kit, "shop.example.com", &import("shop.example.com")).await;
    let claimed =
        kit.work(Outcome::Imported, Products { deploy: true, ..Products::default() }).await;
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["serving"], Value::Null, "sent is not seen");
    let changes = kit.store.changes("default", Revision::default(), 10).await.unwrap();
    let sha256 = changes.items[0].certificate.clone().unwrap().1;
    let seen = Observation { domain: claimed.domain.id, sha256: Some(sha256.clone()), error: None };
    let report =
        EdgeReport { up_to: changes.up_to, observations: vec![seen], ..EdgeReport::default() };
    kit.store.observe(edge.id, &report, &actor()).await.unwrap();
    let list = kit.get("/v1/domains").await.expect(200);
    let domain = &list["items"][0];
    let expected = json!({
        "sha256": sha256, "not_after": domain["certificate"]["not_after"],
        "seen_at": domain["serving"]["seen_at"], "edges": {"live": 1, "behind": 0},
    });
    assert_eq!(domain["serving"], expected);
    assert_eq!(domain["certificate"]["directory"], "imported");
    assert!(domain["certificate"]["not_after"].is_string());
}

/// Health is what is seen now: a proxy that was served from and is gone serves nobody, whatever was seen before.
#[tokio::test]
async fn a_domain_is_served_only_while_an_edge_is_live_and_well() {
    let kit = Kit::new().await;
    let new = NewEdge { name: "fra-1".into(), group: "default".into() };
    let edge = kit.store.register_edge(&new).await.unwrap().id;
    imported(&kit, "shop.example.com", &import("shop.example.com")).await;
    let claimed =
        kit.work(Outcome::Imported, Products { deploy: true, ..Products::default() }).await;
    let changes = kit.store.changes("default", Revision::default(), 10).await.unwrap();
    let sha256 = changes.items[0].certificate.clone().map(|(_, sha256)| sha256);
    let say = async |observations, error: Option<(&'static str, &str)>| {
        let error = error.map(|(code, words)| Note::new(code, words.to_owned()));
        let up_to = changes.up_to;
        let report = EdgeReport { up_to, observations, error, ..EdgeReport::default() };
        kit.store.observe(edge, &report, &actor()).await.unwrap();
    };
    let stands = async || {
        let why = kit.get("/v1/domains/shop.example.com/explain").await.expect(200);
        let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
        let text = |field: &str| why[field].as_str().unwrap().to_owned();
        (text("cause"), text("who"), text("summary"), domain["serving"].is_null())
    };
    say(Vec::new(), Some(("edge-reload-failed", "exit status: 1"))).await;
    let (cause, who, summary, _) = stands().await;
    assert_eq!((cause.as_str(), who.as_str()), ("edge-error", "operator"), "{summary}");
    assert!(summary.contains("`fra-1` says: exit status: 1"), "{summary}");

    say(vec![Observation { domain: claimed.domain.id, sha256, error: None }], None).await;
    kit.work(Outcome::DeploymentSeen, Products::default()).await;
    let (cause, who, _, is_null) = stands().await;
    assert_eq!((cause.as_str(), who.as_str(), is_null), ("active", "nobody", false));
    say(Vec::new(), Some((PROXY_DOWN, "the proxy does not answer"))).await;
    let (cause, who, summary, is_null) = stands().await;
    assert_eq!((cause.as_str(), who.as_str(), is_null), ("edge-error", "operator", true));
    assert!(summary.contains("no live edge serves it; `fra-1` says"), "{summary}");
    say(Vec::new(), None).await;
    assert_eq!(stands().await.0, "active");
    kit.store.remove_edge("fra-1", &actor()).await.unwrap();
    let (cause, who, _, is_null) = stands().await;
    assert_eq!((cause.as_str(), who.as_str(), is_null), ("no-live-edge", "operator", true));
}

#[tokio::test]
async fn an_edges_token_sees_its_own_group() {
    let kit = Kit::new().await;
    for (name, group) in [("fra-1", "default"), ("nyc-1", "us")] {
        let new = NewEdge { name: name.into(), group: group.into() };
        kit.store.register_edge(&new).await.unwrap();
    }
    let names = async |token: &str| {
        let request = asked(Method::GET, "/v1/edges", token).body(Body::empty()).unwrap();
        let list = kit.send(request).await.expect(200);
        let items = list["items"].as_array().unwrap().iter();
        items.map(|edge| edge["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&kit.edge).await, ["fra-1"]);
    assert_eq!(names(&kit.read).await, ["fra-1", "nyc-1"]);
}
