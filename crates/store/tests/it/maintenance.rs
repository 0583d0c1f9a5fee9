//! Chores, and what follows a restore.

use holdfast_model::{Outcome, State};
use holdfast_store::{Error, EventCursor, Page, Products, Revision, SharedStore};

use crate::kit::*;

on_both! {
    the_store_answers_and_knows_its_schema,
    nothing_young_is_swept_or_pruned,
    what_is_over_is_pruned_and_counts_stay,
    a_restore_begins_a_new_epoch,
}

async fn the_store_answers_and_knows_its_schema(store: SharedStore) {
    let (first, second) = (store.ping().await.unwrap(), store.ping().await.unwrap());
    assert!(first <= second);
    let (applied, known) = store.schema().await.unwrap();
    assert_eq!(applied, known);
}

async fn nothing_young_is_swept_or_pruned(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    remove(&store, domain.id).await;
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    store.fold_counts(None).await.unwrap();
    assert_eq!(store.sweep_challenges(None).await.unwrap(), 0);
    assert_eq!(store.prune_events(None, 1, 100).await.unwrap(), 0);
}

async fn what_is_over_is_pruned_and_counts_stay(store: SharedStore) {
    let gone = active(&store, "gone.example.com", "1").await;
    let kept = active(&store, "kept.example.com", "2").await;
    remove(&store, gone.id).await;
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    // Not folded yet, so nothing that the counts need may go.
    let all = store.events_after(EventCursor::default(), 1_000).await.unwrap().len();
    store.prune_events(None, 0, 1_000).await.unwrap();
    assert_eq!(store.events_after(EventCursor::default(), 1_000).await.unwrap().len(), all);
    store.fold_counts(None).await.unwrap();
    let counts = store.counts().await.unwrap();
    while store.prune_events(None, 0, 5).await.unwrap() > 0 {}
    let page = Page { limit: 100, after: None };
    assert!(store.history(gone.id, &page).await.unwrap().items.is_empty());
    let history = store.history(kept.id, &page).await.unwrap().items;
    assert_eq!(store.events_after(EventCursor::default(), 1_000).await.unwrap(), history);
    assert_eq!(store.counts().await.unwrap(), counts);
    assert!(store.domain(gone.id).await.unwrap().unwrap().removed_at.is_some());
}

async fn a_restore_begins_a_new_epoch(store: SharedStore) {
    let served = active(&store, "a.example.com", "1").await;
    let gone = active(&store, "b.example.com", "2").await;
    remove(&store, gone.id).await;
    add(&store, "c.example.com").await;
    let who = claimant("w");
    into_queue(&store, claim_one(&store, &who).await).await;
    let admitted = admit_one(&store, &who, account(&store).await).await;
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let preparing = step(&store, &admitted, Outcome::OrderCreated, url).await;
    let before = store.latest_revision().await.unwrap();
    let cursor = store.latest_event().await.unwrap();
    let counts = store.counts().await.unwrap();

    let restored = store.restored().await.unwrap();
    assert_eq!((restored.epoch, restored.orders, restored.deployments), (before.epoch + 1, 1, 1));
    // Whoever held a claim holds none; the order is looked at anew.
    let commit = commit_of(
        &store,
        &preparing,
        &Outcome::OrderProcessing { retry_after: None },
        Products::default(),
        true,
    )
    .await;
    assert!(matches!(store.commit(&preparing, &commit).await, Err(Error::ClaimLost)));
    let again = claim_one(&store, &who).await;
    assert_eq!((again.domain.id, again.order), (preparing.domain.id, preparing.order));
    // Edges list anew, and find everything.
    let gone = store.changes("default", before, 10).await.unwrap_err();
    assert!(matches!(gone, Error::RevisionGone { .. }));
    let changes = store.changes("default", Revision::default(), 10).await.unwrap();
    let names: Vec<_> = changes
        .items
        .iter()
        .map(|change| (change.name.to_string(), change.certificate.is_some()))
        .collect();
    assert_eq!(names, [("a.example.com".to_owned(), true), ("b.example.com".to_owned(), false)]);
    assert!(changes.items.iter().all(|change| change.revision > before));
    assert!(store.bundle_named(&served.name).await.unwrap().is_some());
    // The stream goes on behind every cursor there was, also one of the future that is lost.
    assert_eq!(store.counts().await.unwrap(), counts);
    add(&store, "d.example.com").await;
    let lost = EventCursor { id: cursor.id + 1_000, xid: cursor.xid };
    for after in [cursor, lost] {
        assert_eq!(store.events_after(after, 10).await.unwrap().len(), 1, "{after}");
    }
    assert!(store.latest_event().await.unwrap() > lost);
    let initial =
        store.counts().await.unwrap().into_iter().find(|(state, _)| *state == State::Initial);
    assert_eq!(initial, Some((State::Initial, 1)));
    store.fold_counts(None).await.unwrap();
    assert!(store.counts().await.unwrap().contains(&(State::Initial, 1)));
}
