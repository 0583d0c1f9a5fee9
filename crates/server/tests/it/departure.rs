//! Removing an edge: it is not waited for, not complained about, and its tokens work no more.

use holdfast_model::Note;
use holdfast_store::{EventBody, EventCursor};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::feed::{ask, deploy, register, token_for};
use crate::kit::Kit;

async fn remove(kit: &Kit, edge: &str) -> crate::kit::Answer {
    kit.call(Method::DELETE, &format!("/v1/edges/{edge}")).await
}

async fn notices(kit: &Kit) -> Vec<(String, String, String)> {
    let events = kit.store.events_after(EventCursor::default(), 1_000).await.unwrap();
    let notices = events.into_iter().filter_map(|event| match event.body {
        EventBody::Notice { kind, subject, .. } => Some((event.actor.name, kind, subject)),
        EventBody::Transition { .. } => None,
    });
    notices.collect()
}

async fn report(kit: &Kit, token: &str, edge: &str, report: Value) {
    let path = format!("/v1/edges/{edge}/report");
    let taken = ask(kit, token, Method::POST, &path, report).await;
    assert_eq!(taken.status, StatusCode::NO_CONTENT, "{}", taken.text());
}

/// Of two edges one was seen serving, the other is broken and complains: it is removed.
async fn gone_for_good(kit: Kit) {
    let first = register(&kit).await;
    let other = token_for(&kit, "nyc-1", "default").await;
    ask(&kit, &other, Method::PUT, "/v1/edges/nyc-1", json!({})).await.expect(200);
    let (id, sha256) = deploy(&kit, "shop.example.com").await;
    let seen = json!({"up_to": "1.1", "observations": [{"domain_id": id, "sha256": sha256}]});
    report(&kit, &other, "nyc-1", seen).await;
    let error = json!({"code": "edge-transaction-locked", "detail": "another transaction is open"});
    report(&kit, &kit.edge, "edge-1", json!({"up_to": "0.0", "error": error})).await;
    kit.state.settle_alerts(None).await.unwrap();
    let alerts = kit.get("/v1/alerts").await.expect(200);
    assert_eq!(alerts["items"][0]["subject"], "edge-1", "{alerts}");
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["serving"]["edges"], json!({"live": 2, "behind": 1}));

    let removed = remove(&kit, "edge-1").await.expect(200);
    let expected = json!({"name": "edge-1", "group": "default", "tokens": ["edge-token"]});
    assert_eq!(removed, expected);
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["serving"]["edges"], json!({"live": 1, "behind": 0}), "not waited for");
    assert_eq!(kit.get("/v1/alerts").await.expect(200)["items"], json!([]));
    kit.state.settle_alerts(None).await.unwrap();
    let edges = kit.get("/v1/edges").await.expect(200);
    assert_eq!(edges["items"].as_array().unwrap().len(), 1);
    let told = notices(&kit).await;
    let line = |actor: &str, kind: &str| (actor.to_owned(), kind.to_owned(), "edge-1".to_owned());
    assert!(told.contains(&line("admin-token", "edge-removed")), "{told:?}");
    assert!(told.contains(&line("alerts", "alert-cleared")), "{told:?}");

    // Its token is no token any more, whatever it is used for.
    for (method, path) in [(Method::PUT, ""), (Method::GET, "/changes"), (Method::GET, "/desired")]
    {
        let path = format!("/v1/edges/edge-1{path}");
        let refused = ask(&kit, &kit.edge, method, &path, json!({})).await;
        let problem = refused.problem(401, "unauthorized");
        assert!(problem["detail"].as_str().unwrap().contains("revoked"), "{problem}");
    }
    remove(&kit, "edge-1").await.problem(404, "not-found");

    // With a new one it comes back as a new edge.
    let fresh = token_for(&kit, "edge-1", "default").await;
    let back = ask(&kit, &fresh, Method::PUT, "/v1/edges/edge-1", json!({})).await.expect(200);
    assert_eq!(back["revision"], "0.0");
    assert_ne!(back["id"], first["id"]);
    let shown = kit.get("/v1/edges/edge-1").await.expect(200);
    assert_eq!((&shown["last_error"], &shown["behind"]), (&Value::Null, &json!(1)));
}

#[tokio::test]
async fn an_edge_that_is_removed_counts_no_more() {
    gone_for_good(Kit::with(|settings| settings.allow_plaintext = true).await).await;
}

#[tokio::test]
async fn an_edge_that_is_removed_counts_no_more_on_postgres() {
    gone_for_good(Kit::on_postgres_with(|settings| settings.allow_plaintext = true).await).await;
}

#[tokio::test]
async fn only_who_may_do_everything_removes_edges() {
    let kit = Kit::new().await;
    register(&kit).await;
    for token in [&kit.edge, &kit.read] {
        let refused = ask(&kit, token, Method::DELETE, "/v1/edges/edge-1", Value::Null).await;
        refused.problem(403, "forbidden");
    }
    assert_eq!(kit.get("/v1/edges").await.expect(200)["items"][0]["name"], "edge-1");
}

/// An open poll of the edge, asked by an admin so that only the edge's own end can end it, and what happens meanwhile.
async fn poll_during(kit: &Kit, meanwhile: impl Future<Output = ()>) -> crate::kit::Answer {
    let path = "/v1/edges/edge-1/changes?wait=30";
    let first = kit.get("/v1/edges/edge-1/changes").await.expect(200);
    let path = format!("{path}&after={}", first["up_to"].as_str().unwrap());
    let limit = std::time::Duration::from_secs(25);
    let both = async { tokio::join!(kit.get(&path), meanwhile).0 };
    tokio::time::timeout(limit, both).await.expect("not after the whole wait")
}

#[tokio::test]
async fn a_removal_ends_the_edges_poll() {
    let kit = Kit::new().await;
    register(&kit).await;
    let answer = poll_during(&kit, async {
        remove(&kit, "edge-1").await.expect(200);
    });
    answer.await.problem(404, "edge-unknown");
}

/// What is deployed for the group it was of is none of its business any more, also in the poll that is open.
#[tokio::test]
async fn a_move_to_another_group_ends_the_edges_poll() {
    let kit = Kit::new().await;
    register(&kit).await;
    let answer = poll_during(&kit, async {
        let moved = token_for(&kit, "edge-1", "us").await;
        ask(&kit, &moved, Method::PUT, "/v1/edges/edge-1", json!({})).await.expect(200);
        deploy(&kit, "shop.example.com").await;
    });
    answer.await.problem(404, "edge-unknown");
}

/// Two agents with one edge's two tokens, for two groups: the newer one has it, and it does not go to and fro.
#[tokio::test]
async fn the_newest_token_says_which_group() {
    let kit = Kit::new().await;
    register(&kit).await;
    let newer = token_for(&kit, "edge-1", "us").await;
    let path = "/v1/edges/edge-1";
    ask(&kit, &newer, Method::PUT, path, json!({})).await.expect(200);
    let refused = ask(&kit, &kit.edge, Method::PUT, path, json!({})).await;
    let problem = refused.problem(403, "wrong-group");
    assert!(problem["detail"].as_str().unwrap().contains("newer token"), "{problem}");
    assert_eq!(kit.get(path).await.expect(200)["group"], "us");
    // Once that one is revoked, the older one counts again.
    let tokens = kit.store.tokens().await.unwrap();
    let newest = tokens.iter().find(|token| token.group.as_deref() == Some("us")).unwrap();
    kit.store.revoke_token(newest.id).await.unwrap();
    ask(&kit, &kit.edge, Method::PUT, path, json!({})).await.expect(200);
    assert_eq!(kit.get(path).await.expect(200)["group"], "default");
}

/// After a restore an edge that still lives in the epoch before is behind with everything, and that is noticed.
#[tokio::test]
async fn an_edge_of_the_epoch_before_is_behind() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    register(&kit).await;
    deploy(&kit, "shop.example.com").await;
    report(&kit, &kit.edge, "edge-1", json!({"up_to": "1.1"})).await;
    assert_eq!(kit.get("/v1/edges").await.expect(200)["items"][0]["behind"], 0);
    kit.store.restored().await.unwrap();
    report(&kit, &kit.edge, "edge-1", json!({"up_to": "1.999"})).await;
    let edge = &kit.get("/v1/edges").await.expect(200)["items"][0];
    assert_eq!((&edge["behind"], &edge["live"]), (&json!(1), &json!(true)));
}

/// What an edge says it adopted is told where it was asked to, and once: the log is not its to fill.
#[tokio::test]
async fn adoptions_nobody_asked_for_are_not_told() {
    let kit = Kit::with(|settings| settings.allow_plaintext = true).await;
    register(&kit).await;
    deploy(&kit, "shop.example.com").await;
    let file = json!({"file": "/old.pem", "names": ["shop.example.com"], "shadows": true});
    report(&kit, &kit.edge, "edge-1", json!({"up_to": "1.1", "strangers": [file]})).await;
    kit.json(Method::POST, "/v1/edges/edge-1/adopt", &json!({"all": true})).await.expect(202);
    let adopted = json!([
        {"file": "/old.pem", "name": "shop.example.com", "error": {"code": "x", "detail": "no"}},
        {"file": "/old.pem", "name": "other.example.com"},
        {"file": "/new.pem", "name": "shop.example.com"},
    ]);
    for _ in 0..3 {
        report(&kit, &kit.edge, "edge-1", json!({"up_to": "1.1", "adopted": adopted})).await;
    }
    let told = notices(&kit).await;
    let told: Vec<_> = told.iter().filter(|(_, kind, _)| kind.starts_with("edge-adopt")).collect();
    let kinds: Vec<_> = told.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["edge-adopt", "edge-adopt-failed"], "{told:?}");
}

/// The names that an edge refuses are told as an alert of their own.
#[tokio::test]
async fn refusals_are_an_alert() {
    let kit = Kit::new().await;
    register(&kit).await;
    let (id, _) = deploy(&kit, "shop.example.com").await;
    let error = Note::new("edge-certificate-unusable", "no");
    let error = json!({"code": error.code, "detail": error.detail});
    let seen = json!({"up_to": "1.1", "observations": [{"domain_id": id, "sha256": null, "error": error}]});
    report(&kit, &kit.edge, "edge-1", seen).await;
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let codes: Vec<_> =
        alerts["items"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, [&json!("edge-refusing")], "{alerts}");
    assert_eq!(kit.get("/v1/edges").await.expect(200)["items"][0]["refusals"], 1);
}
