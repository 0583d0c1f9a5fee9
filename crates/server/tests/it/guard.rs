//! The write guard between real servers: who accepts a write leads, nothing goes round, nothing is sent twice.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use holdfast_cluster::Master;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_gateway::listener::{TlsListener, server_config};
use holdfast_server::{AppState, Door, Guard, Leadership, Settings, Writes, router, serve};
use holdfast_store::{EventBody, EventCursor};
use holdfast_testkit::{Pki, pace};
use http::{Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::kit::{Kit, settings};

/// What a replica believes.
struct Seat {
    instance: String,
    belief: Mutex<(Option<u64>, Option<Master>)>,
}

impl Seat {
    fn new(instance: &str) -> Arc<Self> {
        Arc::new(Self { instance: instance.to_owned(), belief: Mutex::default() })
    }

    fn leads(&self, term: u64) {
        *self.belief.lock().unwrap() = (Some(term), None);
    }

    fn follows(&self, instance: &str, url: &str, term: u64) {
        let master = Master { instance_id: instance.into(), url: url.into(), term };
        *self.belief.lock().unwrap() = (None, Some(master));
    }

    fn knows_nobody(&self) {
        *self.belief.lock().unwrap() = (None, None);
    }
}

impl Leadership for Seat {
    fn instance(&self) -> &str {
        &self.instance
    }

    fn term(&self) -> Option<u64> {
        self.belief.lock().unwrap().0
    }

    fn master(&self) -> Option<Master> {
        self.belief.lock().unwrap().1.clone()
    }
}

/// One replica on the kit's store, with a listener of its own.
struct Replica {
    seat: Arc<Seat>,
    url: String,
}

async fn replica(kit: &Kit, name: &str, writes: Writes, pki: Option<&Pki>) -> Replica {
    let seat = Seat::new(name);
    let roots = pki.map(|pki| pki.root_pem.clone().into_bytes());
    let guard = Guard::new(writes, seat.clone(), roots).unwrap();
    let settings = Settings {
        instance: name.to_owned(),
        guard,
        ..settings(kit.store.clone(), kit.world.clone(), kit.shutdown.clone())
    };
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let door = match pki {
        None => Door::from(tcp),
        Some(pki) => {
            let tls = server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), None);
            Door::from(TlsListener::new(tcp, tls.unwrap()))
        }
    };
    tokio::spawn(serve(
        door,
        router(AppState::new(settings)),
        kit.shutdown.clone(),
        Duration::ZERO,
    ));
    let scheme = if pki.is_some() { "https" } else { "http" };
    Replica { seat, url: format!("{scheme}://{address}") }
}

/// A leader `a` and a follower `b` that knows it.
async fn pair(kit: &Kit, writes: Writes) -> (Replica, Replica) {
    let (a, b) = (replica(kit, "a", writes, None).await, replica(kit, "b", writes, None).await);
    a.seat.leads(7);
    b.seat.follows("a", &a.url, 7);
    (a, b)
}

fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

fn post(kit: &Kit, url: &str, path: &str, body: &Value) -> Request<Bytes> {
    Request::post(format!("{url}{path}"))
        .header(header::AUTHORIZATION, format!("Bearer {}", kit.admin))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(body.to_string()))
        .unwrap()
}

async fn add(kit: &Kit, url: &str, name: &str) -> Response<Bytes> {
    client().send(post(kit, url, "/v1/domains", &json!({ "name": name }))).await.unwrap()
}

#[track_caller]
fn code(answer: &Response<Bytes>) -> (u16, String) {
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    (answer.status().as_u16(), body["code"].as_str().unwrap_or_default().to_owned())
}

/// Who added each domain there is.
async fn accepted_by(kit: &Kit) -> Vec<(String, String)> {
    let events = kit.store.events_after(EventCursor::default(), 10_000).await.unwrap();
    let added = events.into_iter().filter_map(|event| match event.body {
        EventBody::Transition { name, from: None, .. } => {
            Some((name.to_string(), event.actor.instance))
        }
        _ => None,
    });
    added.collect()
}

#[tokio::test]
async fn a_follower_passes_a_write_on_and_the_leader_does_it() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    let answer = add(&kit, &b.url, "shop.example.com").await;
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.body());
    assert!(answer.headers().contains_key(header::LOCATION), "the leader's own answer");
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["name"], "shop.example.com");
    assert_eq!(accepted_by(&kit).await, [("shop.example.com".to_owned(), "a".to_owned())]);
    // Reads are anybody's, and a caller without a token is nobody's.
    let read = Request::get(format!("{}/v1/domains/shop.example.com", b.url))
        .header(header::AUTHORIZATION, format!("Bearer {}", kit.read));
    let read = client().send(read.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(read.status(), StatusCode::OK);
    let stranger = Request::post(format!("{}/v1/domains", b.url)).body(Bytes::new()).unwrap();
    assert_eq!(code(&client().send(stranger).await.unwrap()), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn the_leaders_refusals_are_the_clients() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    assert_eq!(code(&add(&kit, &b.url, "com").await), (422, "invalid-name".to_owned()));
    let scope = Request::post(format!("{}/v1/domains", b.url))
        .header(header::AUTHORIZATION, format!("Bearer {}", kit.read))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Bytes::from_static(b"{\"name\": \"a.example.com\"}"));
    let answer = client().send(scope.unwrap()).await.unwrap();
    assert_eq!(code(&answer), (403, "forbidden".to_owned()));
}

#[tokio::test]
async fn large_bodies_go_through_both_ways() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    let items: Vec<_> = (0..500)
        .map(|n| json!({ "name": format!("n{n}.example.com"), "labels": { "filler": "x".repeat(200) } }))
        .collect();
    let request = post(&kit, &b.url, "/v1/domains:batch", &json!({ "items": items }));
    let answer = client().send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.body().len() > 100_000);
    assert_eq!(accepted_by(&kit).await.len(), 500);
}

#[tokio::test]
async fn over_tls_with_a_root_of_ones_own() {
    let (kit, pki) = (Kit::new().await, Pki::new().unwrap());
    let a = replica(&kit, "a", Writes::Forward, Some(&pki)).await;
    let b = replica(&kit, "b", Writes::Forward, Some(&pki)).await;
    a.seat.leads(7);
    b.seat.follows("a", &a.url, 7);
    let roots = Some(pki.root_pem.clone().into_bytes());
    let client = Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() });
    let request = post(&kit, &b.url, "/v1/domains", &json!({ "name": "shop.example.com" }));
    let answer = client.unwrap().send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.body());
    assert_eq!(accepted_by(&kit).await[0].1, "a");
}

#[tokio::test]
async fn who_does_not_lead_in_that_term_does_nothing() {
    let kit = Kit::new().await;
    let (a, b) = pair(&kit, Writes::Forward).await;
    a.seat.leads(8);
    let answer = add(&kit, &b.url, "shop.example.com").await;
    assert_eq!(code(&answer), (421, "stale-term".to_owned()));
    assert!(answer.headers().contains_key(header::RETRY_AFTER));
    // Two that each take the other for the leader: not round and round.
    a.seat.follows("b", &b.url, 9);
    assert_eq!(code(&add(&kit, &b.url, "shop.example.com").await), (421, "stale-term".to_owned()));
    assert_eq!(code(&add(&kit, &a.url, "shop.example.com").await), (421, "stale-term".to_owned()));
    assert!(accepted_by(&kit).await.is_empty());
}

#[tokio::test]
async fn without_a_leader_one_is_told_to_come_again() {
    let kit = Kit::new().await;
    for writes in [Writes::Forward, Writes::Redirect, Writes::Reject] {
        let (_a, b) = pair(&kit, writes).await;
        b.seat.knows_nobody();
        let answer = add(&kit, &b.url, "shop.example.com").await;
        assert_eq!(code(&answer), (503, "no-leader".to_owned()), "{writes:?}");
        assert!(answer.headers().contains_key(header::RETRY_AFTER));
    }
    assert!(accepted_by(&kit).await.is_empty());
}

#[tokio::test]
async fn redirected_and_refused_with_the_leaders_url() {
    let kit = Kit::new().await;
    let (a, b) = pair(&kit, Writes::Redirect).await;
    let path = "/v1/domains/x.example.com/retry?x=1";
    let answer = client().send(post(&kit, &b.url, path, &json!({}))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(answer.headers()[header::LOCATION], format!("{}{path}", a.url));
    let (a, b) = pair(&kit, Writes::Reject).await;
    let answer = add(&kit, &b.url, "shop.example.com").await;
    assert_eq!(code(&answer), (421, "not-master".to_owned()));
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["master"], json!({ "instance_id": "a", "url": a.url }));
    assert!(body["detail"].as_str().unwrap().contains(&a.url));
    assert_eq!(add(&kit, &a.url, "shop.example.com").await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_was_sent_nothing() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    b.seat.follows("a", &format!("http://{gone}"), 7);
    let answer = add(&kit, &b.url, "shop.example.com").await;
    assert_eq!(code(&answer), (503, "leader-unreachable".to_owned()));
    assert!(answer.headers().contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn tokens_are_not_sent_in_the_clear() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    b.seat.follows("a", "http://192.0.2.7:8600", 7);
    let answer = add(&kit, &b.url, "shop.example.com").await;
    assert_eq!(code(&answer), (502, "forward-insecure".to_owned()));
}

/// A peer that reads each request to its end and answers with what it is told, or not at all.
async fn peer(answer: Option<&'static str>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = heard.clone();
            tokio::spawn(async move {
                let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
                while !String::from_utf8_lossy(&request).contains("shop.example.com") {
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(read) => request.extend_from_slice(&buffer[..read]),
                    }
                }
                heard.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                if let Some(answer) = answer {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, seen)
}

#[tokio::test]
async fn what_was_sent_is_never_sent_again() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    let (address, seen) = peer(None).await;
    b.seat.follows("a", &format!("http://{address}"), 7);
    for n in 1..=3 {
        let answer = add(&kit, &b.url, "shop.example.com").await;
        assert_eq!(code(&answer), (502, "answer-lost".to_owned()));
        assert!(
            !answer.headers().contains_key(header::RETRY_AFTER),
            "nobody knows whether it is safe"
        );
        assert_eq!(seen.lock().unwrap().len(), n, "once for each");
    }
}

#[tokio::test]
async fn what_is_sent_is_the_clients_less_what_it_must_not_say() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Forward).await;
    let (address, seen) =
        peer(Some("HTTP/1.1 204 No Content\r\nConnection: close\r\nX-Mine: 1\r\n\r\n")).await;
    b.seat.follows("a", &format!("http://{address}"), 7);
    let mut request = post(&kit, &b.url, "/v1/domains?x=1", &json!({ "name": "shop.example.com" }));
    let headers = request.headers_mut();
    headers.insert("holdfast-pass", "1.7.1.forged".parse().unwrap());
    headers.insert("x-request-id", "r-1".parse().unwrap());
    let answer = client().send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(answer.headers()["x-mine"], "1");
    let sent = seen.lock().unwrap()[0].to_lowercase();
    assert!(sent.starts_with("post /v1/domains?x=1 http/1.1\r\n"), "{sent}");
    assert!(
        sent.contains(&format!("authorization: bearer {}", kit.admin.to_lowercase())),
        "{sent}"
    );
    assert!(sent.contains("x-request-id: r-1") && !sent.contains("forged"), "{sent}");
    assert!(sent.contains(&format!("host: {address}")), "{sent}");
    assert_eq!(sent.matches("holdfast-pass: 1.7.1.").count(), 1, "{sent}");
}

#[tokio::test]
async fn a_clients_own_pass_is_nothing() {
    let kit = Kit::new().await;
    let (a, b) = pair(&kit, Writes::Forward).await;
    for (url, name) in [(&a.url, "one.example.com"), (&b.url, "two.example.com")] {
        let mut request = post(&kit, url, "/v1/domains", &json!({ "name": name }));
        let forged = format!("1.99.1.{}", "00".repeat(32));
        request.headers_mut().insert("holdfast-pass", forged.parse().unwrap());
        assert_eq!(client().send(request).await.unwrap().status(), StatusCode::CREATED);
    }
    assert!(accepted_by(&kit).await.iter().all(|(_, by)| by == "a"));
}

#[tokio::test]
async fn a_lease_can_be_forced_at_a_follower() {
    let kit = Kit::new().await;
    let (_a, b) = pair(&kit, Writes::Reject).await;
    let request = post(&kit, &b.url, "/v1/leases/holdfast/release", &json!({}));
    let answer = client().send(request).await.unwrap();
    assert_ne!(code(&answer).1, "not-master");
}

/// I11: the leadership goes from one to the next while writes come in everywhere, and what replicas believe of each other is old.
#[tokio::test(flavor = "multi_thread")]
async fn who_accepts_a_write_leads_while_the_leadership_moves() {
    let kit = Arc::new(Kit::new().await);
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(replica(&kit, name, Writes::Forward, None).await);
    }
    let replicas = Arc::new(replicas);
    let (term, done) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(false)));
    let (moved, ended) = (replicas.clone(), done.clone());
    let leaders = term.clone();
    let mover = tokio::spawn(async move {
        while !*ended.lock().unwrap() {
            let term = leaders.fetch_add(1, Ordering::SeqCst) + 1;
            let next = usize::try_from(term).unwrap() % 3;
            // Nobody leads for a moment; then one does, and the others hear of it later, one by one.
            for replica in moved.iter() {
                let mut belief = replica.seat.belief.lock().unwrap();
                belief.0 = None;
            }
            moved[next].seat.leads(term);
            for (_, replica) in moved.iter().enumerate().filter(|(at, _)| *at != next) {
                pace(Duration::from_millis(2)).await;
                replica.seat.follows(&moved[next].seat.instance, &moved[next].url, term);
            }
            pace(Duration::from_millis(6)).await;
        }
    });
    let mut clients = tokio::task::JoinSet::new();
    for who in 0..3 {
        let (kit, replicas) = (kit.clone(), replicas.clone());
        clients.spawn(async move {
            let (client, mut made) = (client(), Vec::new());
            for n in 0..40 {
                let name = format!("n{who}-{n}.example.com");
                let url = &replicas[(who + n) % 3].url;
                let request = post(&kit, url, "/v1/domains", &json!({ "name": name }));
                let answer = client.send(request).await.unwrap();
                match code(&answer) {
                    (201, _) => made.push(name),
                    (421, code) => assert_eq!(code, "stale-term"),
                    (503, code) => assert_eq!(code, "no-leader"),
                    other => panic!("{other:?}"),
                }
            }
            made
        });
    }
    let made: BTreeSet<String> = clients.join_all().await.into_iter().flatten().collect();
    *done.lock().unwrap() = true;
    mover.await.unwrap();
    // What was promised is there, and what was refused is not.
    let accepted: BTreeSet<String> =
        accepted_by(&kit).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(accepted, made);
    assert!(!made.is_empty());
}
