//! A CA that moves what its directory names, and one whose terms change, while the process runs.

use std::sync::Arc;
use std::time::Duration;

use holdfast_acme::{Ca, Class};
use holdfast_store::Accounts;
use serde_json::json;

use crate::kit::{config, name};
use crate::scripted::{Line, Scripted};

async fn connected(scripted: &Scripted) -> (Ca, Arc<dyn Accounts>) {
    let store = crate::store::open().await;
    let mut config = config(scripted.url("/directory"), "");
    config.extra_roots_pem = None;
    (Ca::new(config, store.clone()).unwrap(), store)
}

/// An order, at whatever path it is asked for.
fn order(scripted: &Scripted) -> Line {
    let body = json!({ "status": "pending", "authorizations": [], "finalize": scripted.url("/f") });
    let nonce = ("Replay-Nonce", "a-nonce".to_owned());
    let headers = vec![nonce, ("Location", scripted.url("/order/1"))];
    Line { status: 201, headers, body: body.to_string().into_bytes() }
}

fn gone(status: u16) -> Line {
    Line { status, headers: vec![], body: b"<html>nothing here</html>".to_vec() }
}

#[tokio::test]
async fn a_place_that_is_gone_is_looked_up_again_at_once() {
    for status in [404, 405, 410, 301] {
        let scripted = Scripted::start().await;
        let (ca, _) = connected(&scripted).await;
        scripted.say(order(&scripted));
        ca.new_order(&name("a.example.com"), None).await.unwrap();
        scripted.say_at("/order", gone(status));
        scripted.set_directory("newOrder", json!(scripted.url("/order-2")));
        ca.new_order(&name("a.example.com"), None).await.unwrap();
        assert_eq!(scripted.asked(), 2, "{status}");
    }
}

#[tokio::test]
async fn a_host_that_is_gone_is_looked_up_again_at_once() {
    let (scripted, other) = (Scripted::start().await, Scripted::start().await);
    let (ca, _) = connected(&scripted).await;
    scripted.set_directory("newOrder", json!(other.url("/order")));
    other.say(order(&scripted));
    other.close_each();
    ca.new_order(&name("a.example.com"), None).await.unwrap();
    drop(other);
    scripted.set_directory("newOrder", json!(scripted.url("/order")));
    scripted.say(order(&scripted));
    // The connection that is left breaks off under this one.
    ca.new_order(&name("a.example.com"), None).await.unwrap_err();
    ca.new_order(&name("a.example.com"), None).await.unwrap();
    assert_eq!(scripted.asked(), 1);
}

#[tokio::test]
async fn an_outage_does_not_read_the_directory_at_every_request() {
    let scripted = Scripted::start().await;
    let (ca, _) = connected(&scripted).await;
    ca.account().await.unwrap();
    let read = scripted.directory_read();
    scripted.say_at("/order", gone(404));
    for _ in 0..20 {
        let error = ca.new_order(&name("a.example.com"), None).await.unwrap_err();
        assert!(matches!(error.class(), Class::Unavailable(_)), "{error}");
    }
    assert_eq!(scripted.directory_read(), read + 1);
    // One that cannot be read costs nobody the session.
    scripted.say_at("/directory", gone(404));
    ca.account().await.unwrap();
}

#[tokio::test]
async fn the_directory_is_read_every_day_and_changed_terms_are_remembered() {
    let scripted = Scripted::start().await;
    let (ca, store) = connected(&scripted).await;
    let terms = |number: u32| json!({ "termsOfService": format!("https://ca.test/{number}") });
    scripted.set_directory("meta", terms(1));
    ca.account().await.unwrap();
    let read = scripted.directory_read();
    scripted.set_directory("meta", terms(2));
    later(Duration::from_secs(23 * 3600)).await;
    ca.account().await.unwrap();
    assert_eq!(scripted.directory_read(), read, "not every hour");
    later(Duration::from_secs(2 * 3600)).await;
    ca.account().await.unwrap();
    assert_eq!(scripted.directory_read(), read + 1);
    let kept = store.terms(ca.directory()).await.unwrap().unwrap();
    assert_eq!(kept.url, "https://ca.test/2");
    assert_eq!(kept.replaced.as_deref(), Some("https://ca.test/1"));
    // A directory that cannot be read is no reason to stop.
    later(Duration::from_secs(25 * 3600)).await;
    scripted.say_at("/directory", gone(404));
    ca.account().await.unwrap();
}

async fn later(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}
