//! A glance is short, and blames nobody for silence.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use holdfast_dns::{Cause, Expectation, Glance, HttpProof, Limits, Resolver, Verdict, Via};
use holdfast_model::{Hostname, Note};
use holdfast_testkit::dns::{Behaviour, Server, records};
use holdfast_testkit::eventually;
use tokio::time::Instant;

use crate::subject::{NAME, TARGET, expectation, with};

fn resolver(server: SocketAddr) -> Resolver {
    let limits = Limits { ask_private: true, ..Limits::default() };
    Resolver::new(Some(&[server]), limits).unwrap()
}

async fn glance(zone: &[(&str, Behaviour)]) -> Glance {
    let server = Server::start(zone.iter().cloned()).await;
    let resolver = resolver(server.address);
    let turn = resolver.turn().await;
    resolver.glance(&expectation(), turn).await
}

#[track_caller]
fn is_silent(glance: &Glance) {
    match glance {
        Glance::Silent(note) => {
            assert_eq!(note.code, Note::DNS_SILENT);
            assert!(note.is_silence_of_dns());
            assert!(note.detail.contains("looked at again"), "{}", note.detail);
        }
        Glance::Clear(finding) => panic!("{:?}", finding.seen),
    }
}

#[track_caller]
fn is_clear(glance: Glance, verdict: Verdict) {
    match glance {
        Glance::Clear(finding) => assert_eq!(finding.verdict, verdict, "{:?}", finding.seen),
        Glance::Silent(note) => panic!("{note}"),
    }
}

#[tokio::test]
async fn what_answers_is_judged() {
    let servfail = Behaviour::Fails(ResponseCode::ServFail, vec![]);
    let target = with(&["A 203.0.113.9"]);
    for (behaviour, verdict) in [
        (with(&["CNAME edge.holdfast.test"]), Verdict::Pointed { via: Via::Cname }),
        (with(&["A 198.51.100.7"]), Verdict::NotPointed(Cause::AddressElsewhere)),
        (with(&[]), Verdict::NotPointed(Cause::NoRecords)),
        (servfail, Verdict::NotPointed(Cause::Servfail)),
    ] {
        is_clear(glance(&[(NAME, behaviour), (TARGET, target.clone())]).await, verdict);
    }
}

#[tokio::test]
async fn silence_is_no_verdict_and_is_short() {
    let slow = Behaviour::Slow(Duration::from_secs(4), records(&["CNAME edge.holdfast.test"]));
    for behaviour in [Behaviour::Silent, Behaviour::TcpHangs, slow] {
        let began = Instant::now();
        is_silent(&glance(&[(NAME, behaviour)]).await);
        // A whole look takes six.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_resolver_that_is_silent_is_told_and_no_verdict() {
    let dead = Server::start([("*", Behaviour::Silent), ("", Behaviour::Silent)]).await;
    let resolver = resolver(dead.address);
    assert!(!resolver.is_heard_of() && !resolver.answers().await);
    match resolver.glance(&expectation(), resolver.turn().await).await {
        Glance::Silent(note) => assert_eq!(note.code, Note::DNS_RESOLVER_UNREACHABLE),
        Glance::Clear(finding) => panic!("{:?}", finding.seen),
    }
    let alive = Server::start([("*", Behaviour::Silent)]).await;
    let resolver = self::resolver(alive.address);
    assert!(resolver.answers().await && resolver.is_heard_of());
}

/// It may lead elsewhere, where a CA would look first.
#[tokio::test]
async fn one_family_that_is_silent_is_no_verdict() {
    let half = Behaviour::SilentOnIpv6(records(&["CNAME edge.holdfast.test"]));
    is_silent(&glance(&[(NAME, half)]).await);
}

#[tokio::test]
async fn a_silent_target_is_no_verdict() {
    let zone = [(NAME, with(&["A 203.0.113.9"])), (TARGET, Behaviour::Silent)];
    is_silent(&glance(&zone).await);
}

/// A proxy before us that takes its time.
#[tokio::test]
async fn silence_over_http_is_no_verdict() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proof = HttpProof { nonce: "n".to_owned(), answer: "it is us".to_owned(), port };
    let expectation = Expectation { proof: Some(proof), ..expectation() };
    let zone = [(NAME, with(&["A 127.0.0.1"])), (TARGET, with(&["A 203.0.113.9"]))];
    let server = Server::start(zone).await;
    let resolver = resolver(server.address);
    is_silent(&resolver.glance(&expectation, resolver.turn().await).await);
}

/// Glances at names that are silent take their room, and no more than a moment each.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_silent_names_take_no_longer_than_one() {
    let zone = [("*.silent.test", Behaviour::Silent), ("*", with(&["CNAME edge.holdfast.test"]))];
    let server = Server::start(zone).await;
    let resolver = resolver(server.address);
    let of = |name: String| {
        let resolver = resolver.clone();
        async move {
            let name = Hostname::parse(&name).unwrap();
            let turn = resolver.turn().await;
            resolver.glance(&Expectation { name, ..expectation() }, turn).await
        }
    };
    let began = Instant::now();
    let silent: Vec<_> = (0..600).map(|n| tokio::spawn(of(format!("n{n}.silent.test")))).collect();
    // So many datagrams in one moment are more than the server's socket holds.
    eventually(Duration::from_secs(5), "the silent ones to be asked for", async || {
        let asked = |n: &usize| server.questions(&format!("n{n}.silent.test")) > 0;
        match (0..600).filter(asked).count() {
            400.. => Ok(()),
            few => Err(few),
        }
    })
    .await;
    let good: Vec<_> = (0..100).map(|n| tokio::spawn(of(format!("n{n}.test")))).collect();
    for one in good {
        is_clear(one.await.unwrap(), Verdict::Pointed { via: Via::Cname });
    }
    // Beside room for 64 of them the silent ones would take eleven seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "they waited for the silent ones");
    for one in silent {
        is_silent(&one.await.unwrap());
    }
}
