//! A change of the account's key, whole and broken off, seen by the process that does it and by the others.

use holdfast_acme::{Ca, Class};
use holdfast_store::Secret;
use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig};

use crate::faulty_store::{Ends, FaultyStore};
use crate::kit::{Net, config, issue, name};

async fn key(net: &Net, ca: &Ca) -> (Secret, Option<Secret>) {
    let account = net.store.account(ca.directory(), ca.limits()).await.unwrap().unwrap();
    (account.key, account.next_key)
}

async fn thumbprint(net: &Net) -> String {
    match net.listed("accounts").await.as_slice() {
        [account] => account.get("thumbprint").unwrap().to_string(),
        accounts => panic!("{accounts:?}"),
    }
}

#[tokio::test]
async fn the_next_key_becomes_the_key_here_and_there() {
    let net = Net::start().await;
    let (ca, other) = (net.ca(), net.ca());
    ca.account().await.unwrap();
    issue(&other, &net.answers, "before.shop.test").await;
    let ((old, _), seen) = (key(&net, &ca).await, thumbprint(&net).await);
    ca.change_key().await.unwrap();
    let (new, next) = key(&net, &ca).await;
    assert!(new != old && next.is_none());
    assert_ne!(thumbprint(&net).await, seen);
    issue(&ca, &net.answers, "after.shop.test").await;
    // A replica that still has the old key finds the new one in the store.
    issue(&other, &net.answers, "other.shop.test").await;
    assert_eq!(net.listed("accounts").await.len(), 1);
}

#[tokio::test]
async fn a_change_that_broke_off_is_completed_by_the_next_start() {
    for ends in [Ends::NextKey, Ends::KeyChanged] {
        let net = Net::start().await;
        let dying = Ca::new(net.config(), FaultyStore::new(&net.store, ends)).unwrap();
        dying.account().await.unwrap();
        let seen = thumbprint(&net).await;
        dying.change_key().await.unwrap_err();
        assert_eq!(thumbprint(&net).await == seen, ends == Ends::NextKey);
        let ca = net.ca();
        let journaled = key(&net, &ca).await.1;
        issue(&ca, &net.answers, "after.shop.test").await;
        let (new, next) = key(&net, &ca).await;
        assert_eq!(next, None);
        if let Some(journaled) = journaled {
            assert_eq!(new, journaled);
        }
    }
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_completed() {
    let net = Net::start().await;
    let ca = net.ca();
    ca.account().await.unwrap();
    // Asked whether it knows the key, asked to change it: the second answer is lost.
    net.fault("dropped-reply", "0.5", Some(1));
    let error = ca.change_key().await.unwrap_err();
    assert!(
        matches!(error.class(), Class::Unavailable(note) if note.code == "ca-unreachable"),
        "{error}"
    );
    let journaled = key(&net, &ca).await.1.unwrap();
    ca.change_key().await.unwrap();
    assert_eq!(key(&net, &ca).await, (journaled, None));
    issue(&ca, &net.answers, "after.shop.test").await;
}

#[tokio::test]
async fn a_change_that_broke_off_is_completed_by_a_replica_that_runs() {
    let net = Net::start().await;
    let running = net.ca();
    issue(&running, &net.answers, "before.shop.test").await;
    let dying = Ca::new(net.config(), FaultyStore::new(&net.store, Ends::KeyChanged)).unwrap();
    dying.change_key().await.unwrap_err();
    assert!(key(&net, &running).await.1.is_some());
    issue(&running, &net.answers, "after.shop.test").await;
    assert!(key(&net, &running).await.1.is_none());
}

#[tokio::test]
async fn a_challenge_prepared_with_the_old_key_needs_a_new_order() {
    let net = Net::start().await;
    let ca = net.ca();
    let (url, challenge) = net.challenged(&ca, "waiting.shop.test").await;
    ca.change_key().await.unwrap();
    let error = ca.accept(&challenge).await.unwrap_err();
    assert!(matches!(error.class(), Class::OrderGone(_)), "{error}");
    // The CA was not told to look, so nothing failed: the order itself can still be proven.
    crate::kit::prove(&ca, &net.answers, &url).await;
    assert_eq!(ca.new_order(&name("waiting.shop.test"), None).await.unwrap().url, url);
}

#[tokio::test]
async fn pebble_takes_the_new_key() {
    let dns = ChallTestSrv::start().await.unwrap();
    let pebble = Pebble::start(&PebbleConfig::new(dns.dns(), 1, 1)).await.unwrap();
    let store = crate::store::open().await;
    let settings = config(pebble.directory_url(), pebble.tls_root_pem());
    let (ca, other) =
        (Ca::new(settings.clone(), store.clone()).unwrap(), Ca::new(settings, store).unwrap());
    other.account().await.unwrap();
    ca.change_key().await.unwrap();
    ca.change_key().await.unwrap();
    ca.new_order(&name("after.example.com"), None).await.unwrap();
    other.new_order(&name("other.example.com"), None).await.unwrap();
}
