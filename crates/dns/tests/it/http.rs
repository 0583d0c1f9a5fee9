//! Names before which a proxy stands: requests decide.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use holdfast_dns::{Cause, Expectation, HttpProof, HttpReply, Limits, Resolver, Verdict, Via};

use crate::subject::{NAME, expectation, limits, look_for, with};
use holdfast_testkit::dns::Server;

/// A proxy of the customer's on 127.0.0.1, which answers the nonces `good`, `wrong` and `moved` each in its way.
async fn proxy() -> SocketAddr {
    let router = Router::new()
        .route("/.well-known/holdfast/good", get(|| async { "it is us\n" }))
        .route("/.well-known/holdfast/wrong", get(|| async { "parked domain" }))
        .route("/.well-known/holdfast/large", get(|| async { "x".repeat(100_000) }))
        .route(
            "/.well-known/holdfast/moved",
            get(|| async { Redirect::temporary("/.well-known/holdfast/good") }),
        )
        .fallback(|| async { StatusCode::NOT_FOUND });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

fn expecting(nonce: &str, port: u16) -> Expectation {
    let proof = HttpProof { nonce: nonce.to_owned(), answer: "it is us".to_owned(), port };
    Expectation { proof: Some(proof), ..expectation() }
}

#[tokio::test]
async fn a_request_that_reaches_us_counts() {
    let proxy = proxy().await;
    let finding =
        look_for(&expecting("good", proxy.port()), &[(NAME, with(&["A 127.0.0.1"]))]).await;
    assert_eq!(finding.verdict, Verdict::Pointed { via: Via::Http }, "{:?}", finding.seen);
}

#[tokio::test]
async fn a_request_also_counts_behind_a_cname_to_somebody_else() {
    let proxy = proxy().await;
    let zone =
        [(NAME, with(&["CNAME cdn.example.net"])), ("cdn.example.net", with(&["A 127.0.0.1"]))];
    let finding = look_for(&expecting("good", proxy.port()), &zone).await;
    assert_eq!(finding.verdict, Verdict::Pointed { via: Via::Http }, "{:?}", finding.seen);
}

#[tokio::test]
async fn another_answer_does_not_count_and_is_told() {
    let proxy = proxy().await;
    for (nonce, status) in [("wrong", 200), ("large", 200), ("moved", 307), ("absent", 404)] {
        let finding =
            look_for(&expecting(nonce, proxy.port()), &[(NAME, with(&["A 127.0.0.1"]))]).await;
        assert_eq!(finding.verdict, Verdict::NotPointed(Cause::AddressElsewhere), "{nonce}");
        let detail = finding.note().unwrap().detail;
        assert!(
            detail.contains(&format!("over HTTP 127.0.0.1 answered {status}, which is not us")),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn one_address_that_answers_otherwise_spoils_it() {
    let proxy = proxy().await;
    let other = tokio::net::TcpListener::bind(("127.0.0.2", proxy.port())).await.unwrap();
    tokio::spawn(axum::serve(other, Router::new()).into_future());
    let zone = [(NAME, with(&["A 127.0.0.1", "A 127.0.0.2"]))];
    let finding = look_for(&expecting("good", proxy.port()), &zone).await;
    assert_eq!(finding.verdict, Verdict::NotPointed(Cause::AddressElsewhere), "{:?}", finding.seen);
}

#[tokio::test]
async fn nobody_listening_does_not_count() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let finding =
        look_for(&expecting("good", closed.port()), &[(NAME, with(&["A 127.0.0.1"]))]).await;
    assert_eq!(finding.verdict, Verdict::NotPointed(Cause::AddressElsewhere));
    assert_eq!(finding.seen.http[0].reply, HttpReply::None);
}

#[tokio::test]
async fn private_addresses_are_not_asked_unless_allowed() {
    let proxy = proxy().await;
    let server = Server::start([(NAME, with(&["A 127.0.0.1"]))]).await;
    let limits = Limits { ask_private: false, ..limits() };
    let resolver = Resolver::new(Some(&[server.address]), limits).unwrap();
    let finding = resolver.look(&expecting("good", proxy.port())).await;
    assert_eq!(finding.seen.http[0].reply, HttpReply::Private);
    assert_eq!(finding.verdict, Verdict::NotPointed(Cause::AddressElsewhere));
}

#[tokio::test]
async fn nobody_is_asked_when_dns_settles_it() {
    let ours: IpAddr = "127.0.0.1".parse().unwrap();
    let expectation = Expectation { addresses: vec![ours], ..expecting("wrong", 1) };
    let finding = look_for(&expectation, &[(NAME, with(&["A 127.0.0.1"]))]).await;
    assert_eq!(finding.verdict, Verdict::Pointed { via: Via::Address });
    assert!(finding.seen.http.is_empty());
}
