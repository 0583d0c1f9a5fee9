//! A pause that a person set, with none of the CA's beside it: nobody is given an order until it ends or is lifted.

use std::time::Duration;

use holdfast_model::{Outcome, Wanted};
use holdfast_store::{AccountId, Admission, Halt, SharedStore, Topic};
use holdfast_testkit::eventually;
use tokio::time::timeout;

use crate::{kit::*, raw::Raw};

const HOUR: Duration = Duration::from_secs(3_600);

on_both! { nobody_is_given_an_order_until_it_is_lifted, one_with_an_end_is_over_by_itself }

raw_on_both! { it_is_still_there_when_the_store_is_opened_again }

/// In the queue: a renewal and a new name.
const QUEUED: [&str; 2] = ["new.example.com", "old.example.com"];

async fn queue_both(store: &SharedStore) -> AccountId {
    let old = active(store, "old.example.com", "1").await;
    store.want(old.id, Wanted::Renew, &actor()).await.unwrap();
    let claimed = claim_one(store, &claimant("renewer")).await;
    finish(store, &claimed, Outcome::RenewalNeeded).await;
    add(store, "new.example.com").await;
    let claimed = claim_one(store, &claimant("dns")).await;
    into_queue(store, claimed).await;
    account(store).await
}

async fn halt(store: &SharedStore, id: AccountId, wait: Option<Duration>) {
    store.halt_account(id, wait, &actor(), "ca.test").await.unwrap();
}

/// What the store keeps of it. The CA asked for nothing.
async fn kept(store: &SharedStore) -> Option<Halt> {
    let account = store.account(DIRECTORY, MANY).await.unwrap().unwrap();
    assert_eq!(account.paused_until, None);
    account.halt
}

async fn admit(store: &SharedStore, id: AccountId) -> Admission {
    store.admit(&claimant("w"), id, MANY, 10, HOLD).await.unwrap()
}

fn names(admission: &Admission) -> Vec<&str> {
    let mut names: Vec<_> = admission.work.iter().map(|one| one.domain.name.as_str()).collect();
    names.sort_unstable();
    names
}

async fn nobody_is_given_an_order_until_it_is_lifted(store: SharedStore) {
    let id = queue_both(&store).await;
    halt(&store, id, None).await;
    let closed = admit(&store, id).await;
    assert_eq!(names(&closed), Vec::<&str>::new());
    assert_eq!(closed.ask_again_at, None, "the clock does not end it");
    // Nor does the CA when it ends a pause of its own.
    store.pause_account(id, Duration::ZERO, "acme-rate-limited: slow").await.unwrap();
    assert_eq!(names(&admit(&store, id).await), Vec::<&str>::new());
    let kept = kept(&store).await.unwrap();
    assert_eq!((kept.until, kept.by.as_str()), (None, "tester"));
    let mut work = store.wake(Topic::Work);
    work.mark_unchanged();
    assert!(store.resume_account(id, &actor(), "ca.test").await.unwrap());
    timeout(SOON, work.changed()).await.expect("who waits was not told").unwrap();
    assert_eq!(names(&admit(&store, id).await), QUEUED);
    assert!(!store.resume_account(id, &actor(), "ca.test").await.unwrap());
}

async fn one_with_an_end_is_over_by_itself(store: SharedStore) {
    let id = queue_both(&store).await;
    halt(&store, id, Some(HOUR)).await;
    let long = kept(&store).await.unwrap();
    assert_eq!(long.until, Some(long.since.plus(HOUR)));
    let closed = admit(&store, id).await;
    assert_eq!((names(&closed), closed.ask_again_at), (Vec::new(), long.until));
    // The one set last counts.
    halt(&store, id, Some(Duration::from_millis(20))).await;
    let given = eventually(SOON, "the end of it", async || {
        let given = admit(&store, id).await;
        if given.work.is_empty() { Err("nobody was given an order") } else { Ok(given) }
    })
    .await;
    assert_eq!(names(&given), QUEUED);
    assert_eq!(kept(&store).await, None);
}

async fn it_is_still_there_when_the_store_is_opened_again(raw: Raw) {
    let id = queue_both(&raw.store).await;
    halt(&raw.store, id, None).await;
    let before = kept(&raw.store).await;
    assert!(before.is_some());
    let raw = raw.killed_while("holds_the_store_open").await;
    let store = &raw.store;
    assert_eq!(kept(store).await, before);
    assert_eq!(names(&admit(store, id).await), Vec::<&str>::new());
    assert!(store.resume_account(id, &actor(), "ca.test").await.unwrap());
    assert_eq!(names(&admit(store, id).await), QUEUED);
}
