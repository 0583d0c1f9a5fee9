//! The account: made once, whoever asks, and taken up again wherever a process ended.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_acme::{Ca, CaConfig, Class, Eab, Error};
use holdfast_devnet::{Devnet, DevnetConfig, ExternalAccount};
use holdfast_store::{Account, Accounts};
use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig, Scratch};
use tokio::task::JoinSet;

use crate::faulty_store::{Ends, FaultyStore};
use crate::kit::{Net, config, issue, name};

const MAC: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

async fn stored(store: &Arc<dyn Accounts>, ca: &Ca) -> Account {
    store.account(ca.directory(), ca.limits()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_callers_at_two_replicas_share_one() {
    let net = Net::start().await;
    let replicas = [net.ca(), net.ca()];
    let mut callers = JoinSet::new();
    for ca in replicas.iter().cycle().take(32) {
        let ca = ca.clone();
        callers.spawn(async move { ca.account().await.unwrap() });
    }
    let ids: HashSet<_> = callers.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(replicas[0].known_account(), ids.into_iter().next());
    let accounts = net.listed("accounts").await;
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0]["contact"][0], "mailto:ops@example.com");
    let kept = stored(&net.store, &replicas[0]).await;
    assert_eq!(kept.url.as_deref(), accounts[0]["url"].as_str());
}

#[tokio::test]
async fn no_request_is_made_before_the_key_is_sealed() {
    let net = Net::start().await;
    let dying = FaultyStore::new(&net.store, Ends::Journal);
    let error = Ca::new(net.config(), dying).unwrap().account().await.unwrap_err();
    assert!(matches!(error.class(), Class::Trouble(note) if note.code == "store-unavailable"));
    assert_eq!(net.listed("accounts").await.len(), 0);
}

#[tokio::test]
async fn a_registration_that_broke_off_goes_on_with_the_same_key() {
    let net = Net::start().await;
    let dying = FaultyStore::new(&net.store, Ends::Registered);
    Ca::new(net.config(), dying).unwrap().account().await.unwrap_err();
    let ca = net.ca();
    let journaled = stored(&net.store, &ca).await;
    assert_eq!(journaled.url, None);
    assert_eq!(net.listed("accounts").await.len(), 1, "the CA had heard of it");
    ca.account().await.unwrap();
    let registered = stored(&net.store, &ca).await;
    assert_eq!((registered.id, registered.key), (journaled.id, journaled.key));
    assert!(registered.url.is_some());
    assert_eq!(net.listed("accounts").await.len(), 1);
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_no_second_account_behind() {
    let net = Net::start().await;
    net.fault("slow-request", "50", None);
    for patience_ms in [5, 20, 60, 90, 120, 140, 160] {
        let ca = net.ca();
        let patience = std::time::Duration::from_millis(patience_ms);
        tokio::time::timeout(patience, ca.account()).await.ok();
    }
    net.devnet.faults().clear_all();
    net.ca().account().await.unwrap();
    assert_eq!(net.listed("accounts").await.len(), 1);
}

#[tokio::test]
async fn what_one_caller_was_told_is_told_to_all_who_waited() {
    let net = Net::start().await;
    net.fault("unavailable", "30", None);
    let ca = net.ca();
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let ca = ca.clone();
        callers.spawn(async move { ca.account().await.unwrap_err() });
    }
    for error in callers.join_all().await {
        assert!(matches!(error.class(), Class::Wait { after: Some(_), .. }), "{error}");
    }
    let asked = net.devnet.faults().list()[0].struck;
    assert!(asked < 16, "the CA was asked {asked} times");
    net.devnet.faults().clear_all();
    ca.account().await.unwrap();
}

#[tokio::test]
async fn terms_are_remembered_and_nothing_is_agreed_unasked() {
    let net = Net::start().await;
    let ca = net.ca_with(CaConfig { agree_terms: false, ..net.config() });
    let error = ca.account().await.unwrap_err();
    assert!(error.to_string().contains("`agree_terms = true` in [acme]"), "{error}");
    assert!(matches!(error.class(), Class::Trouble(note) if note.code == "acme-terms"));
    let terms = net.store.terms(ca.directory()).await.unwrap().unwrap();
    assert_eq!(terms.agreed_at, None);
    assert!(error.to_string().contains(&terms.url));
    assert_eq!(net.listed("accounts").await.len(), 0);
    assert!(
        stored(&net.store, &ca).await.url.is_none(),
        "its row is there, for a pause and its reason"
    );
    net.ca().account().await.unwrap();
    assert!(net.store.terms(ca.directory()).await.unwrap().unwrap().agreed_at.is_some());
    // An account that agreed stays, whatever the next file says.
    net.ca_with(CaConfig { agree_terms: false, ..net.config() }).account().await.unwrap();
}

#[tokio::test]
async fn a_ca_without_terms_asks_for_no_agreement() {
    let net = Net::start_with(DevnetConfig { terms: false, ..DevnetConfig::default() }).await;
    net.ca_with(CaConfig { agree_terms: false, ..net.config() }).account().await.unwrap();
}

#[tokio::test]
async fn another_address_is_told_to_the_ca() {
    let net = Net::start().await;
    net.ca().account().await.unwrap();
    for email in [Some("new@example.com".to_owned()), None] {
        let ca = net.ca_with(CaConfig { email: email.clone(), ..net.config() });
        ca.account().await.unwrap();
        let contact = net.listed("accounts").await[0]["contact"].clone();
        let expected: Vec<String> = email.iter().map(|email| format!("mailto:{email}")).collect();
        assert_eq!(contact, serde_json::json!(expected));
        assert_eq!(
            stored(&net.store, &ca).await.email.unwrap_or_default(),
            email.unwrap_or_default()
        );
    }
    // One that the CA does not like is no reason to stop.
    let ca = net.ca_with(CaConfig { email: Some("nobody".to_owned()), ..net.config() });
    ca.account().await.unwrap();
    assert_eq!(stored(&net.store, &ca).await.email.unwrap_or_default(), "");
}

#[tokio::test]
async fn an_external_account_is_bound() {
    let external = ExternalAccount { key_id: "customer-7".to_owned(), hmac_key: MAC.to_owned() };
    let devnet = DevnetConfig {
        external_accounts: vec![external],
        external_account_required: true,
        ..DevnetConfig::default()
    };
    let net = Net::start_with(devnet).await;
    let error = net.ca().account().await.unwrap_err();
    assert!(error.to_string().contains("eab_key_id"), "{error}");
    assert!(matches!(error.class(), Class::Trouble(note) if note.code == "acme-external-account"));
    let wrong = Eab::parse("customer-7", "AAAA").unwrap();
    let refused =
        net.ca_with(CaConfig { eab: Some(wrong), ..net.config() }).account().await.unwrap_err();
    assert!(matches!(refused.class(), Class::Trouble(_)), "{refused}");
    let eab = Some(Eab::parse("customer-7", MAC).unwrap());
    let ca = net.ca_with(CaConfig { eab, ..net.config() });
    issue(&ca, &net.answers, "bound.shop.test").await;
    assert_eq!(net.listed("accounts").await[0]["external"], true);
}

#[tokio::test]
async fn pebble_binds_an_external_account_too() {
    let dns = ChallTestSrv::start().await.unwrap();
    let external_account = Some(("customer-7".to_owned(), MAC.to_owned()));
    let settings = PebbleConfig { external_account, ..PebbleConfig::new(dns.dns(), 1, 1) };
    let pebble = Pebble::start(&settings).await.unwrap();
    let store = crate::store::open().await;
    let config = config(pebble.directory_url(), pebble.tls_root_pem());
    let without = Ca::new(config.clone(), store.clone()).unwrap().account().await.unwrap_err();
    assert!(
        matches!(without.class(), Class::Trouble(note) if note.code == "acme-external-account")
    );
    let eab = Some(Eab::parse("customer-7", MAC).unwrap());
    Ca::new(CaConfig { eab, ..config }, store).unwrap().account().await.unwrap();
}

#[test]
fn a_mac_key_is_taken_as_cas_print_it() {
    for text in ["_-8", "_-8=", "/+8=", "/+8", " _-8\n"] {
        assert_eq!(Eab::parse("id", text).unwrap().hmac_key.expose(), [0xff, 0xef], "{text}");
    }
    for text in ["", "   ", "not base64!", "_+8"] {
        let error = Eab::parse("id", text).unwrap_err();
        assert!(matches!(error, Error::BadEabKey), "{text}");
        assert!(error.to_string().contains("eab_hmac_key"));
    }
}

/// A CA that lost its accounts: the same keys and the same port, an empty journal.
#[tokio::test]
async fn an_account_that_the_ca_forgot_is_registered_anew_with_the_same_key() {
    let data = Scratch::new().unwrap();
    let settings = |ca: SocketAddr| DevnetConfig {
        ca,
        data: Some(data.path().to_owned()),
        ..DevnetConfig::default()
    };
    let net = Net::start_with(settings(DevnetConfig::default().ca)).await;
    let (ca, address) = (net.ca(), net.devnet.ca_address());
    let order = ca.new_order(&name("before.shop.test"), None).await.unwrap().url;
    let before = stored(&net.store, &ca).await;
    let Net { devnet, store, answers } = net;
    devnet.shutdown().await;
    std::fs::remove_file(data.path().join("devnet/journal.jsonl")).unwrap();
    let devnet = Devnet::start(DevnetConfig { http_port: answers.port(), ..settings(address) })
        .await
        .unwrap();
    let net = Net { devnet, store, answers };

    issue(&ca, &net.answers, "after.shop.test").await;
    let after = stored(&net.store, &ca).await;
    assert_eq!((after.id, &after.key), (before.id, &before.key));
    assert_ne!(after.url, before.url);
    assert_eq!(net.listed("accounts").await.len(), 1);
    assert!(matches!(ca.order(&order).await.unwrap_err().class(), Class::OrderGone(_)));
}

#[tokio::test]
async fn a_directory_that_is_none_is_refused_at_once() {
    let store = crate::store::open().await;
    for directory in ["http://ca.example.com/directory", "ca.example.com", ""] {
        let made = Ca::new(config(directory.to_owned(), "").clone(), store.clone());
        let error = made.err().unwrap();
        assert!(error.to_string().contains("[acme] directory"), "{error}");
    }
    let roots = CaConfig {
        extra_roots_pem: Some("no pem".to_owned()),
        ..config("https://ca.example.com/".to_owned(), "")
    };
    let error = Ca::new(roots, store).err().unwrap();
    assert!(error.to_string().contains("[acme] root_certificate"), "{error}");
}
