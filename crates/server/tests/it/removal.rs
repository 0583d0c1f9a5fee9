//! Removal: noted, carried out by a worker, then gone by name and by id, its history kept.

use std::time::Duration;

use holdfast_store::Actor;
use http::Method;
use serde_json::json;

use crate::kit::{Kit, worker};

async fn finish_removal(kit: &Kit) {
    let batch = kit.store.claim(&worker(), 1, Duration::from_secs(30)).await.unwrap();
    let claimed = kit.store.begin_teardown(&batch.work[0]).await.unwrap();
    let actor = Actor { instance: "replica".into(), name: "worker".into() };
    kit.store.finish_removal(&claimed, &actor).await.unwrap();
}

#[tokio::test]
async fn a_removed_domain_is_gone_and_its_history_stays() {
    let kit = Kit::new().await;
    let id = kit.add("shop.example.com").await["id"].as_str().unwrap().to_owned();
    let (by_name, by_id) = ("/v1/domains/shop.example.com", format!("/v1/domains/{id}"));
    let removing = kit.call(Method::DELETE, by_name).await.expect(202);
    assert!(removing["removing_since"].is_string());
    let again = kit.call(Method::DELETE, by_name).await.expect(202);
    assert_eq!(again["removing_since"], removing["removing_since"]);
    kit.call(Method::POST, &format!("{by_name}/retry")).await.problem(409, "being-removed");
    finish_removal(&kit).await;
    for path in [by_name.to_owned(), format!("{by_name}/history"), format!("{by_name}/explain")] {
        kit.get(&path).await.problem(404, "not-found");
    }
    let gone = kit.get(&by_id).await.problem(410, "gone");
    let history = kit.get(&format!("{by_id}/history")).await.expect(200);
    assert_eq!(gone["history"], history["items"]);
    assert_eq!(history["items"].as_array().unwrap().last().unwrap()["to"], json!(null));
    for (method, tail) in [(Method::DELETE, ""), (Method::POST, "/retry"), (Method::POST, "/renew")]
    {
        kit.call(method, &format!("{by_id}{tail}")).await.problem(410, "gone");
    }
    let why = kit.get(&format!("{by_id}/explain")).await.expect(200);
    assert_eq!((&why["cause"], &why["who"]), (&json!("removed"), &json!("nobody")));
    kit.add("shop.example.com").await;
}

#[tokio::test]
async fn revocation_is_asked_for_by_name() {
    let kit = Kit::new().await;
    let id = kit.add("shop.example.com").await["id"].as_str().unwrap().parse().unwrap();
    kit.call(Method::DELETE, "/v1/domains/shop.example.com?revoke=true").await.expect(202);
    assert!(kit.store.domain(id).await.unwrap().unwrap().revoke_on_removal);
    kit.call(Method::DELETE, "/v1/domains/shop.example.com?revoke=yes")
        .await
        .problem(422, "invalid-parameter");
}

#[tokio::test]
async fn a_replay_after_the_removal_is_told_of_it() {
    let kit = Kit::new().await;
    let body = json!({"name": "shop.example.com", "orchestration_id": "once"});
    let id = kit.json(Method::POST, "/v1/domains", &body).await.expect(201)["id"].clone();
    kit.call(Method::DELETE, "/v1/domains/shop.example.com").await.expect(202);
    kit.json(Method::POST, "/v1/domains", &body).await.expect(200);
    finish_removal(&kit).await;
    let removed = kit.json(Method::POST, "/v1/domains", &body).await.problem(410, "removed");
    let gone = kit.get(&format!("/v1/domains/{}", id.as_str().unwrap())).await.problem(410, "gone");
    assert_eq!((&removed["removed_at"], &removed["domain_id"]), (&gone["removed_at"], &id));
    for dry_run in [true, false] {
        let batch = json!({"items": [body], "dry_run": dry_run});
        let batch = kit.json(Method::POST, "/v1/domains:batch", &batch).await.expect(200);
        let item = &batch["items"][0];
        assert_eq!((&item["status"], &item["problem"]["code"]), (&json!(410), &json!("removed")));
        assert_eq!(item["problem"]["removed_at"], gone["removed_at"]);
    }
    let other = json!({"name": "shop.example.com", "orchestration_id": "again"});
    kit.json(Method::POST, "/v1/domains", &other).await.expect(201);
}
