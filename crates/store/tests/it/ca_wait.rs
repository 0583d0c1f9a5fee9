//! What waits for a CA: kept by key, seen by who is below it and by nobody else, lifted by a person, and over when it is over.

use std::time::Duration;

use holdfast_model::WaitScope;
use holdfast_store::{NewAccount, Outdated, Secret, SharedStore};
use holdfast_testkit::eventually;

use crate::kit::{SOON, account, host};

const HOUR: Duration = Duration::from_secs(3600);

async fn only_what_is_in_scope_waits(store: SharedStore) {
    let account = account(&store).await;
    let (shop, other) = (host("shop.example.com"), host("other.example.com"));
    let apex = host("example.com");
    let noted = store.note_wait(account, WaitScope::Name, &shop, HOUR, "too many").await.unwrap();
    let wait = store.waiting_for(account, &shop).await.unwrap().unwrap();
    assert_eq!((wait.scope, wait.key.as_str()), (WaitScope::Name, "shop.example.com"));
    assert_eq!((wait.until, wait.reason.as_str()), (noted, "too many"));
    assert_eq!(store.waiting_for(account, &other).await.unwrap(), None);
    // The apex is a name as any, and its wait is none of those below it.
    store.note_wait(account, WaitScope::Name, &apex, HOUR, "too many").await.unwrap();
    assert_eq!(store.waiting_for(account, &other).await.unwrap(), None);
    // A registered domain holds all below it, whoever met it.
    let all = store.note_wait(account, WaitScope::RegisteredDomain, &shop, HOUR * 2, "full").await;
    let all = all.unwrap();
    for name in [&shop, &other, &apex] {
        let wait = store.waiting_for(account, name).await.unwrap().unwrap();
        assert_eq!((wait.key.as_str(), wait.until), ("example.com", all));
    }
    assert_eq!(store.waiting_for(account, &host("shop.example.org")).await.unwrap(), None);
    // Another account has its own.
    let elsewhere = NewAccount {
        directory: "https://other.test".to_owned(),
        key: Secret::from("k".to_owned()),
        email: None,
    };
    let elsewhere = store.journal_account(&elsewhere).await.unwrap().id;
    assert_eq!(store.waiting_for(elsewhere, &shop).await.unwrap(), None);
}

async fn what_is_noted_again_takes_the_place_of_what_was(store: SharedStore) {
    let (account, shop) = (account(&store).await, host("shop.example.com"));
    for (wait, reason) in [(HOUR * 5, "long"), (HOUR, "short")] {
        store.note_wait(account, WaitScope::Name, &shop, wait, reason).await.unwrap();
    }
    let waits = store.waits(account, WaitScope::Name, 10).await.unwrap();
    assert_eq!(waits.len(), 1);
    let now = store.ping().await.unwrap();
    assert!(waits[0].until.since(now) <= HOUR && waits[0].reason == "short");
    // A wait that is over is none, and is pruned.
    let moment = Duration::from_millis(20);
    store.note_wait(account, WaitScope::Name, &shop, moment, "over").await.unwrap();
    eventually(SOON, "the wait is over", async || {
        store.waiting_for(account, &shop).await.unwrap().map_or(Ok(()), |wait| Err(wait.until))
    })
    .await;
    assert!(store.waits(account, WaitScope::Name, 10).await.unwrap().is_empty());
    let pruned = store.prune(None, Outdated::CaWaits, Duration::ZERO, 10).await.unwrap();
    assert_eq!(pruned.done, 1);
}

async fn a_person_lifts_what_holds_a_name(store: SharedStore) {
    let account = account(&store).await;
    let (shop, other) = (host("shop.example.com"), host("other.example.com"));
    store.note_wait(account, WaitScope::PausedName, &shop, HOUR, "paused").await.unwrap();
    store.note_wait(account, WaitScope::RegisteredDomain, &shop, HOUR, "full").await.unwrap();
    store.note_wait(account, WaitScope::Name, &other, HOUR, "too many").await.unwrap();
    assert_eq!(store.lift_waits(account, &shop).await.unwrap(), 2);
    assert_eq!(store.waiting_for(account, &shop).await.unwrap(), None);
    let left = store.waiting_for(account, &other).await.unwrap().unwrap();
    assert_eq!(left.scope, WaitScope::Name);
}

/// However many wait for less long.
async fn what_was_noted_lately_is_listed_the_newest_first(store: SharedStore) {
    let account = account(&store).await;
    for (name, scope, wait) in [
        ("a.example.com", WaitScope::Unknown, HOUR),
        ("b.example.com", WaitScope::Name, HOUR),
        ("c.example.com", WaitScope::Unknown, HOUR * 3),
        ("d.example.com", WaitScope::Unknown, HOUR * 2),
    ] {
        store.note_wait(account, scope, &host(name), wait, "odd").await.unwrap();
    }
    let noted = async |within, limit| {
        let noted = store.waits_noted(account, WaitScope::Unknown, within, limit).await.unwrap();
        noted.into_iter().map(|wait| wait.key).collect::<Vec<_>>()
    };
    assert_eq!(noted(HOUR, 2).await, ["d.example.com", "c.example.com"]);
    assert_eq!(noted(HOUR, 10).await.len(), 3);
    assert_eq!(noted(Duration::ZERO, 10).await, Vec::<String>::new());
}

async fn waits_are_listed_by_scope_the_first_to_end_first(store: SharedStore) {
    let account = account(&store).await;
    for hours in [3, 1, 2] {
        let name = host(&format!("h{hours}.example.com"));
        store.note_wait(account, WaitScope::PausedName, &name, HOUR * hours, "x").await.unwrap();
    }
    let keys: Vec<_> = store.waits(account, WaitScope::PausedName, 2).await.unwrap();
    let keys: Vec<_> = keys.iter().map(|wait| wait.key.as_str()).collect();
    assert_eq!(keys, ["h1.example.com", "h2.example.com"]);
}

on_both!(
    only_what_is_in_scope_waits,
    what_is_noted_again_takes_the_place_of_what_was,
    a_person_lifts_what_holds_a_name,
    what_was_noted_lately_is_listed_the_newest_first,
    waits_are_listed_by_scope_the_first_to_end_first,
);
