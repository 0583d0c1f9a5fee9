//! Renewal: the CA's window, orders that replace a certificate, and profiles.

use std::time::Duration;

use holdfast_acme::certificate::facts;
use holdfast_acme::{Ca, CaConfig, Class, Window};
use holdfast_devnet::RenewalWindow;
use holdfast_model::Timestamp;
use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig};
use rcgen::KeyPair;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::kit::{Net, config, issue, issue_in_place_of, name};
use crate::paper::Authority;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn at(text: &str) -> OffsetDateTime {
    OffsetDateTime::parse(text, &Rfc3339).unwrap()
}

#[tokio::test]
async fn the_window_is_the_cas() {
    let net = Net::start().await;
    let ca = net.ca();
    let (chain, _) = issue(&ca, &net.answers, "window.shop.test").await;
    let not_before = facts(&chain, "").unwrap().not_before;
    let window = ca.renewal_window(&chain).await.unwrap().unwrap();
    assert!(window.start > not_before.plus(58 * DAY) && window.end < not_before.plus(62 * DAY));
    assert_eq!(window.retry_after, Some(Duration::from_secs(6 * 3600)));
    let set = RenewalWindow {
        start: at("2020-01-01T00:00:00Z"),
        end: at("2020-01-02T00:00:00Z"),
        explanation_url: Some("https://ca.example/why".to_owned()),
        retry_after: Some(90),
    };
    net.devnet.set_renewal_window("window.shop.test", Some(set));
    let expected = Window {
        start: Timestamp::parse("2020-01-01T00:00:00Z").unwrap(),
        end: Timestamp::parse("2020-01-02T00:00:00Z").unwrap(),
        retry_after: Some(Duration::from_secs(90)),
        explanation_url: Some("https://ca.example/why".to_owned()),
    };
    assert_eq!(ca.renewal_window(&chain).await.unwrap(), Some(expected));
}

#[tokio::test]
async fn there_is_no_window_for_what_the_ca_does_not_know() {
    let net = Net::start().await;
    let ca = net.ca();
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let foreign = authority.chain(&["foreign.shop.test"], &key);
    let no_issuer_key = authority.root.pem();
    for chain in [foreign.as_str(), no_issuer_key.as_str(), "no chain at all"] {
        assert_eq!(ca.renewal_window(chain).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_renewal_says_what_it_replaces_and_goes_on_without_where_that_is_refused() {
    let net = Net::start().await;
    let ca = net.ca();
    let host = "renewed.shop.test";
    let (first, _) = issue(&ca, &net.answers, host).await;
    issue_in_place_of(&ca, &net.answers, host, Some(&first)).await;
    // Replaced already: the CA answers 409.
    issue_in_place_of(&ca, &net.answers, host, Some(&first)).await;
    // Another account's, and another CA's.
    let others = Ca::new(net.config(), crate::store::open().await).unwrap();
    issue_in_place_of(&others, &net.answers, host, Some(&first)).await;
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let foreign = authority.chain(&[host], &key);
    for chain in [foreign.as_str(), "no chain at all"] {
        issue_in_place_of(&ca, &net.answers, host, Some(chain)).await;
    }
    let orders = net.listed("orders").await;
    let replacing: Vec<bool> = orders.iter().map(|order| order["replaces"].is_string()).collect();
    assert_eq!(replacing, [false, true, false, false, false, false]);
    assert!(orders.iter().all(|order| order["finalized"] == 1));
}

#[tokio::test]
async fn a_renewal_is_not_held_up_by_the_limit_of_new_orders() {
    let net = Net::start().await;
    let ca = net.ca();
    let (chain, _) = issue(&ca, &net.answers, "held.shop.test").await;
    net.fault("order-limit", "1/3600", None);
    ca.new_order(&name("first.shop.test"), None).await.unwrap();
    let held = ca.new_order(&name("second.shop.test"), None).await.unwrap_err();
    assert!(matches!(held.class(), Class::Wait { .. }), "{held}");
    ca.new_order(&name("held.shop.test"), Some(&chain)).await.unwrap();
    // Refused for what it replaces, then for the limit: the limit is what counts.
    let held = ca.new_order(&name("held.shop.test"), Some(&chain)).await.unwrap_err();
    assert!(matches!(held.class(), Class::Wait { .. }), "{held}");
}

#[tokio::test]
async fn a_profile_is_asked_for_and_one_that_is_not_there_is_named() {
    let net = Net::start().await;
    let with = |profile: &str| CaConfig { profile: Some(profile.to_owned()), ..net.config() };
    let ca = net.ca_with(with("shortlived"));
    let (chain, _) = issue(&ca, &net.answers, "short.shop.test").await;
    let lifetime = facts(&chain, "").unwrap().lifetime();
    assert!(lifetime > 6 * DAY && lifetime < 7 * DAY, "{lifetime:?}");
    let ca = net.ca_with(with("longlived"));
    for error in [
        ca.account().await.unwrap_err(),
        ca.new_order(&name("a.shop.test"), None).await.unwrap_err(),
    ] {
        assert!(matches!(error.class(), Class::Trouble(note) if note.code == "acme-profile"));
        let text = error.to_string();
        assert!(text.contains("`longlived`") && text.contains("shortlived, tlsserver"), "{text}");
    }
}

#[tokio::test]
async fn a_ca_without_profiles_says_so() {
    let dns = ChallTestSrv::start().await.unwrap();
    let pebble = Pebble::start(&PebbleConfig::new(dns.dns(), 1, 1)).await.unwrap();
    let settings = config(pebble.directory_url(), pebble.tls_root_pem());
    let settings = CaConfig { profile: Some("shortlived".to_owned()), ..settings };
    let ca = Ca::new(settings, crate::store::open().await).unwrap();
    let error = ca.account().await.unwrap_err();
    assert!(error.to_string().contains("none, so leave it out"), "{error}");
}
