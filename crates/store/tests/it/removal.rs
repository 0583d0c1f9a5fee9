//! Removal: no other work begins, every step repeats, the name is free only at the end, and the row stays as history.

use holdfast_model::{Outcome, Wanted};
use holdfast_store::{
    EdgeReport, Error, EventBody, NewEdge, Observation, Page, Products, Revision, SharedStore,
};

use crate::kit::*;

on_both! {
    a_removed_domain_is_history,
    a_removal_during_a_claim_is_not_lost,
    teardown_ends_the_order_and_withdraws,
    teardown_can_be_repeated,
    a_removal_that_waits_is_looked_at_again,
    a_report_wakes_a_waiting_removal,
    a_certificate_that_comes_late_is_withdrawn,
    teardown_needs_a_removal_and_a_claim,
}

async fn a_removed_domain_is_history(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    remove(&store, domain.id).await;
    let gone = store.domain(domain.id).await.unwrap().unwrap();
    assert!(gone.removed_at.is_some() && gone.removing_since.is_some());
    assert!(store.domain_named(&domain.name).await.unwrap().is_none());
    assert!(store.bundle_named(&domain.name).await.unwrap().is_none());
    let claim = store.claim_on(&domain.resource).await.unwrap().unwrap();
    assert_eq!(claim.released_at, gone.removed_at);
    let history = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    let last = &history.last().unwrap().body;
    assert!(matches!(last, EventBody::Transition { from: Some(_), to: None, .. }), "{last:?}");
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    assert!(store.counts().await.unwrap().is_empty());
    let listed =
        store.domains(&Default::default(), &Page { limit: 10, after: None }).await.unwrap();
    assert!(listed.items.is_empty());
}

async fn a_removal_during_a_claim_is_not_lost(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    let claimed = claim_one(&store, &who).await;
    store.remove(claimed.domain.id, true, &actor()).await.unwrap();
    let after = finish(&store, &claimed, Outcome::Accepted).await;
    assert!(after.domain.removing_since.is_some());
    let again = claim_one(&store, &who).await;
    assert!(again.domain.revoke_on_removal);
    assert_eq!(again.domain.version, after.domain.version);
}

async fn teardown_ends_the_order_and_withdraws(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    store.want(domain.id, Wanted::Renew, &actor()).await.unwrap();
    let who = claimant("w");
    finish(&store, &claim_one(&store, &who).await, Outcome::RenewalNeeded).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    let downloading = into_download(&store, admitted, "t2").await;
    let before = store.latest_revision().await.unwrap();
    store.remove(domain.id, false, &actor()).await.unwrap();
    let torn = store.begin_teardown(&downloading).await.unwrap();
    assert!(!torn.domain.order_open);
    assert!(store.open_order(domain.id).await.unwrap().is_none());
    assert!(store.challenge_answer("t2").await.unwrap().is_none());
    assert!(store.bundle_named(&domain.name).await.unwrap().is_none());
    // For a revocation the certificate is still at hand.
    assert!(store.bundle(domain.id).await.unwrap().is_some());
    let changes = store.changes("default", before, 10).await.unwrap();
    assert_eq!(changes.items.len(), 1);
    assert_eq!((changes.items[0].domain, &changes.items[0].certificate), (domain.id, &None));
}

async fn teardown_can_be_repeated(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    store.remove(domain.id, false, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let torn = store.begin_teardown(&claimed).await.unwrap();
    let revision = store.latest_revision().await.unwrap();
    let again = store.begin_teardown(&torn).await.unwrap();
    assert_eq!(store.latest_revision().await.unwrap(), revision);
    assert!(matches!(store.begin_teardown(&torn).await, Err(Error::ClaimLost)));
    store.finish_removal(&again, &actor()).await.unwrap();
    assert!(matches!(store.finish_removal(&again, &actor()).await, Err(Error::ClaimLost)));
}

async fn a_removal_that_waits_is_looked_at_again(store: SharedStore) {
    let domain = add(&store, "shop.example.com").await;
    store.remove(domain.id, false, &actor()).await.unwrap();
    let who = claimant("w");
    let torn = store.begin_teardown(&claim_one(&store, &who).await).await.unwrap();
    let before = store.ping().await.unwrap();
    store.postpone_removal(&torn, HOLD).await.unwrap();
    let idle = store.claim(&who, 5, HOLD).await.unwrap();
    assert!(idle.work.is_empty());
    assert!(idle.next_due_at.unwrap() >= before.plus(HOLD));
    assert!(matches!(store.postpone_removal(&torn, HOLD).await, Err(Error::ClaimLost)));
}

async fn a_report_wakes_a_waiting_removal(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let new = NewEdge { name: "e1".to_owned(), group: "default".to_owned() };
    let edge = store.register_edge(&new).await.unwrap().id;
    let seen = |sha256: Option<&str>, up_to| EdgeReport {
        up_to,
        observations: vec![Observation {
            domain: domain.id,
            sha256: sha256.map(str::to_owned),
            error: None,
        }],
        ..EdgeReport::default()
    };
    let served = store.latest_revision().await.unwrap();
    store.observe(edge, &seen(Some("sha-1"), served), &actor()).await.unwrap();
    store.remove(domain.id, false, &actor()).await.unwrap();
    let who = claimant("w");
    let torn = store.begin_teardown(&claim_one(&store, &who).await).await.unwrap();
    let status = store.deployment(domain.id).await.unwrap();
    assert_eq!((status.tombstone, status.live, status.behind), (true, 1, 1));
    store.postpone_removal(&torn, HOLD).await.unwrap();
    store
        .observe(edge, &seen(None, store.latest_revision().await.unwrap()), &actor())
        .await
        .unwrap();
    let claimed = claim_one(&store, &who).await;
    let status = store.deployment(domain.id).await.unwrap();
    assert_eq!((status.behind, status.serving), (0, 1));
    store.finish_removal(&claimed, &actor()).await.unwrap();
    // An edge that never served it says so by being further on.
    let again = active(&store, "shop.example.com", "2").await;
    store.remove(again.id, false, &actor()).await.unwrap();
    let torn = store.begin_teardown(&claim_one(&store, &who).await).await.unwrap();
    store.postpone_removal(&torn, HOLD).await.unwrap();
    let up_to = store.latest_revision().await.unwrap();
    store.observe(edge, &EdgeReport { up_to, ..EdgeReport::default() }, &actor()).await.unwrap();
    assert_eq!(claim_one(&store, &who).await.domain.id, again.id);
    assert_eq!(store.deployment(again.id).await.unwrap().behind, 0);
}

async fn a_certificate_that_comes_late_is_withdrawn(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    let downloading = into_download(&store, admitted, "t1").await;
    store.remove(downloading.domain.id, false, &actor()).await.unwrap();
    let commit = commit_of(
        &store,
        &downloading,
        &Outcome::CertificateIssued,
        Products { certificate: Some(certificate("1", DIRECTORY)), ..Products::default() },
        false,
    )
    .await;
    store.commit(&downloading, &commit).await.unwrap();
    assert!(store.bundle_named(&downloading.domain.name).await.unwrap().is_some());
    tear_down(&store, downloading.domain.id).await;
    assert!(store.bundle_named(&downloading.domain.name).await.unwrap().is_none());
    let changes = store.changes("default", Revision::default(), 10).await.unwrap();
    assert!(changes.items.iter().all(|change| change.certificate.is_none()));
}

async fn teardown_needs_a_removal_and_a_claim(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let claimed = claim_one(&store, &claimant("w")).await;
    assert!(matches!(store.begin_teardown(&claimed).await, Err(Error::ClaimLost)));
    assert!(matches!(store.finish_removal(&claimed, &actor()).await, Err(Error::ClaimLost)));
}
