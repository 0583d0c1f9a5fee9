//! Domains: added, found again, refused, listed, changed.

use std::collections::BTreeSet;

use axum::body::Body;
use holdfast_model::{Note, Outcome};
use http::{Method, header};
use serde_json::{Value, json};

use crate::kit::{Kit, asked};

#[tokio::test]
async fn a_new_domain_has_every_field_of_the_interface() {
    let kit = Kit::new().await;
    let body = json!({
        "name": "Shop.Example.COM.", "tenant": "t1", "resource": "r1", "edge_group": "eu",
        "labels": {"plan": "gold"}, "orchestration_id": "once",
    });
    let answer = kit.json(Method::POST, "/v1/domains", &body).await;
    let mut domain = answer.expect(201);
    let id = domain["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers[header::LOCATION], format!("/v1/domains/{id}"));
    assert_eq!(answer.headers[header::ETAG], format!("\"{}\"", domain["version"]));
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    for volatile in ["id", "created_at", "updated_at", "next_attempt_at"] {
        domain[volatile] = json!("…");
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&domain).unwrap());
}

#[tokio::test]
async fn it_is_found_by_name_in_any_spelling_and_by_id() {
    let kit = Kit::new().await;
    let id = kit.add("bücher.example").await["id"].clone();
    for key in ["xn--bcher-kva.example", "B%C3%9CCHER.example.", id.as_str().unwrap()] {
        let found = kit.get(&format!("/v1/domains/{key}")).await.expect(200);
        assert_eq!(found["id"], id, "{key}");
    }
}

#[tokio::test]
async fn the_same_request_again_is_the_same_domain() {
    let kit = Kit::new().await;
    let body = json!({"name": "shop.example.com", "orchestration_id": "once", "tenant": "t"});
    let first = kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    let again = kit.json(Method::POST, "/v1/domains", &body).await.expect(200);
    assert_eq!((&first["id"], &first["target"]), (&again["id"], &again["target"]));
    let other = json!({"name": "shop.example.com", "orchestration_id": "once", "tenant": "other"});
    let answer = kit.json(Method::POST, "/v1/domains", &other).await;
    assert_eq!(answer.problem(409, "orchestration-mismatch")["field"], "tenant");
}

#[tokio::test]
async fn a_replay_finds_its_unique_target_again() {
    let kit = Kit::with(|settings| settings.unique_target = true).await;
    let body = json!({"name": "shop.example.com", "orchestration_id": "once"});
    let first = kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    let target = format!("{}.edge.example.net", first["id"].as_str().unwrap());
    assert_eq!(first["target"], target);
    let again = kit.json(Method::POST, "/v1/domains", &body).await.expect(200);
    assert_eq!(again["target"], target);
}

#[tokio::test]
async fn who_comes_second_is_told_who_was_first() {
    let kit = Kit::new().await;
    let body = json!({"name": "shop.example.com", "resource": "first"});
    let first = kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    let answer = kit.json(Method::POST, "/v1/domains", &json!({"name": "SHOP.example.com"})).await;
    let problem = answer.problem(409, "name-in-use");
    assert_eq!(problem["holder"], json!({"resource": "first", "since": first["created_at"]}));
    assert!(!answer.text().contains(first["orchestration_id"].as_str().unwrap()));
    let other = json!({"name": "other.example.com", "resource": "first"});
    let answer = kit.json(Method::POST, "/v1/domains", &other).await;
    assert_eq!(answer.problem(409, "resource-in-use")["holder"]["resource"], "first");
}

#[tokio::test]
async fn records_to_set_are_alternatives() {
    let kit = Kit::with(|settings| {
        settings.addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    });
    let domain = kit.await.add("example.com").await;
    let expected = json!([
        [{"type": "CNAME", "name": "example.com", "value": "edge.example.net"}],
        [
            {"type": "A", "name": "example.com", "value": "192.0.2.1"},
            {"type": "AAAA", "name": "example.com", "value": "2001:db8::1"},
        ],
    ]);
    assert_eq!(domain["required_dns"], expected);
}

async fn names(kit: &Kit, query: &str) -> Vec<String> {
    let list = kit.get(&format!("/v1/domains{query}")).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_are_filtered() {
    let kit = Kit::new().await;
    for (name, tenant) in [("a.example.com", "x"), ("ab.example.com", "y"), ("bücher.example", "x")]
    {
        let body = json!({"name": name, "tenant": tenant});
        kit.json(Method::POST, "/v1/domains", &body).await.expect(201);
    }
    assert_eq!(names(&kit, "?q=A").await, ["a.example.com", "ab.example.com"]);
    assert_eq!(names(&kit, "?q=a.").await, ["a.example.com"]);
    assert_eq!(names(&kit, "?q=b%C3%BCcher").await, ["xn--bcher-kva.example"]);
    assert_eq!(names(&kit, "?q=%25").await, [""; 0]);
    assert_eq!(names(&kit, "?q=_").await, [""; 0]);
    assert_eq!(names(&kit, "?tenant=x").await, ["a.example.com", "xn--bcher-kva.example"]);
    assert_eq!(names(&kit, "?tenant=x&q=a&state=Initial").await, ["a.example.com"]);
    assert_eq!(names(&kit, "?state=Active").await, [""; 0]);
}

#[tokio::test]
async fn pages_join_into_the_whole() {
    let kit = Kit::new().await;
    let wanted: BTreeSet<String> = (0..25).map(|n| format!("n{n:02}.example.com")).collect();
    let items: Vec<_> = wanted.iter().map(|name| json!({"name": name})).collect();
    kit.json(Method::POST, "/v1/domains:batch", &json!({"items": items})).await.expect(200);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = kit.get(&format!("/v1/domains?limit=10{cursor}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 10);
        seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, wanted.into_iter().collect::<Vec<_>>());
}

async fn patch(kit: &Kit, if_match: &str, body: &Value) -> crate::kit::Answer {
    let request = asked(Method::PATCH, "/v1/domains/shop.example.com", &kit.admin)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::IF_MATCH, if_match)
        .body(Body::from(body.to_string()));
    kit.send(request.unwrap()).await
}

#[tokio::test]
async fn a_change_needs_the_version_it_was_made_from() {
    let kit = Kit::new().await;
    let domain = kit.add("shop.example.com").await;
    let etag = format!("\"{}\"", domain["version"]);
    let changes = json!({"tenant": "t", "resource": "r", "labels": {"a": "b"}, "edge_group": "eu"});
    let changed = patch(&kit, &etag, &changes).await.expect(200);
    for field in ["tenant", "resource", "labels", "edge_group"] {
        assert_eq!(changed[field], changes[field], "{field}");
    }
    assert!(changed["version"].as_i64() > domain["version"].as_i64());
    let late = patch(&kit, &etag, &json!({"tenant": "late"})).await;
    assert_eq!(late.problem(412, "version-mismatch")["version"], changed["version"]);
    let cleared = patch(&kit, "*", &json!({"tenant": null, "labels": null})).await.expect(200);
    assert_eq!((&cleared["tenant"], &cleared["labels"]), (&Value::Null, &json!({})));
    assert_eq!(cleared["resource"], "r");
}

#[tokio::test]
async fn a_change_to_a_resource_in_use_is_refused_with_its_holder() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let other = json!({"name": "other.example.com", "resource": "taken"});
    kit.json(Method::POST, "/v1/domains", &other).await.expect(201);
    let refused = patch(&kit, "*", &json!({"resource": "taken"})).await;
    assert_eq!(refused.problem(409, "resource-in-use")["holder"]["resource"], "taken");
}

#[tokio::test]
async fn a_retry_and_a_renewal_are_noted_and_touch_no_version() {
    let kit = Kit::new().await;
    let domain = kit.add("shop.example.com").await;
    for (wish, path) in [("retry", "retry"), ("renew", "renew")] {
        let path = format!("/v1/domains/shop.example.com/{path}");
        let answer = kit.call(Method::POST, &path).await.expect(202);
        assert_eq!(
            (answer["wanted"].as_str(), &answer["version"]),
            (Some(wish), &domain["version"])
        );
    }
    kit.call(Method::POST, "/v1/domains/none.example.com/retry").await.problem(404, "not-found");
}

#[tokio::test]
async fn the_history_tells_every_step() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    kit.work(Outcome::Accepted, Default::default()).await;
    let note = Note::new("dns-nxdomain", "shop.example.com does not exist");
    kit.work(Outcome::DnsNotPointed { note }, Default::default()).await;
    let history = kit.get("/v1/domains/shop.example.com/history").await.expect(200);
    let steps: Vec<_> = history["items"].as_array().unwrap().iter().collect();
    let moves: Vec<_> = steps.iter().map(|step| (&step["from"], &step["to"])).collect();
    assert_eq!(moves[0], (&Value::Null, &json!("Initial")));
    assert_eq!(moves[1], (&json!("Initial"), &json!("DnsVerifying")));
    assert_eq!(moves[2], (&json!("DnsVerifying"), &json!("DnsVerifying")), "a retry in place");
    let last = steps[2];
    assert_eq!(last["error"]["code"], "dns-nxdomain");
    assert_eq!(
        (&last["attempt"], &last["instance"], &last["actor"]),
        (&json!(1), &json!("replica"), &json!("worker"))
    );
    assert_eq!(steps[0]["actor"], "admin-token");
    assert!(last["duration_ms"].is_u64() && last["at"].as_str().unwrap().ends_with('Z'));
    let domain = kit.get("/v1/domains/shop.example.com").await.expect(200);
    assert_eq!(domain["last_error"]["code"], "dns-nxdomain");
}
