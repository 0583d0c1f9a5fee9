//! The control routes, as a thin client uses them.

use http::Method;
use serde_json::json;

use crate::world::{World, header};

#[tokio::test]
async fn records_are_set_listed_and_cleared() {
    let world = World::start().await;
    let put = async |name: &str, kind: &str, value: &str| {
        let body = json!({ "name": name, "type": kind, "value": value }).to_string();
        world.control(Method::PUT, "/dev/dns", &body).await;
    };
    put("shop.test", "A", "127.0.0.2").await;
    put("shop.test", "A", "127.0.0.3").await;
    put("www.test", "CNAME", "shop.test").await;
    let shop = json!([
        { "name": "shop.test", "type": "A", "value": "127.0.0.2" },
        { "name": "shop.test", "type": "A", "value": "127.0.0.3" },
    ]);
    assert_eq!(world.json("/dev/dns/shop.test").await, shop);
    assert_eq!(world.json("/dev/dns").await.as_array().unwrap().len(), 3);
    world.control(Method::DELETE, "/dev/dns/shop.test", "").await;
    assert_eq!(world.json("/dev/dns").await.as_array().unwrap().len(), 1);
    world.control(Method::DELETE, "/dev/dns", "").await;
    assert_eq!(world.json("/dev/dns").await, json!([]));
}

#[tokio::test]
async fn faults_are_set_listed_and_cleared() {
    let world = World::start().await;
    let limited = json!({ "value": "300/10800", "times": 5 }).to_string();
    world.control(Method::PUT, "/dev/faults/order-limit", &limited).await;
    world.control(Method::PUT, "/dev/faults/bad-nonce", r#"{"value":"20%"}"#).await;
    let listed = world.json("/dev/faults").await;
    assert_eq!(
        listed["faults"],
        json!([
            { "kind": "bad-nonce", "value": "0.2", "times_left": null, "struck": 0 },
            { "kind": "order-limit", "value": "300/10800", "times_left": 5, "struck": 0 },
        ])
    );
    assert!(listed["kinds"].as_array().unwrap().len() >= 15);
    world.control(Method::DELETE, "/dev/faults/bad-nonce", "").await;
    world.control(Method::DELETE, "/dev/faults", "").await;
    assert_eq!(world.json("/dev/faults").await["faults"], json!([]));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_the_reason() {
    let world = World::start().await;
    let cases = [
        (Method::PUT, "/dev/faults/nonsense", r#"{"value":"1"}"#, "the kinds are bad-nonce"),
        (Method::DELETE, "/dev/faults/nonsense", "", "the kinds are bad-nonce"),
        (
            Method::PUT,
            "/dev/faults/processing",
            r#"{"value":"soon"}"#,
            "\"soon\" is not a value for processing",
        ),
        (Method::PUT, "/dev/faults/processing", r#"{"value":"1","often":2}"#, "often"),
        (Method::PUT, "/dev/faults/processing", "", "not as expected"),
        (
            Method::PUT,
            "/dev/dns",
            r#"{"name":"a.test","type":"MX","value":"b.test"}"#,
            "the types are A, AAAA",
        ),
        (
            Method::PUT,
            "/dev/dns",
            r#"{"name":"a..test","type":"A","value":"127.0.0.1"}"#,
            "not a DNS name",
        ),
        (
            Method::PUT,
            "/dev/ari/*",
            r#"{"start":"2030-01-02T00:00:00Z","end":"2030-01-01T00:00:00Z"}"#,
            "end after",
        ),
        (Method::PUT, "/dev/ari/*", r#"{"start":"now","end":"later"}"#, "not as expected"),
    ];
    for (method, path, body, expected) in cases {
        let answer = world.send(method, path, body).await;
        let text = String::from_utf8_lossy(answer.body()).replace("\\\"", "\"");
        assert_eq!(answer.status(), 400, "{path} {text}");
        assert_eq!(header(answer.headers(), "content-type"), "application/problem+json");
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn the_root_and_what_was_done_can_be_read() {
    let world = World::start().await;
    let account = world.account().await;
    world.issue(&account, &["a.test"]).await.unwrap();
    let root = world.send(Method::GET, "/dev/root", "").await;
    assert_eq!(root.body(), world.net.root_pem());
    let orders = world.json("/dev/orders?name=a.test").await;
    assert_eq!(orders.as_array().unwrap().len(), 1);
    assert_eq!(world.json("/dev/orders?name=b.test").await, json!([]));
    let accounts = world.json("/dev/accounts").await;
    assert_eq!(accounts[0]["id"], orders[0]["account"]);
    assert_eq!(accounts[0]["url"], account.id());
    let certificates = world.json("/dev/certificates").await;
    assert_eq!(certificates[0]["serial"], orders[0]["certificate"]);
    assert_eq!(certificates[0]["order"], orders[0]["id"]);
}
