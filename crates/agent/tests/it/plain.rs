//! Plain HTTP: challenges, proofs, and the way to HTTPS.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kit::{Ground, ask};

const TOKEN: &str = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";

async fn raw(ground: &Ground, host: &str, line: &str) -> String {
    let mut tcp = TcpStream::connect(ground.edge.http().unwrap()).await.unwrap();
    ask(&mut tcp, host, line, "Connection: close\r\n").await.unwrap()
}

#[tokio::test]
async fn a_challenge_is_answered_to_the_letter_on_both_ports() {
    let ground = Ground::new().await;
    ground.deploy("shop.test");
    let answer = format!("{TOKEN}.thumbprint");
    ground.memory.challenge(TOKEN, &answer);
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    let seen = raw(&ground, "shop.test", &format!("GET {path} HTTP/1.1")).await;
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
    assert!(seen.contains("content-type: text/plain\r\n"), "{seen}");
    assert!(seen.ends_with(&format!("\r\n\r\n{answer}")), "{seen}");
    // Whatever the host: the CA knows which token it gave.
    let seen = raw(&ground, "127.0.0.1", &format!("GET {path} HTTP/1.1")).await;
    assert!(seen.ends_with(&answer), "{seen}");
    let secure = ground.visitor().get(&format!("https://shop.test{path}")).await;
    assert_eq!((secure.status().as_u16(), secure.body().as_ref()), (200, answer.as_bytes()));
}

#[tokio::test]
async fn unknown_and_impossible_tokens_are_not_found() {
    let ground = Ground::new().await;
    ground.memory.challenge("..", "never");
    for token in ["unknown", "", "..", "a/b", "a%2Fb", "%2e%2e", &"a".repeat(200)] {
        let line = format!("GET /.well-known/acme-challenge/{token} HTTP/1.1");
        let seen = raw(&ground, "shop.test", &line).await;
        assert!(seen.starts_with("HTTP/1.1 404 "), "{token}: {seen}");
    }
    let seen =
        raw(&ground, "shop.test", &format!("POST /.well-known/acme-challenge/{TOKEN} HTTP/1.1"))
            .await;
    assert!(seen.starts_with("HTTP/1.1 405 ") && seen.contains("allow: GET, HEAD\r\n"), "{seen}");
}

#[tokio::test]
async fn without_the_source_a_challenge_is_to_be_asked_again_and_the_rest_goes_on() {
    let ground = Ground::new().await;
    ground.memory.down.store(true, Relaxed);
    let line = format!("GET /.well-known/acme-challenge/{TOKEN} HTTP/1.1");
    assert!(raw(&ground, "shop.test", &line).await.starts_with("HTTP/1.1 503 "));
    assert!(raw(&ground, "shop.test", "GET / HTTP/1.1").await.starts_with("HTTP/1.1 308 "));
}

#[tokio::test]
async fn the_proof_is_given() {
    let ground = Ground::new().await;
    let seen = raw(&ground, "shop.test", "GET /.well-known/holdfast/n0nce HTTP/1.1").await;
    assert!(seen.ends_with("\r\n\r\nproof of n0nce"), "{seen}");
    let seen = raw(&ground, "shop.test", "GET /.well-known/holdfast/no.nonce HTTP/1.1").await;
    assert!(seen.starts_with("HTTP/1.1 404 "), "{seen}");
}

#[tokio::test]
async fn everything_else_is_sent_to_https_with_path_and_query() {
    let ground = Ground::new().await;
    let https = ground.edge.https().port();
    let port = ground.edge.http().unwrap().port();
    let seen = raw(&ground, &format!("Shop.TEST:{port}"), "POST /a/b?c=d&e=%20f HTTP/1.1").await;
    assert!(seen.starts_with("HTTP/1.1 308 Permanent Redirect\r\n"), "{seen}");
    let location = format!("location: https://shop.test:{https}/a/b?c=d&e=%20f\r\n");
    assert!(seen.contains(&location), "{seen}");
    let ground = Ground::with(|config| config.https_port_shown = 443).await;
    let seen = raw(&ground, "shop.test", "GET /x HTTP/1.1").await;
    assert!(seen.contains("location: https://shop.test/x\r\n"), "{seen}");
}

#[tokio::test]
async fn what_names_no_host_is_refused_in_a_sentence() {
    let ground = Ground::new().await;
    for (host, line, sentence) in [
        ("127.0.0.1:8680", "GET / HTTP/1.1", "IP address"),
        ("localhost", "GET / HTTP/1.1", "single label"),
        ("a@b.test", "GET / HTTP/1.1", "not a host name"),
        ("shop.test\r\nHost: other.test", "GET / HTTP/1.1", "more than one host"),
        ("shop.test", "GET http://other.test/ HTTP/1.1", "more than one host"),
        ("shop.test", "OPTIONS * HTTP/1.1", "no path"),
        ("", "GET / HTTP/1.1", "no Host header"),
    ] {
        let seen = raw(&ground, host, line).await;
        assert!(seen.starts_with("HTTP/1.1 400 "), "{host}: {seen}");
        assert!(seen.contains(sentence), "{host}: {seen}");
        assert!(!seen.contains("location:"), "{host}: {seen}");
    }
    let mut tcp = TcpStream::connect(ground.edge.http().unwrap()).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut seen = String::new();
    tcp.read_to_string(&mut seen).await.unwrap();
    assert!(seen.starts_with("HTTP/1.0 400 ") && seen.contains("no Host header"), "{seen}");
}
