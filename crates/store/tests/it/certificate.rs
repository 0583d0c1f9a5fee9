//! Certificates: all are kept, the newest is the domain's, what is deployed is what is served.

use holdfast_model::{Outcome, Wanted};
use holdfast_store::{Products, Revision, SharedStore};

use crate::kit::*;

on_both! {
    a_certificate_is_kept_and_deployed,
    a_renewed_one_takes_its_place,
    an_imported_one_is_deployed_when_asked,
    certificates_of_an_old_ca_are_moved_a_few_at_a_time,
    a_move_is_noted_until_it_is_done,
}

async fn a_certificate_is_kept_and_deployed(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let bundle = store.bundle(domain.id).await.unwrap().unwrap();
    assert_eq!((bundle.domain, &bundle.name), (domain.id, &domain.name));
    assert_eq!((bundle.chain_pem.as_str(), bundle.key.expose()), ("chain 1", b"key 1".as_slice()));
    assert_eq!(Some(&bundle.summary), domain.certificate.as_ref());
    let served = store.bundle_named(&domain.name).await.unwrap().unwrap();
    assert_eq!(served.id, bundle.id);
    assert!(store.bundle_named(&host("other.example.com")).await.unwrap().is_none());
    assert!(!format!("{bundle:?}").contains("key 1"));
}

async fn a_renewed_one_takes_its_place(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let before = store.latest_revision().await.unwrap();
    store.want(domain.id, Wanted::Renew, &actor()).await.unwrap();
    let who = claimant("w");
    finish(&store, &claim_one(&store, &who).await, Outcome::RenewalNeeded).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    // The old one is served throughout.
    let downloading = into_download(&store, admitted, "t2").await;
    assert_eq!(store.bundle_named(&domain.name).await.unwrap().unwrap().chain_pem, "chain 1");
    let renewed = issue(&store, &downloading, "2").await;
    assert_eq!(renewed.domain.certificate.unwrap().serial, "2");
    assert_eq!(store.domain(domain.id).await.unwrap().unwrap().certificate.unwrap().serial, "2");
    let served = store.bundle_named(&domain.name).await.unwrap().unwrap();
    assert_eq!(served.key.expose(), b"key 2");
    let changes = store.changes("default", before, 10).await.unwrap();
    assert_eq!(changes.items.len(), 1);
    assert_eq!(changes.items[0].certificate, Some((served.id, "sha-2".to_owned())));
}

async fn an_imported_one_is_deployed_when_asked(store: SharedStore) {
    let domain = store.add(&imported("shop.example.com", "7")).await.unwrap().domain;
    let claimed = claim_one(&store, &claimant("w")).await;
    assert!(claimed.domain.certificate.is_some());
    let products = Products { deploy: true, ..Products::default() };
    let deploying = step(&store, &claimed, Outcome::Imported, products).await;
    assert_eq!(deploying.domain.certificate.as_ref().unwrap().serial, "7");
    let served = store.bundle_named(&domain.name).await.unwrap().unwrap();
    assert_eq!(served.key.expose(), b"key 7");
    assert_eq!(store.changes("default", Revision::default(), 10).await.unwrap().items.len(), 1);
}

async fn certificates_of_an_old_ca_are_moved_a_few_at_a_time(store: SharedStore) {
    for n in 0..3 {
        active(&store, &format!("n{n}.example.com"), &format!("{n}")).await;
    }
    store.add(&imported("other.example.com", "7")).await.unwrap();
    assert_eq!(store.want_moved(None, "https://nobody.test", 10, &actor()).await.unwrap(), 0);
    assert_eq!(store.want_moved(None, DIRECTORY, 2, &actor()).await.unwrap(), 2);
    assert_eq!(store.want_moved(None, DIRECTORY, 2, &actor()).await.unwrap(), 1);
    assert_eq!(store.want_moved(None, DIRECTORY, 2, &actor()).await.unwrap(), 0);
    let asked = claim_all(&store, &claimant("w")).await;
    let asked = asked.iter().filter(|one| one.domain.wanted == Some(Wanted::Renew)).count();
    assert_eq!(asked, 3);
}

async fn a_move_is_noted_until_it_is_done(store: SharedStore) {
    assert_eq!(store.moving_from().await.unwrap(), None);
    store.move_from(None, Some("https://old.test")).await.unwrap();
    store.move_from(None, Some("https://older.test")).await.unwrap();
    assert_eq!(store.moving_from().await.unwrap().as_deref(), Some("https://older.test"));
    store.move_from(None, None).await.unwrap();
    assert_eq!(store.moving_from().await.unwrap(), None);
}
