//! Between a visitor and the upstream: connections that end, and whose fault it was.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use holdfast_agent::EdgeLimits;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{AGES, Behind, FINE, Ground, LIMIT, Raw};

async fn ground(upstream: std::net::SocketAddr, limit: impl FnOnce(&mut EdgeLimits)) -> Ground {
    let ground = Ground::with(|config| {
        config.upstream = Some(format!("http://{upstream}").parse().unwrap());
        limit(&mut config.limits);
    })
    .await;
    ground.deploy("app.test");
    ground
}

fn request(method: &str, body: &'static str) -> Request<Bytes> {
    let request = Request::builder().method(method).uri("https://app.test/");
    request.body(Bytes::from_static(body.as_bytes())).unwrap()
}

const EVERY_KIND: [(&str, &str); 8] = [
    ("GET", ""),
    ("HEAD", ""),
    ("PUT", ""),
    ("PUT", "x"),
    ("DELETE", ""),
    ("POST", ""),
    ("POST", "x"),
    ("PATCH", "x"),
];

/// Sends requests of every kind over one HTTP/2 connection; gives how many.
async fn requests_succeed(ground: &Ground) -> usize {
    let client = ground.visitor().client();
    for round in 0..20 {
        for (method, body) in EVERY_KIND {
            let answer = client.send(request(method, body)).await.unwrap();
            assert_eq!(answer.status().as_u16(), 200, "{method} {body:?} in round {round}");
        }
    }
    assert_eq!(ground.edge.tallied().upstream_failures, 0);
    20 * EVERY_KIND.len()
}

/// The upstream closes when a second request arrives on a connection, which the edge cannot know beforehand.
#[tokio::test]
async fn no_visitor_notices_that_the_upstream_closed_an_idle_connection() {
    let (raw, address) = Raw::start(FINE, 1).await;
    let ground = ground(address, |_| {}).await;
    let sent = requests_succeed(&ground).await;
    let (twice, once): (Vec<_>, Vec<_>) =
        raw.requests().into_iter().partition(|request| request.starts_with("unanswered"));
    assert_eq!(once.len(), sent);
    for request in twice {
        let (method, body) = request["unanswered ".len()..].split_once(' ').unwrap();
        let is_harmless = ["GET", "HEAD", "PUT", "DELETE"].contains(&method);
        assert!(is_harmless && body.ends_with("\r\n\r\n"), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_visitor_notices_that_the_upstream_closes_after_each_answer() {
    let (raw, address) = Raw::closing(FINE).await;
    let ground = ground(address, |_| {}).await;
    let sent = requests_succeed(&ground).await;
    assert_eq!(raw.requests().len(), sent, "each was carried out once");
}

#[tokio::test]
async fn a_request_is_sent_once_more_at_most_and_only_if_that_does_no_harm() {
    let (raw, address) = Raw::start(FINE, 0).await;
    let ground = ground(address, |_| {}).await;
    for (method, body, times) in
        [("GET", "", 2), ("POST", "", 1), ("PUT", "x", 1), ("PATCH", "x", 1)]
    {
        let answer = ground.visitor().client().send(request(method, body)).await.unwrap();
        assert_eq!(answer.status().as_u16(), 502, "{method}");
        let start = format!("unanswered {method} ");
        let seen = raw.requests().into_iter().filter(|request| request.starts_with(&start));
        assert_eq!(seen.count(), times, "{method}");
    }
    assert_eq!(ground.edge.tallied().upstream_failures, 4);
}

#[tokio::test]
async fn a_connection_to_the_upstream_rests_for_a_bounded_time() {
    for (rest, connections) in [(AGES, 1), (Duration::ZERO, 5)] {
        let (raw, address) = Raw::start(FINE, 100).await;
        let ground = ground(address, |limits| limits.upstream_idle = rest).await;
        let client = ground.visitor().client();
        for _ in 0..5 {
            assert_eq!(client.send(request("GET", "")).await.unwrap().status().as_u16(), 200);
        }
        assert_eq!(raw.connections.load(Relaxed), connections, "after {rest:?}");
    }
}

/// Sends bytes, says nothing more, and reads the answer.
async fn sends(ground: &Ground, bytes: &str, ends: bool) -> String {
    let mut stream = ground.visitor().connect("app.test").await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    if ends {
        stream.shutdown().await.unwrap();
    }
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_that_is_not_framed_as_http_is_the_visitors_mistake() {
    let (_behind, address) = Behind::start().await;
    let ground = ground(address, |_| {}).await;
    let head = "POST /upload HTTP/1.1\r\nHost: app.test\r\n";
    for chunk in ["zz\r\nabc\r\n", "5\r\nhelloX", "-1\r\n", "fffffffffffffffff\r\n"] {
        let bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n{chunk}");
        let answer = sends(&ground, &bytes, false).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{chunk:?}: {answer}");
        assert!(answer.contains("the request's body"), "{answer}");
    }
    let short = format!("{head}Content-Length: 10\r\n\r\nabc");
    let answer = sends(&ground, &short, true).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let coded =
        format!("{head}Connection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    let answer = sends(&ground, &coded, false).await;
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    assert_eq!(ground.edge.tallied().upstream_failures, 0);
}

#[tokio::test]
async fn an_upload_that_stops_is_not_told_as_a_slow_upstream() {
    let (_behind, address) = Behind::start().await;
    let limit = Duration::from_secs(2);
    let ground = ground(address, |limits| limits.upstream = limit).await;
    let bytes = "POST /upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\nabc";
    let answer = sends(&ground, bytes, false).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(ground.edge.tallied().upstream_failures, 0);
    // The same upstream, given everything, is late itself.
    let whole = "POST /ignore-upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
    let answer = sends(&ground, whole, false).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert_eq!(ground.edge.tallied().upstream_failures, 1);
}
