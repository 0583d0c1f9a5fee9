//! The queue for orders: pause, budget and limit hold over all replicas, renewals go first, waiting costs nothing.

use std::{collections::HashSet, time::Duration};

use holdfast_model::{Note, Outcome, QueuePlace, State};
use holdfast_store::{Claimed, Error, OrderLimits, Products, SharedStore};
use holdfast_testkit::eventually;

use crate::kit::*;

on_both! {
    renewals_go_first_then_who_waited_longest,
    many_admitters_never_exceed_the_orders_in_flight,
    many_admitters_never_exceed_the_budget,
    a_pause_holds_for_all_and_is_never_shortened,
    an_order_the_ca_never_made_costs_nothing,
    an_ended_order_makes_room_and_cleans_up,
    failing_to_order_leaves_no_order_behind,
    parked_orders_hold_up_nobody,
    who_is_being_removed_gets_no_order,
    a_crashed_order_is_resumed,
    places_are_counted_from_one,
    an_unknown_account_is_an_error,
    the_budget_tells_when_it_opens,
}

async fn queue_up(store: &SharedStore, count: usize) {
    add_numbered(store, count).await;
    for claimed in claim_all(store, &claimant("dns")).await {
        into_queue(store, claimed).await;
    }
}

async fn renewals_go_first_then_who_waited_longest(store: SharedStore) {
    let renewing = active(&store, "old.example.com", "1").await;
    queue_up(&store, 2).await;
    store.want(renewing.id, holdfast_model::Wanted::Renew, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    finish(&store, &claimed, Outcome::RenewalNeeded).await;
    let (who, account) = (claimant("w"), account(&store).await);
    assert_eq!(store.queue_place(renewing.id).await.unwrap(), Some(QueuePlace::At(1)));
    let mut order = Vec::new();
    for _ in 0..3 {
        let mut one = store.admit(&who, account, MANY, 1, HOLD).await.unwrap().work;
        order.push(one.remove(0).domain.name.to_string());
    }
    assert_eq!(order, ["old.example.com", "n00000.example.com", "n00001.example.com"]);
}

async fn admitted_by_many(store: &SharedStore, limits: OrderLimits) -> Vec<Claimed> {
    let account = account(store).await;
    let work = at_once(16, |n| {
        let store = store.clone();
        async move {
            let who = claimant(&format!("worker {n}"));
            let mut mine = Vec::new();
            for _ in 0..4 {
                mine.extend(store.admit(&who, account, limits, 3, HOLD).await.unwrap().work);
            }
            mine
        }
    })
    .await;
    let work: Vec<_> = work.into_iter().flatten().collect();
    let domains: HashSet<_> = work.iter().map(|one| one.domain.id).collect();
    let orders: HashSet<_> = work.iter().map(|one| one.order.unwrap().0).collect();
    assert_eq!((domains.len(), orders.len()), (work.len(), work.len()));
    work
}

async fn many_admitters_never_exceed_the_orders_in_flight(store: SharedStore) {
    queue_up(&store, 60).await;
    let limits = OrderLimits { per_3h: 10_000, in_flight: 17 };
    let work = admitted_by_many(&store, limits).await;
    assert_eq!(work.len(), 17);
    let admission =
        store.admit(&claimant("w"), account(&store).await, limits, 5, HOLD).await.unwrap();
    // An end of an order will wake us; the clock will not help.
    assert!(admission.work.is_empty() && admission.ask_again_at.is_none());
}

async fn many_admitters_never_exceed_the_budget(store: SharedStore) {
    queue_up(&store, 60).await;
    let limits = OrderLimits { per_3h: 23, in_flight: 10_000 };
    let work = admitted_by_many(&store, limits).await;
    assert_eq!(work.len(), 23);
    let admission =
        store.admit(&claimant("w"), account(&store).await, limits, 5, HOLD).await.unwrap();
    let wait = admission.ask_again_at.unwrap().since(admission.now);
    let slot = Duration::from_secs(3 * 3600) / 23;
    assert!(wait <= slot && wait > slot - HOLD, "{wait:?}");
}

async fn a_pause_holds_for_all_and_is_never_shortened(store: SharedStore) {
    queue_up(&store, 2).await;
    let account = account(&store).await;
    store.pause_account(account, HOLD, "too many requests").await.unwrap();
    let until = store.account(DIRECTORY, MANY).await.unwrap().unwrap().paused_until;
    store.pause_account(account, HOLD / 2, "shorter").await.unwrap();
    let admission = store.admit(&claimant("w"), account, MANY, 5, HOLD).await.unwrap();
    assert!(admission.work.is_empty());
    assert_eq!(admission.ask_again_at, until);
    let paused = store.account(DIRECTORY, MANY).await.unwrap().unwrap();
    assert_eq!(
        (paused.paused_until, paused.pause_reason.as_deref()),
        (until, Some("too many requests"))
    );
    // Waiting cost nothing, and a pause that is over is none.
    let soon = Duration::from_millis(30);
    let other = holdfast_store::NewAccount {
        directory: "https://other.test".to_owned(),
        key: holdfast_store::Secret::from("k".to_owned()),
        email: None,
    };
    let other = store.journal_account(&other).await.unwrap().id;
    store.pause_account(other, soon, "a moment").await.unwrap();
    let work = eventually(SOON, "the pause to end", async || {
        let work = store.admit(&claimant("w"), other, MANY, 5, HOLD).await.unwrap().work;
        if work.is_empty() { Err("paused") } else { Ok(work) }
    })
    .await;
    assert!(work.iter().all(|one| one.domain.attempt == 0));
}

async fn an_order_the_ca_never_made_costs_nothing(store: SharedStore) {
    queue_up(&store, 1).await;
    let (who, account) = (claimant("w"), account(&store).await);
    let limits = OrderLimits { per_3h: 1, in_flight: 1 };
    for _ in 0..3 {
        let admitted = store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.remove(0);
        assert_eq!(store.open_order(admitted.domain.id).await.unwrap().unwrap().url, None);
        let waits = finish(&store, &admitted, Outcome::CaWaits).await;
        assert_eq!((waits.domain.attempt, waits.domain.order_open), (0, false));
        assert_eq!(waits.domain.queued_at, admitted.domain.queued_at);
    }
    let url =
        Products { order_url: Some("https://ca.test/order/1".to_owned()), ..Products::default() };
    let admitted = store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.remove(0);
    let made = step(&store, &admitted, Outcome::OrderCreated, url).await;
    finish(&store, &made, Outcome::OrderGone { note: Note::new("gone", "gone") }).await;
    // This one was made, so it counts.
    let spent = store.account(DIRECTORY, limits).await.unwrap().unwrap();
    assert!(spent.next_slot_at.is_some());
}

async fn an_ended_order_makes_room_and_cleans_up(store: SharedStore) {
    queue_up(&store, 2).await;
    let (who, account) = (claimant("w"), account(&store).await);
    let limits = OrderLimits { per_3h: 100, in_flight: 1 };
    let admitted = store.admit(&who, account, limits, 5, HOLD).await.unwrap().work;
    assert_eq!(admitted.len(), 1);
    let downloading = into_download(&store, admitted[0].clone(), "t1").await;
    assert!(store.challenge_answer("t1").await.unwrap().is_some());
    assert!(store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.is_empty());
    issue(&store, &downloading, "1").await;
    assert!(store.challenge_answer("t1").await.unwrap().is_none());
    assert!(store.open_order(downloading.domain.id).await.unwrap().is_none());
    assert_eq!(store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.len(), 1);
}

async fn failing_to_order_leaves_no_order_behind(store: SharedStore) {
    queue_up(&store, 1).await;
    let (who, account) = (claimant("w"), account(&store).await);
    let admitted = admit_one(&store, &who, account).await;
    let failed = finish(&store, &admitted, Outcome::trouble("ca-unreachable", "no route")).await;
    assert_eq!(failed.domain.state, State::AcmeOrderFailed);
    assert!(!failed.domain.order_open);
    assert!(store.open_order(failed.domain.id).await.unwrap().is_none());
}

async fn parked_orders_hold_up_nobody(store: SharedStore) {
    queue_up(&store, 2).await;
    let (who, account) = (claimant("w"), account(&store).await);
    let limits = OrderLimits { per_3h: 100, in_flight: 1 };
    let admitted = store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.remove(0);
    let downloading = into_download(&store, admitted, "t1").await;
    let parked = finish(&store, &downloading, Outcome::trouble("ca-unreachable", "no route")).await;
    assert_eq!(parked.domain.state, State::CertificateDownloadFailed);
    // The same order is finalized later; meanwhile others may order.
    assert!(store.open_order(parked.domain.id).await.unwrap().unwrap().key.is_some());
    assert_eq!(store.admit(&who, account, limits, 5, HOLD).await.unwrap().work.len(), 1);
}

async fn who_is_being_removed_gets_no_order(store: SharedStore) {
    queue_up(&store, 2).await;
    let leaving = store.domain_named(&host("n00000.example.com")).await.unwrap().unwrap();
    store.remove(leaving.id, false, &actor()).await.unwrap();
    assert_eq!(store.queue_place(leaving.id).await.unwrap(), None);
    let account = account(&store).await;
    let admitted = admit_one(&store, &claimant("w"), account).await;
    assert_ne!(admitted.domain.id, leaving.id);
}

async fn a_crashed_order_is_resumed(store: SharedStore) {
    queue_up(&store, 1).await;
    let account = account(&store).await;
    let hold = Duration::from_millis(20);
    let mut work = store.admit(&claimant("dies"), account, MANY, 5, hold).await.unwrap().work;
    let lost = work.remove(0);
    let resumed = eventually(SOON, "the claim to lapse", async || {
        store.claim(&claimant("w"), 5, HOLD).await.unwrap().work.pop().ok_or("not due yet")
    })
    .await;
    assert_eq!(resumed.order, lost.order);
    assert!(resumed.domain.order_open);
    assert_eq!(resumed.domain.state, State::AcmeOrdering);
    assert!(store.admit(&claimant("w"), account, MANY, 5, HOLD).await.unwrap().work.is_empty());
}

async fn places_are_counted_from_one(store: SharedStore) {
    queue_up(&store, 3).await;
    let place = async |name: &str| {
        let domain = store.domain_named(&host(name)).await.unwrap().unwrap();
        store.queue_place(domain.id).await.unwrap()
    };
    assert_eq!(place("n00000.example.com").await, Some(QueuePlace::At(1)));
    assert_eq!(place("n00002.example.com").await, Some(QueuePlace::At(3)));
    store.admit(&claimant("w"), account(&store).await, MANY, 1, HOLD).await.unwrap();
    assert_eq!(place("n00000.example.com").await, None);
    assert_eq!(place("n00002.example.com").await, Some(QueuePlace::At(2)));
    let elsewhere = add(&store, "shop.example.com").await;
    assert_eq!(store.queue_place(elsewhere.id).await.unwrap(), None);
}

async fn an_unknown_account_is_an_error(store: SharedStore) {
    queue_up(&store, 1).await;
    let nobody = holdfast_store::AccountId(uuid::Uuid::new_v4());
    let refused = store.admit(&claimant("w"), nobody, MANY, 1, HOLD).await.unwrap_err();
    assert!(matches!(refused, Error::NotFound("account")));
}

async fn the_budget_tells_when_it_opens(store: SharedStore) {
    queue_up(&store, 3).await;
    let account = account(&store).await;
    let limits = OrderLimits { per_3h: 2, in_flight: 100 };
    let full = store.account(DIRECTORY, limits).await.unwrap().unwrap();
    assert_eq!(full.next_slot_at, None);
    let first = store.admit(&claimant("w"), account, limits, 1, HOLD).await.unwrap();
    assert_eq!((first.work.len(), first.ask_again_at), (1, None));
    let second = store.admit(&claimant("w"), account, limits, 5, HOLD).await.unwrap();
    assert_eq!(second.work.len(), 1);
    let opens = store.account(DIRECTORY, limits).await.unwrap().unwrap().next_slot_at;
    let apart = opens.unwrap().as_micros() - second.ask_again_at.unwrap().as_micros();
    assert!(apart.abs() <= 1, "{apart}");
}
