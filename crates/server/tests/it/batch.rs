//! Many at once: a result per item.

use http::Method;
use serde_json::{Value, json};

use crate::kit::Kit;

const PATH: &str = "/v1/domains:batch";

fn outcome(item: &Value) -> (u64, &str) {
    (item["status"].as_u64().unwrap(), item["problem"]["code"].as_str().unwrap_or("-"))
}

#[tokio::test]
async fn one_that_cannot_be_had_does_not_touch_the_others() {
    let kit = Kit::new().await;
    kit.add("taken.example.com").await;
    let replay = json!({"name": "replay.example.com", "orchestration_id": "once"});
    kit.json(Method::POST, "/v1/domains", &replay).await.expect(201);
    let items = json!([
        {"name": "a.example.com"},
        {"name": "taken.example.com"},
        replay,
        {"name": "*.example.com"},
        {"nmae": "b.example.com"},
        7,
        ["b.example.com", null, null, null, null, null, null, null],
        {"name": "b.example.com", "tenant": 7},
        {"name": "c.example.com", "labels": {"a": "b"}},
        {"name": "a.example.com"},
    ]);
    let answer = kit.json(Method::POST, PATH, &json!({"items": items})).await.expect(200);
    let seen: Vec<_> = answer["items"].as_array().unwrap().iter().map(outcome).collect();
    let expected = [
        (201, "-"),
        (409, "name-in-use"),
        (200, "-"),
        (422, "wildcard-unsupported"),
        (422, "unknown-field"),
        (422, "invalid-body"),
        (422, "invalid-body"),
        (422, "invalid-body"),
        (201, "-"),
        (409, "name-in-use"),
    ];
    assert_eq!(seen, expected);
    assert_eq!(answer["items"][0]["domain"]["name"], "a.example.com");
    assert_eq!(answer["items"][1]["problem"]["type"], "urn:holdfast:problem:name-in-use");
    kit.get("/v1/domains/c.example.com").await.expect(200);
}

#[tokio::test]
async fn a_dry_run_writes_nothing_and_says_the_same() {
    let kit = Kit::new().await;
    kit.add("taken.example.com").await;
    let items = json!([
        {"name": "a.example.com"}, {"name": "taken.example.com"}, {"name": "A.example.com"}, {"name": "com"},
        {"name": "b.example.com", "orchestration_id": "x"}, {"name": "b.example.com", "orchestration_id": "x"},
    ]);
    let answer =
        kit.json(Method::POST, PATH, &json!({"items": items, "dry_run": true})).await.expect(200);
    let seen: Vec<_> = answer["items"].as_array().unwrap().iter().map(outcome).collect();
    let taken = (409, "name-in-use");
    assert_eq!(seen, [(201, "-"), taken, taken, (422, "invalid-name"), (201, "-"), (200, "-")]);
    kit.get("/v1/domains/a.example.com").await.problem(404, "not-found");
    let item = json!({"name": "b.example.com", "orchestration_id": "x"});
    kit.json(Method::POST, PATH, &json!({"items": [item]})).await.expect(200);
    let again = json!({"items": [item], "dry_run": true});
    let again = kit.json(Method::POST, PATH, &again).await.expect(200);
    assert_eq!(outcome(&again["items"][0]), (200, "-"), "it is there already");
}

#[tokio::test]
async fn a_thousand_are_taken_and_one_more_is_not() {
    let kit = Kit::new().await;
    let items = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"name": format!("n{n}.example.com")})).collect()
    };
    kit.json(Method::POST, PATH, &json!({"items": items(1001)}))
        .await
        .problem(422, "too-many-items");
    let answer = kit.json(Method::POST, PATH, &json!({"items": items(1000)})).await.expect(200);
    let items = answer["items"].as_array().unwrap();
    assert!(items.len() == 1000 && items.iter().all(|item| item["status"] == 201));
    let none = kit.json(Method::POST, PATH, &json!({"items": []})).await.expect(200);
    assert_eq!(none, json!({"items": []}));
}
