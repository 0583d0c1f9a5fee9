//! Each fault of the CA and the zone, switched on: the domain reaches Active, or the failure the table names with
//! its cause.

use std::time::Duration;

use holdfast_model::State;
use holdfast_testkit::eventually;

use crate::kit::{Backend, Setup, World, patient, quick};

/// With a ladder that fits a test: it gets there all the same, and no name is finalized in two orders.
async fn overcomes(backend: Backend, kind: &str, value: &str, times: Option<u64>) {
    let world = World::start(Setup { backend, policy: quick(), ..Setup::default() }).await;
    world.devnet.faults().set(kind, value, times).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    assert_eq!(world.finalized().await["shop.test"], 1, "{kind}");
    assert_eq!(world.ca_says("accounts").await.len(), 1, "{kind}");
    assert_eq!(world.history(id).await.last(), Some(&State::Active));
}

/// It ends, or waits, in that state with that cause.
async fn ends_in(kind: &str, value: &str, state: State, cause: &str) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set(kind, value, None).unwrap();
    let id = world.add("shop.test").await;
    let domain = world.reaches(id, state).await;
    let error = domain.last_error.unwrap();
    assert_eq!(error.code, cause, "{error}");
    world.history(id).await;
}

/// A CA that refuses an order in this way, once, is left alone: it costs the domain nothing, and no ladder is climbed.
async fn costs_nothing(answer: &str) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("order-refused", answer, Some(1)).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    assert!(!world.history(id).await.contains(&State::AcmeOrderFailed), "{answer}");
}

/// The account is paused, for every replica, for so long.
async fn pauses(answer: &str, at_least: Duration) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("order-refused", answer, None).unwrap();
    let id = world.add("shop.test").await;
    let (directory, limits) = (world.devnet.directory_url(), Setup::default().limits);
    let until = eventually(Duration::from_secs(60), "a pause", async || {
        let account = world.store.account(&directory, limits).await.unwrap().ok_or("no account")?;
        account.paused_until.filter(|_| world.struck("order-refused") > 0).ok_or("no pause")
    })
    .await;
    let now = world.store.ping().await.unwrap();
    assert!(until.since(now) + Duration::from_secs(30) > at_least, "{until} is too soon");
    let waiting = world.reaches_when(id, "the queue", |domain| !domain.order_open).await;
    assert_eq!((waiting.state, waiting.failures), (State::AcmeOrdering, 0));
    assert_eq!(waiting.last_error, None);
    assert_eq!(world.struck("order-refused"), 1, "it was asked again during the pause");
}

#[tokio::test]
async fn a_503_pauses_even_without_a_word() {
    pauses("503", Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_429_pauses_even_without_a_word() {
    pauses("429", Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_retry_after_pauses_whatever_it_came_with() {
    pauses("400/3600", Duration::from_secs(3600)).await;
    pauses("500/3600", Duration::from_secs(3600)).await;
}

#[tokio::test]
async fn a_ca_that_fails_costs_the_domain_nothing() {
    for answer in ["500", "502", "504"] {
        costs_nothing(answer).await;
    }
}

#[tokio::test]
async fn nothing_wrong_on_sqlite() {
    overcomes(Backend::Sqlite, "bad-nonce", "0", None).await;
}

#[tokio::test]
async fn nothing_wrong_on_postgres() {
    overcomes(Backend::Postgres, "bad-nonce", "0", None).await;
}

#[tokio::test]
async fn bad_nonces() {
    overcomes(Backend::Sqlite, "bad-nonce", "0.3", None).await;
}

#[tokio::test]
async fn server_errors() {
    overcomes(Backend::Postgres, "server-error", "0.2", None).await;
}

#[tokio::test]
async fn dropped_replies() {
    overcomes(Backend::Sqlite, "dropped-reply", "0.2", None).await;
}

#[tokio::test]
async fn unavailable_for_a_while() {
    overcomes(Backend::Postgres, "unavailable", "1", Some(2)).await;
}

#[tokio::test]
async fn slow_validation() {
    overcomes(Backend::Sqlite, "slow-validation", "1500", None).await;
}

#[tokio::test]
async fn long_processing() {
    overcomes(Backend::Sqlite, "processing", "1500", None).await;
}

#[tokio::test]
async fn finalized_but_answered_500() {
    overcomes(Backend::Sqlite, "finalize-error", "shop.test", Some(1)).await;
}

#[tokio::test]
async fn rejected_identifier() {
    ends_in("reject-identifier", "shop.test", State::Failed, "acme-rejected-identifier").await;
}

#[tokio::test]
async fn caa_forbids() {
    ends_in("caa", "shop.test", State::Failed, "acme-caa").await;
}

#[tokio::test]
async fn wrong_answer_at_the_challenge() {
    ends_in("unauthorized", "shop.test", State::AcmeChallengeFailed, "acme-unauthorized").await;
}

#[tokio::test]
async fn order_invalid_at_finalize() {
    ends_in("finalize-invalid", "shop.test", State::AcmeOrderFailed, "acme-server").await;
}

#[tokio::test]
async fn certificate_for_another_name() {
    ends_in("wrong-certificate", "shop.test", State::AcmeOrderFailed, "wrong-certificate").await;
}

#[tokio::test]
async fn servfail() {
    ends_in("dns-servfail", "shop.test", State::DnsVerificationFailed, "dns-servfail").await;
}

#[tokio::test]
async fn points_elsewhere() {
    ends_in("dns-wrong", "shop.test", State::DnsVerificationFailed, "dns-address-elsewhere").await;
}

#[tokio::test]
async fn no_dns_answer() {
    ends_in("dns-timeout", "shop.test", State::DnsVerificationFailed, "dns-timeout").await;
}
