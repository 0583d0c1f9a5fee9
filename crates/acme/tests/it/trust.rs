//! Chains that lead to a root that visitors have, and chains that do not.

use std::sync::Arc;

use holdfast_acme::certificate::{Pin, Untrusted};
use holdfast_acme::{Ca, CaConfig, Class, Error, Stuck};
use holdfast_model::Timestamp;
use holdfast_store::{Accounts, Secret};

use crate::kit::{Net, name, prove};

#[expect(clippy::disallowed_methods, reason = "the embedded CA goes by this machine's clock")]
fn now() -> Timestamp {
    Timestamp::from(time::OffsetDateTime::now_utc())
}

struct Issued {
    url: String,
    host: String,
    key: Secret,
}

/// Up to the certificate, which is not downloaded yet.
async fn issued(net: &Net, ca: &Ca, host: &str) -> Issued {
    let url = ca.new_order(&name(host), None).await.unwrap().url;
    prove(ca, &net.answers, &url).await;
    let (key, csr) = holdfast_acme::key_and_csr(&name(host), ca.key_type()).unwrap();
    ca.finalize(&url, &csr).await.unwrap();
    Issued { url, host: host.to_owned(), key }
}

async fn download(ca: &Ca, issued: &Issued) -> Result<String, Error> {
    let host = name(&issued.host);
    let pair = ca.certificate_for(&issued.url, &host, &issued.key, now()).await?;
    Ok(pair.chain_pem)
}

async fn pin(store: &Arc<dyn Accounts>, ca: &Ca) -> Option<String> {
    store.account(ca.directory(), ca.limits()).await.unwrap().unwrap().pin
}

#[tokio::test]
async fn a_chain_must_lead_to_the_roots_that_are_named() {
    let net = Net::start().await;
    let root = Some(net.devnet.root_pem().to_owned());
    let ca = net.ca_with(CaConfig { issuer_roots_pem: root, ..net.config() });
    let shop = issued(&net, &ca, "shop.test").await;
    assert_eq!(download(&ca, &shop).await.unwrap().matches("BEGIN").count(), 2);
    net.fault("truncated-chain", "shop.test", Some(1));
    let error = download(&ca, &shop).await.unwrap_err();
    assert!(matches!(error, Error::Untrusted(Untrusted::Incomplete { .. })), "{error}");
    assert!(matches!(error.class(), Class::Trouble(note) if note.code == "incomplete-chain"));
    assert_eq!(error.stuck(), Some(Stuck::Untrusted));
    download(&ca, &shop).await.unwrap();
    // Other roots than the CA's.
    let other = holdfast_testkit::Pki::new().unwrap().root_pem;
    let ca = net.ca_with(CaConfig { issuer_roots_pem: Some(other), ..net.config() });
    let error = download(&ca, &shop).await.unwrap_err();
    assert!(matches!(error, Error::Untrusted(Untrusted::UnknownIssuer { .. })), "{error}");
    assert!(error.to_string().contains("(root "), "{error}");
    assert_eq!(pin(&net.store, &ca).await, None, "named roots are not pinned");
}

#[tokio::test]
async fn a_ca_whose_first_chain_led_to_a_known_root_is_held_to_that() {
    let net = Net::start().await;
    let ca = net.ca();
    let shop = issued(&net, &ca, "shop.test").await;
    download(&ca, &shop).await.unwrap();
    assert_eq!(pin(&net.store, &ca).await.as_deref(), Some(Pin::KNOWN_ROOTS));
    net.fault("foreign-certificate", "other.test", None);
    // Another replica too.
    for ca in [ca, net.ca()] {
        let other = issued(&net, &ca, "other.test").await;
        let error = download(&ca, &other).await.unwrap_err();
        assert!(matches!(error, Error::Untrusted(Untrusted::UnknownIssuer { .. })), "{error}");
    }
}

#[tokio::test]
async fn what_was_not_ordered_spends_its_order_and_what_comes_too_soon_does_not() {
    let net = Net::start().await;
    let ca = net.ca();
    let good = issued(&net, &ca, "good.test").await;
    download(&ca, &good).await.unwrap();
    let cases = [
        ("wrong-certificate", "order-gone"),
        ("expired-certificate", "order-gone"),
        ("early-certificate", "early"),
        ("foreign-certificate", "untrusted"),
        ("self-signed", "untrusted"),
    ];
    for (at, (fault, expected)) in cases.into_iter().enumerate() {
        net.fault(fault, "*", Some(1));
        let shop = issued(&net, &ca, &format!("n{at}.shop.test")).await;
        let error = download(&ca, &shop).await.unwrap_err();
        let said = match (error.stuck(), error.class()) {
            (Some(stuck), Class::Trouble(_)) => stuck.as_str(),
            (None, Class::OrderGone(note)) if note.code == "wrong-certificate" => "order-gone",
            other => panic!("{other:?}"),
        };
        assert_eq!(said, expected, "{fault}: {error}");
        assert_eq!(error.is_expired(), fault == "expired-certificate");
    }
}

#[test]
fn roots_that_are_none_are_refused_by_name() {
    let leaf = holdfast_testkit::Pki::new().unwrap();
    holdfast_acme::check_issuer_roots(&leaf.root_pem).unwrap();
    for text in [
        "",
        "hello",
        &leaf.key_pem,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = holdfast_acme::check_issuer_roots(text).unwrap_err().to_string();
        assert!(error.contains("[acme] issuer_roots"), "{error}");
    }
}
