//! The embedded CA with each of its faults: every refusal leads where the design says, in the CA's own words.

use std::time::Duration;

use futures_util::future::join_all;
use holdfast_acme::certificate::check_pair;
use holdfast_acme::{CaConfig, Class, Error, OrderStatus, Proof, Verdict, WaitScope};
use holdfast_store::Secret;

use crate::kit::{Net, issue, name, settled, verdict};

fn trouble(error: &Error, code: &str) {
    assert!(
        matches!(error.class(), Class::Trouble(note) if note.code == code),
        "{error} {:?}",
        error.class()
    );
}

fn unavailable(error: &Error, code: &str) {
    assert!(
        matches!(error.class(), Class::Unavailable(note) if note.code == code),
        "{error} {:?}",
        error.class()
    );
}

#[tokio::test]
async fn a_storm_of_bad_nonces_is_weathered() {
    let net = Net::start().await;
    for rate in ["0.2", "0.4"] {
        net.fault("bad-nonce", rate, None);
        let ca = net.ca();
        let hosts: Vec<String> = (0..8)
            .map(|number| format!("n{number}-{}.shop.test", rate.replace('.', "-")))
            .collect();
        join_all(hosts.iter().map(|host| issue(&ca, &net.answers, host))).await;
    }
    assert_eq!(net.listed("accounts").await.len(), 1);
    let orders = net.listed("orders").await;
    assert!(orders.len() == 16 && orders.iter().all(|order| order["finalized"] == 1));
}

#[tokio::test]
async fn a_ca_that_takes_no_nonce_is_not_asked_for_ever() {
    let net = Net::start().await;
    let ca = net.ca();
    ca.account().await.unwrap();
    net.fault("bad-nonce", "1", None);
    trouble(&ca.new_order(&name("no.shop.test"), None).await.unwrap_err(), "acme-malformed");
    assert!(net.devnet.faults().list()[0].struck <= 12);
}

#[tokio::test]
async fn too_many_orders_mean_wait() {
    let net = Net::start().await;
    let ca = net.ca();
    net.fault("order-limit", "2/60", None);
    for host in ["a.shop.test", "b.shop.test"] {
        ca.new_order(&name(host), None).await.unwrap();
    }
    let error = ca.new_order(&name("c.shop.test"), None).await.unwrap_err();
    let Class::Wait { after: Some(after), note, scope: WaitScope::Account } = error.class() else {
        panic!("{error}")
    };
    assert!((28..=30).contains(&after.as_secs()), "{after:?}");
    assert_eq!(note.code, "acme-rate-limited");
    assert!(
        note.detail.contains("too many new orders (2) from this account in the last 1m0s"),
        "{note}"
    );
}

#[tokio::test]
async fn a_ca_that_is_away_means_wait_for_every_request() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, challenge) = net.challenged(&ca, "away.shop.test").await;
    let (chain, key) = issue(&ca, &net.answers, "here.shop.test").await;
    net.fault("unavailable", "37", None);
    let errors = [
        net.ca().account().await.unwrap_err(),
        ca.new_order(&name("new.shop.test"), None).await.unwrap_err(),
        ca.order(&url).await.unwrap_err(),
        ca.accept(&challenge).await.unwrap_err(),
        ca.verdict(&challenge).await.unwrap_err(),
        ca.finalize(&url, b"").await.unwrap_err(),
        ca.certificate(&url).await.unwrap_err(),
        ca.renewal_window(&chain).await.unwrap_err(),
        ca.revoke(&chain, Some(&key)).await.unwrap_err(),
        ca.change_key().await.unwrap_err(),
    ];
    for error in errors {
        let Class::Wait { after, note, scope: WaitScope::Server } = error.class() else {
            panic!("{error}")
        };
        assert_eq!(
            (after, note.code.as_ref()),
            (Some(Duration::from_secs(37)), "acme-server"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_ca_in_trouble_is_unavailable() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, challenge) = net.challenged(&ca, "ill.shop.test").await;
    net.fault("server-error", "1", None);
    unavailable(&net.ca().account().await.unwrap_err(), "acme-server");
    unavailable(&ca.new_order(&name("new.shop.test"), None).await.unwrap_err(), "acme-server");
    unavailable(&ca.order(&url).await.unwrap_err(), "acme-server");
    unavailable(&ca.accept(&challenge).await.unwrap_err(), "acme-server");
    unavailable(&ca.verdict(&challenge).await.unwrap_err(), "acme-server");
    unavailable(&ca.finalize(&url, b"").await.unwrap_err(), "acme-server");
}

#[tokio::test]
async fn a_ca_that_does_not_answer_is_unreachable() {
    let net = Net::start().await;
    let ca = net.ca_with(CaConfig { time_limit: Duration::from_millis(300), ..net.config() });
    ca.account().await.unwrap();
    net.fault("slow-request", "5000", None);
    let error = ca.new_order(&name("slow.shop.test"), None).await.unwrap_err();
    unavailable(&error, "ca-unreachable");
    assert!(
        error.class().note().detail.contains("did not answer within 300ms"),
        "{:?}",
        error.class()
    );
    let config = net.config();
    let Net { devnet, store, .. } = net;
    devnet.shutdown().await;
    let error = holdfast_acme::Ca::new(config, store).unwrap().account().await.unwrap_err();
    unavailable(&error, "ca-unreachable");
    assert!(error.class().note().detail.contains("could not connect"), "{:?}", error.class());
}

/// Every second answer is lost, although the CA did what it was asked: repeated until it is known.
#[tokio::test]
async fn lost_answers_make_no_second_certificate() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, csr) = net.ready(&ca, "lost.shop.test").await;
    assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Ready);
    net.fault("dropped-reply", "1", Some(1));
    unavailable(&ca.finalize(&url, &csr).await.unwrap_err(), "ca-unreachable");
    assert_eq!(
        ca.finalize(&url, &csr).await.unwrap(),
        OrderStatus::Valid,
        "read, not finalized again"
    );
    // What is merely read is asked for again at once, so often.
    net.fault("dropped-reply", "1", Some(2));
    ca.certificate(&url).await.unwrap();
    net.fault("dropped-reply", "1", Some(3));
    unavailable(&ca.certificate(&url).await.unwrap_err(), "ca-unreachable");
    assert_eq!(net.devnet.faults().list(), [], "it was asked for three times, and no more");
    net.fault("dropped-reply", "1", Some(1));
    unavailable(&ca.new_order(&name("again.shop.test"), None).await.unwrap_err(), "ca-unreachable");
    ca.new_order(&name("again.shop.test"), None).await.unwrap();
    let orders = net.listed("orders").await;
    assert_eq!(orders.len(), 2, "the pending order was given again");
    assert_eq!(orders[0]["finalized"], 1);
}

#[tokio::test]
async fn a_lost_registration_is_no_second_account() {
    let net = Net::start().await;
    net.fault("dropped-reply", "1", Some(1));
    unavailable(&net.ca().account().await.unwrap_err(), "ca-unreachable");
    net.ca().account().await.unwrap();
    assert_eq!(net.listed("accounts").await.len(), 1);
}

#[tokio::test]
async fn an_answer_of_500_to_a_finalization_that_worked_is_looked_into() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, csr) = net.ready(&ca, "odd.shop.test").await;
    net.fault("finalize-error", "odd.shop.test", None);
    unavailable(&ca.finalize(&url, &csr).await.unwrap_err(), "acme-server");
    assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Valid);
    ca.certificate(&url).await.unwrap();
    assert_eq!(net.listed("orders").await[0]["finalized"], 1);
}

/// Ready when it was read, finalized by another since: the CA says orderNotReady, the order says how far it is.
#[tokio::test]
async fn an_order_that_moved_on_is_read_again() {
    let net = Net::start().await;
    let (ca, other) = (net.ca(), net.ca());
    let (url, csr) = net.ready(&ca, "raced.shop.test").await;
    assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Ready);
    assert_eq!(other.finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
    assert_eq!(ca.finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
    assert_eq!(ca.certificate(&url).await.unwrap(), other.certificate(&url).await.unwrap());
}

#[tokio::test]
async fn waiting_is_as_long_as_the_ca_says() {
    let net = Net::start().await;
    let ca = net.ca();
    net.fault("slow-validation", "1500", None);
    let (url, challenge) = net.challenged(&ca, "slow.shop.test").await;
    ca.accept(&challenge).await.unwrap();
    let pending = ca.verdict(&challenge).await.unwrap();
    let Verdict::Pending { retry_after: Some(wait) } = pending else { panic!("{pending:?}") };
    assert!((1..=2).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!(verdict(&ca, &challenge).await, Verdict::Valid);
    net.fault("processing", "1500", None);
    let (_, csr) = holdfast_acme::key_and_csr(&name("slow.shop.test"), ca.key_type()).unwrap();
    let finalized = ca.finalize(&url, &csr).await.unwrap();
    let again = ca.finalize(&url, &csr).await.unwrap();
    for status in [finalized, again, ca.order(&url).await.unwrap()] {
        let OrderStatus::Processing { retry_after: Some(wait) } = status else {
            panic!("{status:?}")
        };
        assert!((1..=2).contains(&wait.as_secs()), "{wait:?}");
    }
    settled(&ca, &url).await;
    ca.certificate(&url).await.unwrap();
    assert_eq!(net.listed("orders").await[0]["finalized"], 1);
}

#[tokio::test]
async fn a_name_that_the_ca_does_not_certify_is_hopeless() {
    let net = Net::start().await;
    let ca = net.ca();
    net.fault("reject-identifier", "*.bank.test", None);
    let error = ca.new_order(&name("my.bank.test"), None).await.unwrap_err();
    let Class::Hopeless(note) = error.class() else { panic!("{error}") };
    assert_eq!(note.code, "acme-rejected-identifier");
    assert!(note.detail.contains("policy forbids issuing for \"my.bank.test\""), "{note}");
    assert_eq!(error.refusal().unwrap().status, 400);
}

/// A proof that fails: the words are the same wherever one asks.
async fn fails(net: &Net, host: &str, code: &str, words: &str) {
    let ca = net.ca();
    let url = ca.new_order(&name(host), None).await.unwrap().url;
    let Proof::Needed(challenge) = ca.proof(&url).await.unwrap() else { panic!("no proof needed") };
    if code == "acme-unauthorized" {
        net.answers.spoil(&challenge);
    } else {
        net.answers.put(&challenge);
    }
    ca.accept(&challenge).await.unwrap();
    let Verdict::Invalid(note) = verdict(&ca, &challenge).await else { panic!("it did not fail") };
    assert_eq!(note.code, code, "{note}");
    assert!(note.detail.contains(words), "{note}");
    ca.accept(&challenge).await.unwrap();
    for ca in [ca, net.ca()] {
        assert_eq!(ca.proof(&url).await.unwrap(), Proof::Invalid(note.clone()));
        let OrderStatus::Invalid(told) = ca.order(&url).await.unwrap() else { panic!("{host}") };
        assert_eq!(told.code, code, "{told}");
        assert_eq!(ca.finalize(&url, b"").await.unwrap(), OrderStatus::Invalid(told));
        assert!(matches!(ca.certificate(&url).await.unwrap_err().class(), Class::OrderGone(_)));
    }
}

#[tokio::test]
async fn a_proof_that_fails_keeps_the_words_of_the_ca() {
    let net = Net::start().await;
    net.fault("caa", "caa.shop.test", None);
    fails(&net, "caa.shop.test", "acme-caa", "CAA").await;
    fails(&net, "wrong.shop.test", "acme-unauthorized", "something else").await;
    net.devnet.zone().set("gone.shop.test", "NONE", "-").unwrap();
    fails(&net, "gone.shop.test", "acme-dns", "gone.shop.test").await;
    net.devnet.zone().set("closed.shop.test", "A", "127.0.0.9").unwrap();
    fails(&net, "closed.shop.test", "acme-connection", "127.0.0.9").await;
}

#[tokio::test]
async fn an_order_that_fails_in_the_end_is_invalid_and_says_why() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, csr) = net.ready(&ca, "late.shop.test").await;
    net.fault("finalize-invalid", "late.shop.test", None);
    let finalized = ca.finalize(&url, &csr).await.unwrap();
    let OrderStatus::Invalid(note) = &finalized else { panic!("{finalized:?}") };
    assert!(!note.detail.is_empty() && note.code.starts_with("acme-"), "{note}");
    assert_eq!(ca.order(&url).await.unwrap(), finalized);
}

#[tokio::test]
async fn a_request_for_a_certificate_that_is_called_bad_is_doubtful() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, _) = net.ready(&ca, "mine.shop.test").await;
    let (_, other) = holdfast_acme::key_and_csr(&name("other.shop.test"), ca.key_type()).unwrap();
    for csr in [other.as_slice(), b"nonsense"] {
        let error = ca.finalize(&url, csr).await.unwrap_err();
        assert!(
            matches!(error.class(), Class::Doubtful(note) if note.code == "acme-bad-csr"),
            "{error}"
        );
    }
    assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Ready);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_noticed() {
    let net = Net::start().await;
    net.fault("wrong-certificate", "right.shop.test", None);
    let (chain, key): (String, Secret) = issue(&net.ca(), &net.answers, "right.shop.test").await;
    let now = holdfast_acme::certificate::facts(&chain, "").unwrap().not_before;
    let error = check_pair(&name("right.shop.test"), &chain, &key, now).unwrap_err();
    assert!(error.to_string().contains("does not cover `right.shop.test`"), "{error}");
}
