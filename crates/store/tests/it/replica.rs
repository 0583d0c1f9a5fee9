//! Replicas on one PostgreSQL: they wake each other, share keys that change under them, and outlive the server's restart.

use std::time::Duration;

use holdfast_model::Outcome;
use holdfast_store::{Error, MasterKey, OpenOptions, Topic, master_key_id, migrate, open};
use holdfast_testkit::{Durability, Postgres, eventually};
use tokio::time::timeout;

use crate::{
    key::rotate,
    kit::*,
    postgres::{database, number, raw, replicas},
};

#[tokio::test(flavor = "multi_thread")]
async fn many_that_open_at_once_agree_on_the_keys() {
    let (url, master) = (database().await, MasterKey::generate().unwrap());
    let secrets = at_once(8, |_| {
        let (url, master) = (url.clone(), master.clone());
        async move { opened(&url, &master).await.cluster_secret().await.unwrap() }
    })
    .await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_rotate_while_another_replica_reads_and_writes() {
    let (store, other, url) = replicas().await;
    let served = active(&store, "a.example.com", "1").await;
    let account = account(&store).await;
    let worker = {
        let other = other.clone();
        tokio::spawn(async move {
            let who = claimant("other");
            for n in 0..25 {
                add(&other, &format!("n{n}.example.com")).await;
                into_queue(&other, claim_one(&other, &who).await).await;
                let admitted = admit_one(&other, &who, account).await;
                let downloading = into_download(&other, admitted, &format!("t{n}")).await;
                let order = other.open_order(downloading.domain.id).await.unwrap().unwrap();
                assert_eq!(order.key.unwrap().expose(), format!("key t{n}").as_bytes());
                let deploying = issue(&other, &downloading, &format!("s{n}")).await;
                finish(&other, &deploying, Outcome::DeploymentSeen).await;
                let bundle = other.bundle(downloading.domain.id).await.unwrap().unwrap();
                assert_eq!(bundle.key.expose(), format!("key s{n}").as_bytes());
                other.account(DIRECTORY, MANY).await.unwrap().unwrap();
            }
        })
    };
    let mut rotations = 0;
    while !worker.is_finished() {
        store.new_data_key().await.unwrap();
        rotate(&store, 7).await;
        let bundle = store.bundle_named(&served.name).await.unwrap().unwrap();
        assert_eq!(bundle.key.expose(), b"key 1");
        rotations += 1;
    }
    worker.await.unwrap();
    assert!(rotations > 3, "{rotations}");
    store.new_data_key().await.unwrap();
    assert!(rotate(&store, 1_000).await.is_complete());
    let kept = number(&mut raw(&url).await, "SELECT count(*) FROM sealing_key").await;
    assert_eq!(kept, 1, "what nothing needs is dropped");
    for n in 0..25 {
        let bundle =
            other.bundle_named(&host(&format!("n{n}.example.com"))).await.unwrap().unwrap();
        assert_eq!(bundle.key.expose(), format!("key s{n}").as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_wake_each_other() {
    let (store, other, _) = replicas().await;
    let topics = [Topic::Work, Topic::Events, Topic::Deployments];
    let mut ears = topics.map(|topic| other.wake(topic));
    // Listening begins in the background, and rings once it has.
    for ear in &mut ears {
        timeout(SOON, ear.wait_for(|rung| *rung > 0)).await.unwrap().unwrap();
        ear.mark_unchanged();
    }
    active(&store, "a.example.com", "1").await;
    for ear in &mut ears {
        timeout(SOON, ear.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_found_again() {
    let mut server = Postgres::start(Durability::Relaxed).await.unwrap();
    let (url, master) = (server.database().await.unwrap(), MasterKey::generate().unwrap());
    let (store, other) = (opened(&url, &master).await, opened(&url, &master).await);
    at_once(10, |n| {
        let store = store.clone();
        async move { add(&store, &format!("n{n}.example.com")).await }
    })
    .await;
    let mut ear = other.wake(Topic::Work);
    server.restart().await.unwrap();
    // One request may find the wire broken; then all connections are made anew.
    let failures = std::sync::atomic::AtomicU32::new(0);
    eventually(SOON, "the store to answer", async || {
        store.ping().await.inspect_err(|error| {
            assert!(error.is_transient());
            failures.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        })
    })
    .await;
    assert!(failures.into_inner() <= 1);
    for _ in 0..20 {
        store.ping().await.unwrap();
    }
    // The listener rings when it is back, which it may be already, and hears again.
    timeout(SOON, ear.changed()).await.unwrap().unwrap();
    eventually(SOON, "being heard", async || {
        ear.mark_unchanged();
        store.notice(&actor(), "x", "y", "z").await.unwrap();
        let domain = store.domain_named(&host("n1.example.com")).await.unwrap().unwrap();
        store.want(domain.id, holdfast_model::Wanted::Retry, &actor()).await.unwrap();
        timeout(Duration::from_millis(500), ear.changed()).await.map_err(|_| "not heard")
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_given_up_on_leaves_no_connection_half_read() {
    let (store, _, _) = replicas().await;
    add_numbered(&store, 200).await;
    let page = holdfast_store::Page { limit: 200, after: None };
    for micros in 0..60 {
        let listed = async { store.domains(&Default::default(), &page).await };
        timeout(Duration::from_micros(micros * 40), listed).await.ok();
    }
    for _ in 0..20 {
        let domain = store.domain_named(&host("n00007.example.com")).await.unwrap().unwrap();
        assert_eq!(domain.name.as_str(), "n00007.example.com");
    }
    at_once(20, |n| {
        let store = store.clone();
        async move {
            let give_up = Duration::from_millis(n as u64);
            timeout(give_up, store.add_many(&[fresh("x.example.com")])).await.ok();
        }
    })
    .await;
    // A transaction given up on holds nothing.
    timeout(SOON, store.add(&fresh("y.example.com"))).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_master_key_is_refused_and_so_is_none() {
    let url = database().await;
    migrate(&url).await.unwrap();
    assert_eq!(master_key_id(&url).await.unwrap(), None);
    // Nothing is sealed yet: it opens without a key, and cannot seal.
    let bare = open(&url, None, OpenOptions::default()).await.unwrap();
    assert!(matches!(bare.cluster_secret().await, Err(Error::NoMasterKey)));
    let master = MasterKey::generate().unwrap();
    let store = opened(&url, &master).await;
    assert_eq!(master_key_id(&url).await.unwrap(), Some(master.id()));
    store.cluster_secret().await.unwrap();
    let other = MasterKey::generate().unwrap();
    let refused = open(&url, Some(other.clone()), OpenOptions::default()).await.err().unwrap();
    let Error::WrongMasterKey { expected, given } = refused else { panic!("{refused}") };
    assert_eq!((expected, given), (master.id(), other.id()));
    let refused = open(&url, None, OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refused, Error::MasterKeyMissing(id) if id == master.id()));
    store.rewrap(&other).await.unwrap();
    assert_eq!(master_key_id(&url).await.unwrap(), Some(other.id()));
    let reopened = opened(&url, &other).await;
    assert_eq!(reopened.cluster_secret().await.unwrap(), store.cluster_secret().await.unwrap());
    let refused = open(&url, Some(master), OpenOptions::default()).await.err().unwrap();
    assert!(matches!(refused, Error::WrongMasterKey { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_the_old_master_key_goes_on_with_what_it_knows() {
    let (store, other, _) = replicas().await;
    let served = active(&store, "a.example.com", "1").await;
    let new = MasterKey::generate().unwrap();
    store.rewrap(&new).await.unwrap();
    let bundle = other.bundle(served.id).await.unwrap().unwrap();
    assert_eq!(bundle.key.expose(), b"key 1");
    assert!(matches!(other.new_data_key().await, Err(Error::WrongMasterKey { .. })));
    // What is sealed under a key made since is beyond it, and it says why.
    store.new_data_key().await.unwrap();
    assert!(rotate(&store, 100).await.is_complete());
    let refused = other.bundle(served.id).await.unwrap_err();
    assert!(matches!(&refused, Error::WrongMasterKey { expected, .. } if *expected == new.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_may_reseal_at_once() {
    let (store, other, url) = replicas().await;
    let new: Vec<_> =
        (0..60).map(|n| imported(&format!("n{n}.example.com"), &format!("{n}"))).collect();
    store.add_many(&new).await.unwrap();
    store.new_data_key().await.unwrap();
    let both = [store.clone(), other];
    at_once(2, |n| {
        let store = both[n].clone();
        async move { assert!(rotate(&store, 7).await.is_complete()) }
    })
    .await;
    for new in new {
        let bundle = store.bundle(new.id).await.unwrap().unwrap();
        assert_eq!(bundle.key.expose(), new.import.unwrap().certificate.key.expose());
    }
    assert_eq!(number(&mut raw(&url).await, "SELECT count(*) FROM sealing_key").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_is_heard_by_all() {
    let (store, other, _) = replicas().await;
    let mut ear = other.wake(Topic::Deployments);
    timeout(SOON, ear.wait_for(|rung| *rung > 0)).await.unwrap().unwrap();
    ear.mark_unchanged();
    store.restored().await.unwrap();
    drop(store);
    timeout(SOON, ear.changed()).await.unwrap().unwrap();
}
