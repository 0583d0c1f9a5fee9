//! Sealing: what was sealed opens, through every change of keys, and only where it lies.

use holdfast_store::{SharedStore, proof_answer};

use crate::kit::*;

on_both! {
    everything_opens_after_a_rotation,
    a_rotation_goes_in_steps,
    the_cluster_secret_is_made_once,
}

async fn seal_some(store: &SharedStore) -> holdfast_store::Claimed {
    active(store, "a.example.com", "1").await;
    add(store, "b.example.com").await;
    let who = claimant("w");
    into_queue(store, claim_one(store, &who).await).await;
    let admitted = admit_one(store, &who, account(store).await).await;
    let downloading = into_download(store, admitted, "t2").await;
    let next = holdfast_store::Secret::from("next".to_owned());
    store.journal_next_key(account(store).await, &next).await.unwrap();
    store.cluster_secret().await.unwrap();
    downloading
}

async fn check_all(store: &SharedStore, downloading: &holdfast_store::Claimed) {
    let served = store.bundle_named(&host("a.example.com")).await.unwrap().unwrap();
    assert_eq!(served.key.expose(), b"key 1");
    let order = store.open_order(downloading.domain.id).await.unwrap().unwrap();
    assert_eq!(order.key.unwrap().expose(), b"key t2");
    let account = store.account(DIRECTORY, MANY).await.unwrap().unwrap();
    assert_eq!(account.key.expose(), b"account key");
    assert_eq!(account.next_key.unwrap().expose(), b"next");
}

async fn everything_opens_after_a_rotation(store: SharedStore) {
    let downloading = seal_some(&store).await;
    for _ in 0..3 {
        store.new_data_key().await.unwrap();
        check_all(&store, &downloading).await;
        let rotation = store.reseal(1_000).await.unwrap();
        // A certificate, an order, an account with its next key, and the cluster's secret.
        assert_eq!((rotation.resealed, rotation.complete), (5, true));
        check_all(&store, &downloading).await;
    }
    assert_eq!(store.reseal(1_000).await.unwrap().resealed, 0);
}

async fn a_rotation_goes_in_steps(store: SharedStore) {
    seal_some(&store).await;
    store.new_data_key().await.unwrap();
    let mut steps = Vec::new();
    loop {
        let rotation = store.reseal(2).await.unwrap();
        steps.push(rotation.resealed);
        if rotation.complete {
            break;
        }
    }
    assert_eq!(steps, [2, 2, 1]);
}

async fn the_cluster_secret_is_made_once(store: SharedStore) {
    let secrets = at_once(10, |_| {
        let store = store.clone();
        async move { store.cluster_secret().await.unwrap() }
    })
    .await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    assert_eq!(secrets[0].expose().len(), 32);
    assert_eq!(proof_answer(&secrets[0], "nonce"), proof_answer(&secrets[1], "nonce"));
}
