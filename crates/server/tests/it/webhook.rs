//! Webhooks, from the event to a real receiver: signed, in order, at least once, whoever dies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_model::Outcome;
use holdfast_server::{Courier, CourierConfig};
use holdfast_testkit::eventually;
use http::{HeaderMap, Method, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bundle::{import, imported};
use crate::kit::Kit;
use crate::work::step;

const SOON: Duration = Duration::from_secs(60);

/// One request as it came in.
#[derive(Debug, Clone)]
struct Got {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn kind_and_name(&self) -> (String, String) {
        let body = self.json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&body["type"]), text(&body["data"]["name"]))
    }

    /// As a receiver would, with nothing of ours.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let said = format!("{}.{}.{}", self.id, self.timestamp, self.body);
        let mac = STANDARD.decode(self.signature.strip_prefix("v1,").unwrap()).unwrap();
        hmac::verify(&key, said.as_bytes(), &mac).is_ok()
    }
}

/// A receiver that answers what it is told, and remembers.
struct Receiver {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
    says: Arc<Mutex<Says>>,
}

#[derive(Clone, Copy)]
enum Says {
    Thanks,
    No,
    /// Keeps the connection open.
    Nothing,
}

type Shared = (Arc<Mutex<Vec<Got>>>, Arc<Mutex<Says>>);

impl Receiver {
    async fn new() -> Self {
        let (got, says) = (Arc::default(), Arc::new(Mutex::new(Says::Thanks)));
        let shared: Shared = (Arc::clone(&got), Arc::clone(&says));
        let app = Router::new().route("/hook", post(receive)).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, got, says }
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    async fn wait_for(&self, count: usize) -> Vec<Got> {
        eventually(SOON, "messages", async || match self.got() {
            got if got.len() >= count => Ok(got),
            got => Err(format!("{} of {count}", got.len())),
        })
        .await
    }
}

async fn receive(State((got, says)): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    got.lock().unwrap().push(Got {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signature: text("webhook-signature"),
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    let says = *says.lock().unwrap();
    match says {
        Says::Thanks => StatusCode::NO_CONTENT,
        Says::No => StatusCode::INTERNAL_SERVER_ERROR,
        Says::Nothing => std::future::pending().await,
    }
}

fn courier(kit: &Kit) -> JoinHandle<()> {
    let config = CourierConfig {
        time_limit: Duration::from_secs(2),
        hold: Duration::from_secs(3),
        ladder: Some(vec![Duration::from_millis(50)]),
        ..CourierConfig::default()
    };
    let courier = Courier::new(kit.store.clone(), config).unwrap();
    tokio::spawn(courier.run(CancellationToken::new()))
}

async fn hook(kit: &Kit, body: Value) -> Value {
    kit.json(Method::POST, "/v1/webhooks", &body).await.expect(201)
}

/// A domain that fails for good at once.
async fn fail(kit: &Kit, name: &str) {
    kit.add(name).await;
    kit.work(Outcome::hopeless("test", "as the test says"), Default::default()).await;
}

#[tokio::test]
async fn what_happens_to_domains_arrives_signed() {
    let (kit, receiver) =
        (Kit::with(|settings| settings.edges_in_use = false).await, Receiver::new().await);
    let made = hook(&kit, json!({ "url": receiver.url })).await;
    let courier = courier(&kit);
    fail(&kit, "a.example.com").await;
    let got = receiver.wait_for(1).await.remove(0);
    assert!(got.is_signed_with(made["secret"].as_str().unwrap()), "{got:?}");
    assert!(
        !Got { body: got.body.replace("a.example", "b.example"), ..got.clone() }
            .is_signed_with(made["secret"].as_str().unwrap())
    );
    assert!(got.id.starts_with("msg_") && got.timestamp.parse::<i64>().unwrap() > 1_700_000_000);
    let body = got.json();
    assert_eq!(body["type"], "domain.failed");
    assert_eq!(body["data"]["name"], "a.example.com");
    assert_eq!(body["data"]["state"], "Failed");
    assert_eq!(body["data"]["error"], json!({ "code": "test", "detail": "as the test says" }));
    imported(&kit, "b.example.com", &import("b.example.com")).await;
    kit.work(Outcome::Imported, Default::default()).await;
    kit.work(Outcome::DeploymentSeen, Default::default()).await;
    let got = receiver.wait_for(2).await.remove(1);
    assert_eq!(got.kind_and_name(), ("domain.active".to_owned(), "b.example.com".to_owned()));
    assert!(got.json()["data"]["certificate"]["not_after"].is_string(), "{}", got.body);
    courier.abort();
}

#[tokio::test]
async fn a_receiver_that_says_no_is_asked_again_and_each_domains_order_is_kept() {
    let (kit, receiver) = (Kit::new().await, Receiver::new().await);
    hook(&kit, json!({ "url": receiver.url, "events": ["domain.failed"] })).await;
    receiver.say(Says::No);
    let courier = courier(&kit);
    for round in 0..3 {
        for name in ["a.example.com", "b.example.com"] {
            if round == 0 {
                fail(&kit, name).await;
            } else {
                kit.call(Method::POST, &format!("/v1/domains/{name}/retry")).await.expect(202);
                step(&kit, name, Outcome::TimeToRetry, Default::default()).await;
                step(&kit, name, Outcome::hopeless("test", "again"), Default::default()).await;
            }
        }
    }
    receiver.wait_for(8).await;
    receiver.say(Says::Thanks);
    let delivered = async || {
        let hooks = kit.get("/v1/webhooks").await.expect(200);
        hooks["items"][0]["undelivered_since"].is_null()
    };
    eventually(
        SOON,
        "all delivered",
        async || if delivered().await { Ok(()) } else { Err("not yet") },
    )
    .await;
    // Of each domain: no message before the one before it, however often each came.
    let mut order: HashMap<String, Vec<String>> = HashMap::new();
    for got in receiver.got() {
        let seen = order.entry(got.kind_and_name().1).or_default();
        if seen.last() != Some(&got.id) {
            assert!(!seen.contains(&got.id), "an earlier message came after a later one");
            seen.push(got.id);
        }
    }
    assert_eq!(order.len(), 2);
    assert!(order.values().all(|ids| ids.len() == 3), "{order:?}");
    courier.abort();
}

#[tokio::test]
async fn when_the_sender_dies_another_sends() {
    let (kit, receiver) = (Kit::new().await, Receiver::new().await);
    hook(&kit, json!({ "url": receiver.url })).await;
    receiver.say(Says::Nothing);
    let first = courier(&kit);
    fail(&kit, "a.example.com").await;
    let sent = receiver.wait_for(1).await.remove(0);
    first.abort();
    receiver.say(Says::Thanks);
    let second = courier(&kit);
    let again = receiver.wait_for(2).await.remove(1);
    assert_eq!((sent.id, sent.body), (again.id.clone(), again.body.clone()), "the same message");
    fail(&kit, "b.example.com").await;
    let next = receiver.wait_for(3).await.remove(2);
    assert_eq!(next.kind_and_name().1, "b.example.com");
    second.abort();
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_up_no_other() {
    let (kit, slow, quick) = (Kit::new().await, Receiver::new().await, Receiver::new().await);
    slow.say(Says::Nothing);
    for receiver in [&slow, &quick] {
        hook(&kit, json!({ "url": receiver.url })).await;
    }
    let courier = courier(&kit);
    for n in 0..20 {
        fail(&kit, &format!("n{n}.example.com")).await;
    }
    quick.wait_for(20).await;
    courier.abort();
}

#[tokio::test]
async fn several_senders_send_each_message_once_when_all_goes_well() {
    let (kit, receiver) = (Kit::new().await, Receiver::new().await);
    hook(&kit, json!({ "url": receiver.url })).await;
    let couriers: Vec<_> = (0..3).map(|_| courier(&kit)).collect();
    for n in 0..20 {
        fail(&kit, &format!("n{n}.example.com")).await;
    }
    let got = receiver.wait_for(20).await;
    eventually(SOON, "all noted", async || {
        let hooks = kit.get("/v1/webhooks").await.expect(200);
        if hooks["items"][0]["undelivered_since"].is_null() { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert_eq!(receiver.got().len(), 20);
    let ids: std::collections::BTreeSet<_> = got.iter().map(|got| &got.id).collect();
    assert_eq!(ids.len(), 20);
    couriers.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn alerts_arrive_once_when_raised_and_once_when_cleared() {
    let kit = Kit::new().await;
    let receiver = Receiver::new().await;
    hook(&kit, json!({ "url": receiver.url, "events": ["alert.raised", "alert.cleared"] })).await;
    let courier = courier(&kit);
    for n in 0..10 {
        fail(&kit, &format!("n{n}.example.com")).await;
    }
    for _ in 0..3 {
        kit.state.settle_alerts(None).await.unwrap();
    }
    let raised = receiver.wait_for(1).await.remove(0).json();
    assert_eq!(raised["type"], "alert.raised");
    assert_eq!(raised["data"]["code"], "many-failures");
    for n in 0..10 {
        kit.call(Method::POST, &format!("/v1/domains/n{n}.example.com/retry")).await.expect(202);
        kit.work(Outcome::TimeToRetry, Default::default()).await;
    }
    kit.state.settle_alerts(None).await.unwrap();
    let cleared = receiver.wait_for(2).await.remove(1).json();
    assert_eq!(
        (&cleared["type"], &cleared["data"]["code"]),
        (&json!("alert.cleared"), &json!("many-failures"))
    );
    assert_eq!(receiver.got().len(), 2);
    courier.abort();
}

#[tokio::test]
async fn made_listed_tried_looked_into_and_removed() {
    let (kit, receiver) = (Kit::new().await, Receiver::new().await);
    let secret = format!("whsec_{}", STANDARD.encode([7; 32]));
    let made = hook(&kit, json!({ "url": receiver.url, "secret": secret })).await;
    assert_eq!(made["secret"], json!(secret));
    assert_eq!(made["events"].as_array().unwrap().len(), 7);
    let id = made["id"].as_str().unwrap();
    let listed = kit.get("/v1/webhooks").await.expect(200);
    assert_eq!(listed["items"][0]["id"], json!(id));
    assert!(!listed.to_string().contains("whsec_"), "{listed}");
    receiver.say(Says::No);
    let courier = courier(&kit);
    kit.call(Method::POST, &format!("/v1/webhooks/{id}/test")).await.expect(202);
    assert!(receiver.wait_for(2).await[0].is_signed_with(&secret));
    let path = format!("/v1/webhooks/{id}/deliveries");
    let deliveries = eventually(SOON, "a refusal noted", async || {
        let deliveries = kit.get(&path).await.expect(200);
        if deliveries["items"][0]["answer"] == 500 { Ok(deliveries) } else { Err(deliveries) }
    })
    .await;
    let first = &deliveries["items"][0];
    assert_eq!((&first["type"], &first["status"]), (&json!("ping"), &json!("waiting")));
    assert!(first["error"].as_str().unwrap().contains("500"), "{first}");
    receiver.say(Says::Thanks);
    eventually(SOON, "arrived", async || {
        let deliveries = kit.get(&path).await.expect(200);
        if deliveries["items"][0]["status"] == "delivered" { Ok(()) } else { Err(deliveries) }
    })
    .await;
    let removed = kit.call(Method::DELETE, &format!("/v1/webhooks/{id}")).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    kit.get(&path).await.problem(404, "not-found");
    courier.abort();
}

#[tokio::test]
async fn what_cannot_be_a_webhook_is_refused() {
    let kit = Kit::new().await;
    for (body, field) in [
        (json!({ "url": "ftp://x.example.com" }), "url"),
        (json!({ "url": "https://user:pass@x.example.com" }), "url"),
        (json!({ "url": "https://x.example.com/#part" }), "url"),
        (json!({ "url": "/hook" }), "url"),
        (json!({ "url": "" }), "url"),
        (json!({ "url": "https://x.example.com", "events": [] }), "events"),
        (json!({ "url": "https://x.example.com", "events": ["domain.exploded"] }), "events"),
        (json!({ "url": "https://x.example.com", "secret": "hunter2" }), "secret"),
    ] {
        let refused =
            kit.json(Method::POST, "/v1/webhooks", &body).await.problem(422, "invalid-field");
        assert_eq!(refused["field"], json!(field), "{body}");
        assert!(!refused.to_string().contains("hunter2"));
    }
}
