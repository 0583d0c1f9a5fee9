//! Certificates by server name: chosen, cached, refused; and the challenge in the handshake.

use std::sync::atomic::Ordering::Relaxed;

use holdfast_agent::Target as _;
use holdfast_store::Secret;
use holdfast_testkit::eventually;
use rustls::{AlertDescription, Error as TlsError};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::kit::{AGES, Ground, LIMIT, name};

#[tokio::test]
async fn two_domains_on_one_port_are_told_apart_by_server_name() {
    let ground = Ground::new().await;
    let (one, two) = (ground.deploy("one.test"), ground.deploy("two.test"));
    let visitor = ground.visitor();
    for (host, sha256) in [("one.test", &one), ("two.test", &two), ("one.test", &one)] {
        let visit = visitor.visit(host).await.unwrap();
        assert_eq!(&visit.sha256, sha256);
        assert!(visit.answer.starts_with("HTTP/1.1 200 OK\r\n"), "{}", visit.answer);
        assert!(visit.answer.contains(host), "{}", visit.answer);
    }
    assert_eq!(ground.memory.lookups.load(Relaxed), 2);
}

#[tokio::test]
async fn the_page_tells_the_certificate_and_escapes_what_others_chose() {
    let ground = Ground::new().await;
    let sha256 = ground.deploy("shop.test");
    let answer = ground.visitor().get("https://shop.test/").await;
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    let page = String::from_utf8_lossy(answer.body()).into_owned();
    let shown: Vec<_> = sha256.as_bytes().chunks(2).map(String::from_utf8_lossy).collect();
    assert!(page.contains(&shown.join(":")), "{page}");
    assert!(page.contains("Edge &lt;test&gt; root") && !page.contains("<test>"), "{page}");
    assert!(page.contains(">2096-10-02 07:06 UTC<"), "{page}");
    assert_eq!(ground.visitor().get("https://shop.test/other").await.status().as_u16(), 404);
}

#[tokio::test]
async fn a_name_nobody_deployed_is_refused_as_such_and_looked_up_once() {
    let ground = Ground::with(|config| config.limits.unknown = AGES).await;
    ground.deploy("known.test");
    let unrecognised = TlsError::AlertReceived(AlertDescription::UnrecognisedName);
    for _ in 0..5 {
        assert_eq!(ground.visitor().refusal("unknown.test").await, unrecognised);
    }
    assert_eq!(ground.memory.lookups.load(Relaxed), 1);
    assert_eq!(ground.visitor().without_sni().refusal("known.test").await, unrecognised);
    assert_eq!(ground.visitor().refusal("under_score.test").await, unrecognised);
    assert_eq!(ground.visitor().refusal("127.0.0.1").await, unrecognised);
    assert_eq!(ground.memory.lookups.load(Relaxed), 1);
    assert_eq!(ground.edge.tallied().unknown_names, 8);
    assert_eq!(ground.sees("unknown.test").await, None);
}

#[tokio::test]
async fn a_name_deployed_after_it_was_asked_for_is_served_at_once() {
    let ground = Ground::new().await;
    ground.visitor().refusal("late.test").await;
    let sha256 = ground.swap("late.test").await;
    assert_eq!(ground.visitor().visit("late.test").await.unwrap().sha256, sha256);
}

#[tokio::test]
async fn many_who_ask_at_once_cause_one_lookup() {
    let ground = Ground::new().await;
    let sha256 = ground.deploy("busy.test");
    ground.memory.gate.close();
    let visits: Vec<_> = (0..50)
        .map(|_| {
            let visitor = ground.visitor();
            tokio::spawn(async move { visitor.visit("busy.test").await.unwrap().sha256 })
        })
        .collect();
    eventually(LIMIT, "the lookup", async || {
        if ground.memory.lookups.load(Relaxed) == 0 { Err("none yet") } else { Ok(()) }
    })
    .await;
    ground.memory.gate.open();
    for visit in visits {
        assert_eq!(visit.await.unwrap(), sha256);
    }
    assert_eq!(ground.memory.lookups.load(Relaxed), 1);
}

#[tokio::test]
async fn a_lookup_that_began_before_a_swap_does_not_undo_it() {
    let ground = Ground::new().await;
    let old = ground.deploy("race.test");
    ground.memory.gate.close();
    let visitor = ground.visitor();
    let early = tokio::spawn(async move { visitor.visit("race.test").await.unwrap().sha256 });
    eventually(LIMIT, "the lookup", async || {
        if ground.memory.lookups.load(Relaxed) == 0 { Err("none yet") } else { Ok(()) }
    })
    .await;
    let new = ground.swap("race.test").await;
    ground.memory.gate.open();
    let seen = early.await.unwrap();
    assert!(seen == old || seen == new);
    assert_eq!(ground.sees("race.test").await, Some(new));
}

#[tokio::test]
async fn the_cache_is_bounded_and_what_fell_out_is_loaded_again() {
    let ground = Ground::with(|config| config.cache_entries = 8).await;
    let names: Vec<_> = (0..40).map(|n| format!("n{n}.test")).collect();
    let wanted: Vec<_> = names.iter().map(|host| ground.deploy(host)).collect();
    for round in 1..=2 {
        for (host, sha256) in names.iter().zip(&wanted) {
            assert_eq!(ground.sees(host).await.as_ref(), Some(sha256), "{host}, round {round}");
        }
    }
    let lookups = ground.memory.lookups.load(Relaxed);
    assert!(lookups >= 40 + 32, "only {lookups} lookups: more than 8 were kept");
}

#[tokio::test]
async fn what_is_at_hand_is_served_while_the_source_is_away() {
    let ground = Ground::with(|config| config.limits.recheck = std::time::Duration::ZERO).await;
    let sha256 = ground.deploy("kept.test");
    ground.deploy("cold.test");
    assert_eq!(ground.sees("kept.test").await.as_ref(), Some(&sha256));
    ground.memory.down.store(true, Relaxed);
    for _ in 0..5 {
        assert_eq!(ground.visitor().visit("kept.test").await.unwrap().sha256, sha256);
    }
    let refusal = ground.visitor().refusal("cold.test").await;
    assert_eq!(refusal, TlsError::AlertReceived(AlertDescription::InternalError));
    ground.memory.down.store(false, Relaxed);
    ground.visitor().visit("cold.test").await.unwrap();
}

#[tokio::test]
async fn a_change_nobody_told_of_is_found_on_a_later_visit() {
    let ground = Ground::with(|config| config.limits.recheck = std::time::Duration::ZERO).await;
    ground.deploy("quiet.test");
    ground.visitor().visit("quiet.test").await.unwrap();
    let new = ground.memory.replace_silently(ground.authority.issue("quiet.test"));
    eventually(LIMIT, "the new certificate", async || {
        let seen = ground.sees("quiet.test").await;
        if seen.as_ref() == Some(&new) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_withdrawn_name_is_refused() {
    let ground = Ground::new().await;
    ground.swap("gone.test").await;
    ground.memory.withdraw("gone.test");
    ground.edge.withdraw(&[name("gone.test")]).await.unwrap();
    assert_eq!(ground.sees("gone.test").await, None);
    ground.edge.withdraw(&[name("never.test")]).await.unwrap();
}

#[tokio::test]
async fn certificates_that_cannot_be_served_are_refused_one_by_one() {
    let ground = Ground::new().await;
    let authority = &ground.authority;
    let good = ground.deploy("good.test");
    let mut no_key = authority.issue("nokey.test");
    no_key.key = authority.issue("other.test").key;
    let mut no_chain = authority.issue("nochain.test");
    no_chain.chain_pem.clear();
    let mut garbage = authority.issue("garbage.test");
    garbage.key =
        Secret::from("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----".to_owned());
    let mut wrong_name = authority.issue("elsewhere.test");
    wrong_name.name = name("wrong.test");
    let hosts = ["good.test", "nokey.test", "nochain.test", "garbage.test", "wrong.test"];
    for bad in [no_key, no_chain, garbage, wrong_name] {
        ground.memory.deploy(&bad);
    }
    let changes: Vec<_> = hosts.iter().map(|host| ground.memory.change(host)).collect();
    let applied = ground.apply(&changes).await;
    assert_eq!(applied[0], Ok(()));
    for (refused, host) in applied.iter().zip(hosts).skip(1) {
        let note = refused.as_ref().unwrap_err();
        assert_eq!(note.code, "edge-certificate-unusable", "{host}");
        assert!(note.detail.contains(host), "{note}");
        ground.visitor().refusal(host).await;
    }
    assert_eq!(ground.sees("good.test").await, Some(good));
}

#[tokio::test]
async fn the_challenge_is_answered_in_the_handshake() {
    let ground = Ground::new().await;
    ground.memory.alpn("new.test", "token.thumbprint");
    // The certificate is self-signed, so a verifying client says so; a look without verifying is by openssl in `clients`.
    let challenger = ground.visitor().offering(&[b"acme-tls/1"]);
    let refusal = challenger.refusal("new.test").await;
    assert!(matches!(refusal, TlsError::InvalidCertificate(_)), "{refusal:?}");
    let unrecognised = TlsError::AlertReceived(AlertDescription::UnrecognisedName);
    assert_eq!(challenger.refusal("other.test").await, unrecognised);
    // Whoever offers more than the challenge is a visitor.
    let visitor = ground.visitor().offering(&[b"acme-tls/1", b"http/1.1"]);
    assert_eq!(visitor.refusal("new.test").await, unrecognised);
    let sha256 = ground.deploy("new.test");
    ground.swap("new.test").await;
    let stream = visitor.connect("new.test").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    drop((stream, sha256));
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let ground = Ground::new().await;
    ground.deploy("shop.test");
    for (path, status) in [("/", 200), ("/other", 404), ("/.well-known/acme-challenge/x", 404)] {
        let request = http::Request::head(format!("https://shop.test{path}"));
        let request = request.body(bytes::Bytes::new()).unwrap();
        let over_2 = ground.visitor().client().send(request).await.unwrap();
        assert_eq!((over_2.status().as_u16(), over_2.body().len()), (status, 0), "{path}");
        let length = over_2.headers()["content-length"].to_str().unwrap();
        let mut stream = ground.visitor().connect("shop.test").await.unwrap();
        let line = format!("HEAD {path} HTTP/1.1");
        let over_1 =
            crate::kit::ask(&mut stream, "shop.test", &line, "Connection: close\r\n").await;
        let over_1 = over_1.unwrap();
        assert!(over_1.contains(&format!("content-length: {length}\r\n")), "{over_1}");
        assert!(length != "0" && over_1.ends_with("\r\n\r\n"), "{over_1}");
    }
}

#[tokio::test]
async fn a_client_of_the_oldest_http_is_served() {
    let ground = Ground::new().await;
    ground.deploy("shop.test");
    for offered in
        [&[&b"http/1.0"[..]][..], &[b"http/1.0", b"http/0.9"], &[b"http/1.0", b"http/1.1"]]
    {
        let visitor = ground.visitor().offering(offered);
        let mut stream = visitor.connect("shop.test").await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().unwrap().to_vec();
        assert_eq!(agreed.ends_with(b"1.1"), offered.len() == 2 && offered[1] == b"http/1.1");
        let answer = crate::kit::ask(&mut stream, "shop.test", "GET / HTTP/1.0", "").await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn the_challenge_certificate_carries_the_digest_critically_and_no_other_name() {
    let ground = Ground::new().await;
    ground.memory.alpn("new.test", "token.thumbprint");
    let leaf = crate::kit::challenge_leaf(ground.edge.https(), "new.test").await;
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names.len(), 1);
    assert_eq!(names.value.general_names[0].to_string(), "DNSName(new.test)");
    let identifier = leaf
        .extensions()
        .iter()
        .find(|extension| extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
        .unwrap();
    assert!(identifier.critical);
    let digest = ring::digest::digest(&ring::digest::SHA256, b"token.thumbprint");
    assert_eq!(identifier.value[..2], [0x04, 0x20]);
    assert_eq!(&identifier.value[2..], digest.as_ref());
    eventually(LIMIT, "the count", async || match ground.edge.tallied().challenges {
        1 => Ok(()),
        count => Err(count),
    })
    .await;
}
