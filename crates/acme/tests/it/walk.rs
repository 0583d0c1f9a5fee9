//! From an order to a certificate, at both CAs; and the same walk broken off after every step.

use holdfast_acme::certificate::{check_pair, facts};
use holdfast_acme::{Ca, CaConfig, Class, KeyType, OrderStatus, Proof, Verdict, key_and_csr};
use holdfast_store::Secret;
use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig};

use crate::answers::Answers;
use crate::kit::{Net, config, issue, name, prove, verdict};

/// The chain is for the name and the key, and says where it came from.
fn check(host: &str, chain: &str, key: &Secret, directory: &str) {
    let facts = facts(chain, directory).unwrap();
    let pair = check_pair(&name(host), chain, key, facts.not_before).unwrap();
    assert_eq!(pair.chain_pem, chain, "it was downloaded clean");
    assert_eq!(facts.directory, directory);
    assert!(chain.matches("BEGIN CERTIFICATE").count() >= 2, "leaf and intermediate");
}

#[tokio::test]
async fn the_embedded_ca_issues_for_both_kinds_of_key() {
    let net = Net::start().await;
    for (host, key_type) in
        [("ec.shop.test", KeyType::EcdsaP256), ("rsa.shop.test", KeyType::Rsa2048)]
    {
        let ca = net.ca_with(CaConfig { key_type, ..net.config() });
        let (chain, key) = issue(&ca, &net.answers, host).await;
        check(host, &chain, &key, ca.directory());
    }
    assert_eq!(net.listed("accounts").await.len(), 1);
    for order in net.listed("orders").await {
        assert_eq!(
            (order["status"].as_str(), order["finalized"].as_u64()),
            (Some("valid"), Some(1))
        );
    }
}

#[tokio::test]
async fn pebble_issues_for_both_kinds_of_key() {
    let (dns, answers) = (ChallTestSrv::start().await.unwrap(), Answers::start().await);
    // Every tenth nonce is refused: Pebble's own default is half of that.
    let settings = PebbleConfig {
        nonce_reject_percent: 10,
        ..PebbleConfig::new(dns.dns(), answers.port(), 1)
    };
    let pebble = Pebble::start(&settings).await.unwrap();
    let store = crate::store::open().await;
    for (host, key_type) in
        [("ec.example.com", KeyType::EcdsaP256), ("rsa.example.com", KeyType::Rsa2048)]
    {
        let config = CaConfig { key_type, ..config(pebble.directory_url(), pebble.tls_root_pem()) };
        let ca = Ca::new(config, store.clone()).unwrap();
        let (chain, key) = issue(&ca, &answers, host).await;
        check(host, &chain, &key, ca.directory());
        ca.revoke(&chain, Some(&key)).await.unwrap();
        ca.revoke(&chain, Some(&key)).await.unwrap();
        assert_eq!(ca.renewal_window(&chain).await.unwrap(), None, "Pebble has no windows");
    }
}

/// What `issue` does, by another process at every step: nothing is remembered but what the store has.
#[tokio::test]
async fn every_step_can_be_another_process() {
    let net = Net::start().await;
    let host = name("steps.shop.test");
    let url = net.ca().new_order(&host, None).await.unwrap().url;
    let Proof::Needed(challenge) = net.ca().proof(&url).await.unwrap() else {
        panic!("no proof needed")
    };
    net.answers.put(&challenge);
    assert_eq!(net.ca().order(&url).await.unwrap(), OrderStatus::Pending);
    net.ca().accept(&challenge).await.unwrap();
    assert_eq!(verdict(&net.ca(), &challenge).await, Verdict::Valid);
    assert_eq!(net.ca().proof(&url).await.unwrap(), Proof::Valid);
    assert_eq!(net.ca().order(&url).await.unwrap(), OrderStatus::Ready);
    let (key, csr) = key_and_csr(&host, KeyType::EcdsaP256).unwrap();
    assert_eq!(net.ca().finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
    assert_eq!(net.ca().finalize(&url, &csr).await.unwrap(), OrderStatus::Valid, "only read again");
    let chain = net.ca().certificate(&url).await.unwrap();
    assert_eq!(net.ca().certificate(&url).await.unwrap(), chain);
    check("steps.shop.test", &chain, &key, &net.devnet.directory_url());
    let orders = net.listed("orders").await;
    assert_eq!((orders.len(), orders[0]["finalized"].as_u64()), (1, Some(1)));
    assert_eq!(net.listed("accounts").await.len(), 1);
}

/// Each step twice, by the process that did it first: as after an error of the store.
#[tokio::test]
async fn every_step_can_be_repeated() {
    let net = Net::start().await;
    let (ca, host) = (net.ca(), name("twice.shop.test"));
    let url = ca.new_order(&host, None).await.unwrap().url;
    assert_eq!(ca.new_order(&host, None).await.unwrap().url, url, "the pending order again");
    let (Proof::Needed(first), Proof::Needed(second)) =
        (ca.proof(&url).await.unwrap(), ca.proof(&url).await.unwrap())
    else {
        panic!("no proof needed")
    };
    assert_eq!(first, second);
    net.answers.put(&first);
    for _ in 0..2 {
        ca.accept(&first).await.unwrap();
    }
    assert_eq!(verdict(&ca, &first).await, Verdict::Valid);
    ca.accept(&first).await.unwrap();
    let (_, csr) = key_and_csr(&host, KeyType::EcdsaP256).unwrap();
    for _ in 0..2 {
        assert_eq!(ca.finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
        assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Valid);
        ca.certificate(&url).await.unwrap();
    }
    assert_eq!(net.listed("orders").await[0]["finalized"], 1);
}

#[tokio::test]
async fn a_proof_given_before_is_remembered_by_the_ca() {
    let devnet = holdfast_devnet::DevnetConfig { reuse_authorizations: true, ..Default::default() };
    let net = Net::start_with(devnet).await;
    let ca = net.ca();
    issue(&ca, &net.answers, "again.shop.test").await;
    let url = ca.new_order(&name("again.shop.test"), None).await.unwrap().url;
    assert_eq!(ca.proof(&url).await.unwrap(), Proof::Valid);
}

#[tokio::test]
async fn orders_of_others_and_of_nobody_are_gone() {
    let net = Net::start().await;
    let others = Ca::new(net.config(), crate::store::open().await).unwrap();
    let (url, challenge) = net.challenged(&others, "others.shop.test").await;
    let ca = net.ca();
    ca.account().await.unwrap();
    let unknown = url.rsplit_once('/').unwrap().0.to_owned() + "/nonsense";
    for url in [&url, &unknown] {
        let error = ca.order(url).await.unwrap_err();
        assert!(
            matches!(error.class(), Class::OrderGone(note) if note.code == "acme-order-gone"),
            "{error}"
        );
        assert!(matches!(ca.proof(url).await.unwrap_err().class(), Class::OrderGone(_)));
        assert!(matches!(ca.certificate(url).await.unwrap_err().class(), Class::OrderGone(_)));
        assert!(matches!(ca.finalize(url, b"").await.unwrap_err().class(), Class::OrderGone(_)));
    }
    // A challenge that was prepared with another key is not even announced.
    assert!(matches!(ca.accept(&challenge).await.unwrap_err().class(), Class::OrderGone(_)));
    assert!(matches!(ca.verdict(&challenge).await.unwrap_err().class(), Class::OrderGone(_)));
    assert_eq!(others.order(&url).await.unwrap(), OrderStatus::Pending);
}

#[tokio::test]
async fn nothing_is_downloaded_before_it_is_issued() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, csr) = net.ready(&ca, "early.shop.test").await;
    let error = ca.certificate(&url).await.unwrap_err();
    assert!(matches!(error.class(), Class::Trouble(_)), "{error}");
    let (pending, challenge) = net.challenged(&ca, "unproven.shop.test").await;
    assert_eq!(ca.finalize(&pending, &csr).await.unwrap(), OrderStatus::Pending);
    assert_eq!(ca.verdict(&challenge).await.unwrap(), Verdict::Pending { retry_after: None });
    prove(&ca, &net.answers, &pending).await;
    let orders = net.listed("orders").await;
    assert!(orders.iter().all(|order| order["finalize_refused"] == 0 && order["finalized"] == 0));
}

/// A worker runs these on any thread.
#[tokio::test]
async fn every_call_can_be_spawned() {
    fn sendable<T>(future: impl Future<Output = T> + Send) {
        drop(future);
    }
    let net = Net::start().await;
    let ca = net.ca();
    let (url, challenge) = net.challenged(&ca, "spawned.shop.test").await;
    let host = name("spawned.shop.test");
    sendable(ca.account());
    sendable(ca.new_order(&host, None));
    sendable(ca.proof(&url));
    sendable(ca.accept(&challenge));
    sendable(ca.verdict(&challenge));
    sendable(ca.order(&url));
    sendable(ca.finalize(&url, b""));
    sendable(ca.certificate(&url));
    sendable(ca.renewal_window(""));
    sendable(ca.revoke("", None));
    sendable(ca.change_key());
    let spawned = tokio::spawn(async move {
        let url = ca.new_order(&host, None).await.unwrap().url;
        ca.proof(&url).await.unwrap();
        ca.accept(&challenge).await.unwrap();
        ca.verdict(&challenge).await.unwrap();
        ca.order(&url).await.unwrap();
        ca.finalize(&url, b"").await.ok();
        ca.certificate(&url).await.unwrap_err();
        ca.revoke("", None).await.unwrap_err();
    });
    spawned.await.unwrap();
}
