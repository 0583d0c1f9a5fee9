//! Every fault, seen from a client.

use std::time::Duration;

use http::Method;
use instant_acme::{Error, NewOrder, OrderStatus};
use rcgen::KeyPair;
use tokio::time::Instant;

use crate::world::{RETRIES, World, csr, header, identifiers, kind, problem};

fn set(world: &World, kind: &str, value: &str) {
    world.net.faults().set(kind, value, None).unwrap();
}

#[tokio::test]
async fn bad_nonces_are_overcome_by_trying_again() {
    let world = World::start().await;
    let account = world.account().await;
    set(&world, "bad-nonce", "0.5");
    world.issue(&account, &["a.test"]).await.unwrap();
    assert!(world.net.faults().list()[0].struck >= 3);
    set(&world, "bad-nonce", "1");
    assert_eq!(kind(&problem(world.issue(&account, &["b.test"]).await)), "badNonce");
}

#[tokio::test]
async fn server_errors_are_not_processed() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["a.test"]);
    // The nonce, then the order: the second request fails.
    set(&world, "server-error", "0.5");
    let failed = problem(account.new_order(&NewOrder::new(&names)).await);
    assert_eq!((kind(&failed), failed.status), ("serverInternal", Some(500)));
    assert_eq!(world.json("/dev/orders").await, serde_json::json!([]));
}

#[tokio::test]
async fn a_dropped_reply_was_processed() {
    let world = World::start().await;
    let account = world.account().await;
    world.net.faults().set("dropped-reply", "1", Some(1)).unwrap();
    let names = identifiers(&["a.test"]);
    let lost = account.new_order(&NewOrder::new(&names)).await;
    assert!(matches!(lost, Err(Error::Other(_))), "{:?}", lost.err());
    let orders = world.json("/dev/orders").await;
    assert_eq!(orders.as_array().unwrap().len(), 1);
    let order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    assert!(order.url().ends_with(orders[0]["id"].as_str().unwrap()));
}

#[tokio::test]
async fn over_http_1_a_dropped_reply_closes_the_connection() {
    let world = World::start().await;
    set(&world, "dropped-reply", "1");
    let curl = tokio::process::Command::new("curl")
        .args([
            "--http1.1",
            "--insecure",
            "--silent",
            "-d",
            "{}",
            &world.net.url("/acme/new-account"),
        ])
        .status();
    const EMPTY_REPLY: i32 = 52;
    assert_eq!(curl.await.unwrap().code(), Some(EMPTY_REPLY));
}

#[tokio::test]
async fn an_unavailable_ca_says_for_how_long() {
    let world = World::start().await;
    set(&world, "unavailable", "7");
    for path in ["/directory", "/acme/new-nonce"] {
        let answer = world.send(Method::GET, path, "").await;
        assert_eq!((answer.status().as_u16(), header(answer.headers(), "retry-after")), (503, "7"));
    }
    assert_eq!(world.send(Method::GET, "/dev/orders", "").await.status(), 200);
}

#[tokio::test]
async fn slow_requests_take_their_time() {
    let world = World::start().await;
    set(&world, "slow-request", "120");
    let begun = Instant::now();
    world.send(Method::GET, "/directory", "").await;
    assert!(begun.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn the_order_limit_answers_429_until_it_refills() {
    let world = World::start().await;
    let (account, other) = (world.account().await, world.account().await);
    set(&world, "order-limit", "2/3600");
    let order = async |account: &instant_acme::Account, name: &str| {
        account.new_order(&NewOrder::new(&identifiers(&[name]))).await
    };
    order(&account, "a.test").await.unwrap();
    order(&account, "b.test").await.unwrap();
    let limited = problem(order(&account, "c.test").await);
    assert_eq!((kind(&limited), limited.status), ("rateLimited", Some(429)));
    let detail = limited.detail.unwrap();
    assert!(
        detail.starts_with("too many new orders (2) from this account in the last 1h0m0s"),
        "{detail}"
    );
    order(&other, "c.test").await.unwrap();
    world.net.faults().clear("order-limit").unwrap();
    order(&account, "c.test").await.unwrap();
}

#[tokio::test]
async fn slow_validation_and_processing_say_retry_after() {
    let world = World::start().await;
    let account = world.account().await;
    set(&world, "slow-validation", "300");
    set(&world, "processing", "300");
    let names = identifiers(&["a.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    let begun = Instant::now();
    assert_eq!(world.prove(&mut order).await.unwrap(), OrderStatus::Ready);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let key = KeyPair::generate().unwrap();
    order.finalize_csr(&csr(&["a.test"], &key)).await.unwrap();
    assert_eq!(order.state().status, OrderStatus::Processing);
    assert_eq!(kind(&problem(order.finalize_csr(&csr(&["a.test"], &key)).await)), "orderNotReady");
    let begun = Instant::now();
    order.poll_certificate(&RETRIES).await.unwrap();
    // The header counts whole seconds, and instant-acme heeds it.
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let orders = world.json("/dev/orders").await;
    assert_eq!(orders[0]["finalized"], 2);
}

#[tokio::test]
async fn names_can_be_rejected_or_fail_validation() {
    let world = World::start().await;
    let account = world.account().await;
    for (fault, expected) in [
        ("reject-identifier", "rejectedIdentifier"),
        ("caa", "caa"),
        ("unauthorized", "unauthorized"),
    ] {
        set(&world, fault, "struck.test");
        let refused = problem(world.issue(&account, &["struck.test"]).await);
        assert_eq!(kind(&refused), expected);
        world.issue(&account, &["spared.test"]).await.unwrap();
        world.net.faults().clear(fault).unwrap();
    }
    world.issue(&account, &["struck.test"]).await.unwrap();
}

/// Each in the words that a client has to tell it by.
#[tokio::test]
async fn every_scope_of_a_limit_has_its_own_words() {
    let world = World::start().await;
    let account = world.account().await;
    for (fault, value, words) in [
        (
            "failed-authorizations",
            "a.shop.test",
            "too many failed authorizations (5) for \"a.shop.test\" in the last 1h0m0s",
        ),
        (
            "exact-set-limit",
            "a.shop.test",
            "for this exact set of identifiers in the last 168h0m0s",
        ),
        (
            "registered-domain-limit",
            "shop.test",
            "too many certificates (50) already issued for \"shop.test\" in the",
        ),
        ("paused-name", "a.shop.test", "Please visit: https://"),
        ("unknown-limit", "a.shop.test", "the moon"),
        ("challenge-limit", "a.shop.test", "is over quota"),
    ] {
        set(&world, fault, value);
        let refused = problem(world.issue(&account, &["a.shop.test"]).await);
        assert_eq!((kind(&refused), refused.status), ("rateLimited", Some(429)));
        assert!(refused.detail.as_ref().unwrap().contains(words), "{refused:?}");
        world.issue(&account, &["b.shops.test"]).await.unwrap();
        world.net.faults().clear(fault).unwrap();
    }
}

#[tokio::test]
async fn an_order_can_die_when_it_is_finalized() {
    let world = World::start().await;
    let account = world.account().await;
    set(&world, "finalize-invalid", "*.test");
    assert_eq!(kind(&problem(world.issue(&account, &["a.test"]).await)), "serverInternal");
    let orders = world.json("/dev/orders?status=invalid").await;
    assert_eq!((&orders[0]["finalized"], &orders[0]["certificate"]), (&1.into(), &().into()));
    assert!(orders[0]["error"]["detail"].is_string());
}

#[tokio::test]
async fn finalizing_can_work_and_be_answered_500() {
    let world = World::start().await;
    let account = world.account().await;
    set(&world, "finalize-error", "a.test");
    let names = identifiers(&["a.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    world.prove(&mut order).await.unwrap();
    let key = KeyPair::generate().unwrap();
    let failed = problem(order.finalize_csr(&csr(&["a.test"], &key)).await);
    assert_eq!(failed.status, Some(500));
    let chain = order.poll_certificate(&RETRIES).await.unwrap();
    world.verify(&chain, "a.test").unwrap();
    assert_eq!(world.json("/dev/orders").await[0]["finalized"], 1);
}

#[tokio::test]
async fn certificates_can_be_wrong_or_without_their_chain() {
    let world = World::start().await;
    let account = world.account().await;
    set(&world, "wrong-certificate", "wrong.test");
    let wrong = world.issue(&account, &["wrong.test"]).await.unwrap();
    assert!(world.verify(&wrong.chain, "wrong.test").is_err());
    set(&world, "truncated-chain", "short.test");
    let short = world.issue(&account, &["short.test"]).await.unwrap();
    assert_eq!(short.chain.matches("BEGIN CERTIFICATE").count(), 1);
    assert!(world.verify(&short.chain, "short.test").is_err());
}

#[tokio::test]
async fn certificates_can_be_of_another_authority_or_of_another_time() {
    let world = World::start().await;
    let account = world.account().await;
    for (at, (kind, count)) in [
        ("foreign-certificate", 2),
        ("self-signed", 1),
        ("expired-certificate", 2),
        ("early-certificate", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("odd{at}.test");
        set(&world, kind, &name);
        let issued = world.issue(&account, &[&name]).await.unwrap();
        assert_eq!(issued.chain.matches("BEGIN CERTIFICATE").count(), count, "{kind}");
        assert!(world.verify(&issued.chain, &name).is_err(), "{kind}");
        let leaf = issued.leaf();
        let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).unwrap();
        assert_eq!(leaf.public_key().subject_public_key.data, issued.key.public_key_raw());
        assert_eq!(leaf.validity().is_valid(), count == 1 || kind == "foreign-certificate");
        world.net.faults().clear_all();
    }
    let good = world.issue(&account, &["good.test"]).await.unwrap();
    world.verify(&good.chain, "good.test").unwrap();
}

#[tokio::test]
async fn dns_faults_reach_the_ca_too() {
    let world = World::start().await;
    let account = world.account().await;
    for (fault, expected) in [("dns-servfail", "SERVFAIL"), ("dns-timeout", "timed out")] {
        set(&world, fault, "a.test");
        let refused = problem(world.issue(&account, &["a.test"]).await);
        assert_eq!(kind(&refused), "dns");
        assert!(refused.detail.unwrap().contains(expected));
        world.net.faults().clear_all();
    }
}
