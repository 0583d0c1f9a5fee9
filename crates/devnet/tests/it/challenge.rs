//! The three challenges, by real answers: right ones, wrong ones, and DNS in between.

use std::net::Ipv6Addr;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, KeyAuthorization, NewOrder, OrderStatus,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use crate::web::{Tls, challenge_path};
use crate::world::{RETRIES, World, identifiers, kind, problem};

/// Orders a name and proves it as the closure says.
async fn prove(
    account: &Account,
    name: &str,
    challenge: ChallengeType,
    answer: impl AsyncFn(&str, &KeyAuthorization),
) -> Result<OrderStatus, Error> {
    let names = identifiers(&[name]);
    let mut order = account.new_order(&NewOrder::new(&names)).await?;
    let mut authorizations = order.authorizations();
    let mut authorization = authorizations.next().await.unwrap()?;
    let mut challenge =
        authorization.challenge(challenge).ok_or(Error::Str("no such challenge"))?;
    answer(&challenge.token.clone(), &challenge.key_authorization()).await;
    challenge.set_ready().await?;
    order.poll_ready(&RETRIES).await
}

/// The same, failing with a problem of this kind whose detail has this text.
async fn refused(
    world: &World,
    name: &str,
    challenge: ChallengeType,
    answer: impl AsyncFn(&str, &KeyAuthorization),
    expected: (&str, &str),
) {
    let account = world.account().await;
    let problem = problem(prove(&account, name, challenge, answer).await);
    let detail = problem.detail.clone().unwrap_or_default();
    assert_eq!(kind(&problem), expected.0, "{detail}");
    assert!(detail.contains(expected.1), "{detail}");
}

async fn nothing(_: &str, _: &KeyAuthorization) {}

#[tokio::test]
async fn http_01_follows_up_to_ten_redirects() {
    let world = World::start().await;
    let account = world.account().await;
    let hops = async |count: usize| {
        prove(&account, &format!("hops{count}.test"), ChallengeType::Http01, async |token, key| {
            world.web.redirect(&challenge_path(token), &format!("/{token}/1"));
            for hop in 1..count {
                let next = format!("http://other.test/{token}/{}", hop + 1);
                world.web.redirect(&format!("/{token}/{hop}"), &next);
            }
            world.web.page(&format!("/{token}/{count}"), &format!("{}\n", key.as_str()));
        })
        .await
    };
    assert_eq!(hops(1).await.unwrap(), OrderStatus::Ready);
    assert_eq!(hops(10).await.unwrap(), OrderStatus::Ready);
    assert_eq!(kind(&problem(hops(11).await)), "connection");
}

#[tokio::test]
async fn http_01_follows_no_redirect_to_another_port() {
    let world = World::start().await;
    let redirect = async |token: &str, _: &KeyAuthorization| {
        world.web.redirect(&challenge_path(token), "http://other.test:22/");
    };
    refused(&world, "a.test", ChallengeType::Http01, redirect, ("connection", "redirects to"))
        .await;
}

#[tokio::test]
async fn http_01_tells_what_it_saw() {
    let world = World::start().await;
    refused(&world, "none.test", ChallengeType::Http01, nothing, ("unauthorized", "404")).await;
    let wrong =
        async |token: &str, _: &KeyAuthorization| world.web.challenge(token, "something else");
    refused(&world, "wrong.test", ChallengeType::Http01, wrong, ("unauthorized", "something else"))
        .await;
    let large = async |token: &str, key: &KeyAuthorization| {
        world.web.challenge(token, &format!("{}{}", key.as_str(), " ".repeat(100_000)));
    };
    refused(&world, "large.test", ChallengeType::Http01, large, ("unauthorized", "larger than"))
        .await;
    world.net.zone().set("closed.test", "A", "127.0.0.9").unwrap();
    refused(&world, "closed.test", ChallengeType::Http01, nothing, ("connection", "127.0.0.9"))
        .await;
}

#[tokio::test]
async fn ipv6_is_asked_first_and_a_wrong_answer_counts() {
    let world = World::start().await;
    let account = world.account().await;
    let good = async |token: &str, key: &KeyAuthorization| world.web.challenge(token, key.as_str());
    for (kind, value) in [("AAAA", "::1"), ("A", "127.0.0.1")] {
        world.net.zone().set("dual.test", kind, value).unwrap();
    }
    // Nobody listens on IPv6: the good IPv4 answer counts.
    let ready = prove(&account, "dual.test", ChallengeType::Http01, good).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
    let port = world.web.listen("127.0.0.1".parse().unwrap(), 0).await;
    let stale = crate::web::Web::default();
    assert_eq!(stale.listen(Ipv6Addr::LOCALHOST.into(), port).await, port);
    world.net.set_ports(port, 1);
    refused(&world, "dual.test", ChallengeType::Http01, good, ("unauthorized", "[::1]")).await;
}

#[tokio::test]
async fn dns_01_wants_the_text_at_its_place() {
    let world = World::start().await;
    let account = world.account().await;
    let set = |name: &str, key: &KeyAuthorization| {
        world.net.zone().set(name, "TXT", &key.dns_value()).unwrap();
    };
    let direct = async |_: &str, key: &KeyAuthorization| set("_acme-challenge.a.test", key);
    let ready = prove(&account, "a.test", ChallengeType::Dns01, direct).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
    world.net.zone().set("_acme-challenge.alias.test", "CNAME", "proof.elsewhere.test").unwrap();
    let aliased = async |_: &str, key: &KeyAuthorization| {
        world.net.zone().set("proof.elsewhere.test", "TXT", "another value").unwrap();
        set("proof.elsewhere.test", key);
    };
    let ready = prove(&account, "alias.test", ChallengeType::Dns01, aliased).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
    refused(&world, "none.test", ChallengeType::Dns01, nothing, ("unauthorized", "no TXT record"))
        .await;
    world.net.zone().set("_acme-challenge.wrong.test", "TXT", "wrong").unwrap();
    refused(&world, "wrong.test", ChallengeType::Dns01, nothing, ("unauthorized", "\"wrong\""))
        .await;
}

#[tokio::test]
async fn a_long_answer_comes_over_tcp() {
    let world = World::start().await;
    let account = world.account().await;
    let owner = "_acme-challenge.many.test";
    for number in 0..60 {
        world.net.zone().set(owner, "TXT", &format!("{number:0>100}")).unwrap();
    }
    let direct = async |_: &str, key: &KeyAuthorization| {
        world.net.zone().set(owner, "TXT", &key.dns_value()).unwrap();
    };
    let ready = prove(&account, "many.test", ChallengeType::Dns01, direct).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
}

#[tokio::test]
async fn a_wildcard_is_proven_by_dns_alone() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["*.wild.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let mut authorizations = order.authorizations();
    let mut authorization = authorizations.next().await.unwrap().unwrap();
    assert!(authorization.wildcard);
    assert_eq!(authorization.challenges.len(), 1);
    let mut challenge = authorization.challenge(ChallengeType::Dns01).unwrap();
    let value = challenge.key_authorization().dns_value();
    world.net.zone().set("_acme-challenge.wild.test", "TXT", &value).unwrap();
    challenge.set_ready().await.unwrap();
    assert_eq!(order.poll_ready(&RETRIES).await.unwrap(), OrderStatus::Ready);
    let key = KeyPair::generate().unwrap();
    order.finalize_csr(&crate::world::csr(&["*.wild.test"], &key)).await.unwrap();
    let chain = order.poll_certificate(&RETRIES).await.unwrap();
    world.verify(&chain, "x.wild.test").unwrap();
}

fn present(tls: &Tls, names: &[&str], digest: Option<&[u8]>, critical: bool) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    if let Some(digest) = digest {
        let mut extension = CustomExtension::new_acme_identifier(digest);
        extension.set_criticality(critical);
        params.custom_extensions.push(extension);
    }
    let key = KeyPair::generate().unwrap();
    tls.present(&params.self_signed(&key).unwrap(), &key);
}

#[tokio::test]
async fn tls_alpn_01_looks_at_protocol_name_and_digest() {
    let world = World::start().await;
    let account = world.account().await;
    let tls = Tls::default();
    let (address, _serving) = tls.listen(b"acme-tls/1").await;
    world.net.set_ports(1, address.port());
    let good = async |_: &str, key: &KeyAuthorization| {
        present(&tls, &["a.test"], Some(key.digest().as_ref()), true);
    };
    let ready = prove(&account, "a.test", ChallengeType::TlsAlpn01, good).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
    let kind = ChallengeType::TlsAlpn01;
    let two_names = async |_: &str, key: &KeyAuthorization| {
        present(&tls, &["b.test", "c.test"], Some(key.digest().as_ref()), true);
    };
    refused(&world, "b.test", kind.clone(), two_names, ("unauthorized", "alternative name")).await;
    let plain = async |_: &str, _: &KeyAuthorization| present(&tls, &["b.test"], None, true);
    refused(&world, "b.test", kind.clone(), plain, ("unauthorized", "no acmeIdentifier")).await;
    let wrong =
        async |_: &str, _: &KeyAuthorization| present(&tls, &["b.test"], Some(&[0; 32]), true);
    refused(&world, "b.test", kind.clone(), wrong, ("unauthorized", "not the digest")).await;
    let lax = async |_: &str, key: &KeyAuthorization| {
        present(&tls, &["b.test"], Some(key.digest().as_ref()), false);
    };
    refused(&world, "b.test", kind.clone(), lax, ("unauthorized", "not critical")).await;
    let (other, _serving) = tls.listen(b"h2").await;
    world.net.set_ports(1, other.port());
    refused(&world, "b.test", kind, nothing, ("tls", "handshake")).await;
}

#[tokio::test]
async fn caa_is_heeded_at_the_name_its_alias_and_above() {
    let world = World::start().await;
    let account = world.account().await;
    let good = async |token: &str, key: &KeyAuthorization| world.web.challenge(token, key.as_str());
    let zone = world.net.zone();
    zone.set("own.test", "A", "127.0.0.1").unwrap();
    zone.set("own.test", "CAA", "0 issue \"other.example\"").unwrap();
    refused(&world, "own.test", ChallengeType::Http01, good, ("caa", "at own.test")).await;
    zone.set("own.test", "CAA", "0 issue \"ca.holdfast.test\"").unwrap();
    let ready = prove(&account, "own.test", ChallengeType::Http01, good).await;
    assert_eq!(ready.unwrap(), OrderStatus::Ready);
    zone.set("above.test", "CAA", "0 issue \";\"").unwrap();
    refused(&world, "www.above.test", ChallengeType::Http01, good, ("caa", "at above.test")).await;
    zone.set("edge.holdfast.test", "A", "127.0.0.1").unwrap();
    zone.set("edge.holdfast.test", "CAA", "128 unknown \"x\"").unwrap();
    refused(&world, "alias.test", ChallengeType::Http01, good, ("caa", "critical")).await;
}

#[tokio::test]
async fn what_dns_says_wrong_is_told() {
    let world = World::start().await;
    let zone = world.net.zone();
    let cases = [
        ("gone.test", "NONE", "-", "NXDOMAIN"),
        ("broken.test", "SERVFAIL", "-", "SERVFAIL"),
        ("refused.test", "REFUSED", "-", "REFUSED"),
        ("silent.test", "TIMEOUT", "-", "timed out"),
        ("empty.test", "TXT", "nothing else", "neither A nor AAAA"),
        ("loop.test", "CNAME", "pool.test", "loop"),
        ("pool.test", "CNAME", "loop.test", "loop"),
        ("leaves.test", "CNAME", "elsewhere.example", "REFUSED"),
    ];
    for (name, kind, value, _) in cases {
        zone.set(name, kind, value).unwrap();
    }
    for (name, _, _, expected) in cases {
        refused(&world, name, ChallengeType::Http01, nothing, ("dns", expected)).await;
    }
    refused(&world, "shop.example", ChallengeType::Http01, nothing, ("dns", "REFUSED")).await;
}

#[tokio::test]
async fn a_failed_challenge_cannot_be_tried_again() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["again.test", "other.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    {
        let mut authorizations = order.authorizations();
        let mut authorization = authorizations.next().await.unwrap().unwrap();
        authorization.challenge(ChallengeType::Http01).unwrap().set_ready().await.unwrap();
    }
    let failed = problem(order.poll_ready(&RETRIES).await);
    assert_eq!((kind(&failed), failed.subproblems.len()), ("compound", 1));
    assert_eq!(
        failed.subproblems[0].r#type.as_deref(),
        Some("urn:ietf:params:acme:error:unauthorized")
    );
    let mut authorizations = order.authorizations();
    let mut authorization = authorizations.next().await.unwrap().unwrap();
    authorization.refresh().await.unwrap();
    assert_eq!(authorization.status, AuthorizationStatus::Invalid);
    let again = authorization.challenge(ChallengeType::Http01).unwrap().set_ready().await;
    assert_eq!(kind(&problem(again)), "malformed");
}
