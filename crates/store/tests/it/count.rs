//! Counts per state: folded from the log, right at every moment, without a row that everybody writes.

use std::collections::BTreeMap;

use holdfast_model::{Outcome, State};
use holdfast_store::{DomainFilter, FOLDED, Page, Products, SharedStore};

use crate::{kit::*, raw::Raw};

on_both! {
    counts_follow_every_transition,
    counts_are_right_while_many_work_and_one_folds,
}

raw_on_both! {
    a_long_tail_is_read_in_part_and_folded_in_parts,
}

/// What a look at every domain gives.
async fn real(store: &SharedStore) -> BTreeMap<State, u64> {
    let mut counts = BTreeMap::new();
    for &state in State::ALL {
        let filter = DomainFilter { state: Some(state), ..DomainFilter::default() };
        let listed = store.domains(&filter, &Page { limit: 10_000, after: None }).await.unwrap();
        if !listed.items.is_empty() {
            counts.insert(state, u64::try_from(listed.items.len()).unwrap());
        }
    }
    counts
}

async fn counted(store: &SharedStore) -> BTreeMap<State, u64> {
    store.counts().await.unwrap().into_iter().collect()
}

async fn counts_follow_every_transition(store: SharedStore) {
    assert!(store.counts().await.unwrap().is_empty());
    let domain = active(&store, "a.example.com", "1").await;
    add(&store, "b.example.com").await;
    let expected = BTreeMap::from([(State::Active, 1), (State::Initial, 1)]);
    assert_eq!(counted(&store).await, expected);
    assert!(store.fold_counts(None).await.unwrap() > 0);
    assert_eq!(counted(&store).await, expected);
    assert_eq!(store.fold_counts(None).await.unwrap(), 0);
    remove(&store, domain.id).await;
    let claimed = claim_one(&store, &claimant("w")).await;
    finish(&store, &claimed, Outcome::Accepted).await;
    assert_eq!(counted(&store).await, BTreeMap::from([(State::DnsVerifying, 1)]));
    store.fold_counts(None).await.unwrap();
    assert_eq!(counted(&store).await, real(&store).await);
}

async fn counts_are_right_while_many_work_and_one_folds(store: SharedStore) {
    add_numbered(&store, 80).await;
    let folder = {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let total: u64 = counted(&store).await.values().sum();
                assert_eq!(total, 80);
                store.fold_counts(None).await.unwrap();
            }
        })
    };
    at_once(8, |n| {
        let store = store.clone();
        async move {
            let who = claimant(&format!("{n}"));
            loop {
                let work = store.claim(&who, 4, HOLD).await.unwrap().work;
                if work.is_empty() {
                    return;
                }
                for claimed in work {
                    let looking =
                        step(&store, &claimed, Outcome::Accepted, Products::default()).await;
                    if looking.domain.id.0.as_u128() % 3 != 0 {
                        finish(&store, &looking, Outcome::DnsPointed).await;
                    }
                }
            }
        }
    })
    .await;
    assert!(!folder.is_finished(), "{:?}", folder.await);
    folder.abort();
    let real = real(&store).await;
    assert_eq!(real.len(), 2);
    assert_eq!(counted(&store).await, real);
    store.fold_counts(None).await.unwrap();
    assert_eq!(counted(&store).await, real);
}

/// What is read is how things stood a moment ago, and with each part that is folded it comes nearer.
async fn a_long_tail_is_read_in_part_and_folded_in_parts(raw: Raw) {
    add(&raw.store, "shop.example.com").await;
    let folded = u64::from(FOLDED);
    raw.copy_events("to_state = 'Initial'", 2 * FOLDED + 500).await;
    for (at, read) in [(0, folded), (1, 2 * folded), (2, 2 * folded + 501), (3, 2 * folded + 501)] {
        assert_eq!(counted(&raw.store).await, BTreeMap::from([(State::Initial, read)]), "{at}");
        let part = raw.store.fold_counts(None).await.unwrap();
        assert_eq!(part, [folded, folded, 501, 0][at], "{at}");
    }
}
