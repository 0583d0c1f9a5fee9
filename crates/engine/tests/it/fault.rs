//! Each fault of the CA and the zone, switched on: the domain reaches Active, or the failure the table names with
//! its cause.

use std::time::Duration;

use holdfast_model::{Domain, State};
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

/// Refused in words that nobody knows, the name leaves the queue for so long, and nothing else waits.
async fn defers(answer: &str, wait: Duration) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("order-refused", answer, Some(1)).unwrap();
    let id = world.add("shop.test").await;
    let deferred = |domain: &Domain| domain.queued_at.is_none() && domain.last_error.is_some();
    let domain = world.reaches_when(id, "to be deferred", deferred).await;
    assert_eq!((domain.state, domain.failures, domain.attempt), (State::AcmeOrdering, 0, 0));
    let until = domain.next_attempt_at.unwrap().since(world.store.ping().await.unwrap());
    assert!(until + Duration::from_secs(30) > wait && until < wait * 6 / 5, "{answer}: {until:?}");
    let other = world.add("other.test").await;
    world.reaches(other, State::Active).await;
}

/// Sent away, this replica asks nothing meanwhile; the domain keeps its place, at no cost.
async fn sends_away(answer: &str, asks_again: bool) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("order-refused", answer, None).unwrap();
    let id = world.add("shop.test").await;
    let enough = if asks_again { 2 } else { 1 };
    eventually(Duration::from_secs(60), "to be refused", async || {
        match world.struck("order-refused") {
            struck if struck >= enough => Ok(()),
            struck => Err(struck),
        }
    })
    .await;
    let waiting = world.reaches_when(id, "the queue", |domain| !domain.order_open).await;
    assert_eq!((waiting.state, waiting.failures), (State::AcmeOrdering, 0));
    assert!(waiting.queued_at.is_some() || waiting.next_attempt_at.is_some());
    assert!(asks_again || world.struck("order-refused") == 1, "{answer}: it was asked meanwhile");
}

#[tokio::test]
async fn a_503_sends_this_replica_away_even_without_a_word() {
    sends_away("503", true).await;
}

#[tokio::test]
async fn a_429_that_nobody_knows_is_about_the_name() {
    defers("429", Duration::from_secs(600)).await;
    defers("429/3600", Duration::from_secs(3600)).await;
}

#[tokio::test]
async fn a_retry_after_is_kept_whatever_it_came_with() {
    defers("400/3600", Duration::from_secs(3600)).await;
    sends_away("500/3600", false).await;
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
