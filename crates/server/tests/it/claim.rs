//! Claims: the four scenarios, seen over HTTP.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::kit::{Answer, Kit, asked};

async fn claim(kit: &Kit, resource: &str, name: Option<&str>, orchestration: &str) -> Answer {
    let body = json!({"name": name, "orchestration_id": orchestration});
    kit.json(Method::PUT, &format!("/v1/claims/{resource}"), &body).await
}

async fn release(kit: &Kit, resource: &str, orchestration: &str) -> Answer {
    let path = format!("/v1/claims/{resource}?orchestration_id={orchestration}");
    kit.call(Method::DELETE, &path).await
}

#[tokio::test]
async fn first_attempt_replay_conflict_and_reuse() {
    let kit = Kit::new().await;
    let first = claim(&kit, "db-1", Some("My.Example.com"), "one").await.expect(201);
    let expected = json!({
        "resource": "db-1", "name": "my.example.com", "orchestration_id": "one", "domain_id": null,
        "created_at": first["created_at"], "released_at": null,
    });
    assert_eq!(first, expected);
    assert_eq!(claim(&kit, "db-1", Some("my.example.com"), "one").await.expect(200), first);
    let refused =
        claim(&kit, "db-2", Some("my.example.com"), "two").await.problem(409, "name-in-use");
    assert_eq!(refused["holder"], json!({"resource": "db-1", "since": first["created_at"]}));
    claim(&kit, "db-1", None, "two").await.problem(409, "resource-in-use");
    assert_eq!(release(&kit, "db-1", "two").await.status, StatusCode::CONFLICT);
    let released = release(&kit, "db-1", "one").await.expect(200);
    assert!(released["released_at"].is_string());
    assert_eq!(release(&kit, "db-1", "one").await.expect(200), released);
    claim(&kit, "db-2", Some("my.example.com"), "two").await.expect(201);
    let history = kit.get("/v1/claims/db-1").await.expect(200);
    assert_eq!(history, released);
}

#[tokio::test]
async fn no_name_never_conflicts_and_an_empty_one_is_none() {
    let kit = Kit::new().await;
    claim(&kit, "a", None, "1").await.expect(201);
    let second = claim(&kit, "b", Some(""), "2").await.expect(201);
    assert_eq!(second["name"], Value::Null);
}

#[tokio::test]
async fn a_claim_that_a_domain_lives_on_is_kept() {
    let kit = Kit::new().await;
    let body = json!({"name": "shop.example.com", "resource": "r", "orchestration_id": "o"});
    let domain = kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    let seen = kit.get("/v1/claims/r").await.expect(200);
    assert_eq!((&seen["domain_id"], &seen["name"]), (&domain["id"], &json!("shop.example.com")));
    release(&kit, "r", "o").await.problem(409, "in-use");
}

#[tokio::test]
async fn resources_may_hold_slashes_and_unicode() {
    let kit = Kit::new().await;
    let claimed = claim(&kit, "tenants%2Fm%C3%BCller%2Fdb", None, "1").await.expect(201);
    assert_eq!(claimed["resource"], "tenants/müller/db");
}

#[tokio::test]
async fn readers_see_no_orchestration_id() {
    let kit = Kit::new().await;
    claim(&kit, "r", None, "secret-key").await.expect(201);
    let request = asked(Method::GET, "/v1/claims/r", &kit.read).body(Body::empty()).unwrap();
    let seen = kit.send(request).await;
    assert_eq!(seen.expect(200)["orchestration_id"], Value::Null);
    assert!(!seen.text().contains("secret-key"));
}

#[tokio::test]
async fn of_many_at_once_one_wins_and_every_loser_is_told_who() {
    let kit = Kit::new().await;
    let tries = (0..40).map(|n| {
        let (resource, orchestration) = (format!("r{n}"), format!("o{n}"));
        let kit = &kit;
        async move { claim(kit, &resource, Some("one.example.com"), &orchestration).await }
    });
    let answers = futures_util::future::join_all(tries).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == StatusCode::CREATED);
    assert_eq!(won.len(), 1);
    let holder = &won[0].json()["resource"];
    for answer in lost {
        assert_eq!(&answer.problem(409, "name-in-use")["holder"]["resource"], holder);
    }
}
