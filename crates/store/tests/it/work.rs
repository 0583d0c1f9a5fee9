//! Claims of work: each domain in one hand at a time, nothing written by a hand that let go.

use std::{collections::HashSet, time::Duration};

use holdfast_model::{Note, Outcome, State};
use holdfast_store::{Error, EventBody, Page, Products, SharedStore};
use holdfast_testkit::eventually;

use crate::kit::*;

on_both! {
    what_is_due_is_claimed_once,
    the_longest_due_is_first_and_a_full_batch_says_so,
    an_idle_store_says_when_the_next_is_due,
    a_lapse_is_counted_and_each_delays_the_next,
    a_commit_forgives_lapses,
    after_a_takeover_nothing_can_be_committed,
    after_its_time_nothing_can_be_committed,
    a_stale_version_is_lost,
    renewed_claims_hold_and_lost_ones_are_named,
    what_is_given_back_is_due_at_no_cost,
    a_step_commits_state_and_history_together,
    a_quiet_wait_writes_no_history,
    a_kept_claim_goes_on_and_ends,
}

async fn what_is_due_is_claimed_once(store: SharedStore) {
    add_numbered(&store, 200).await;
    let claimed = at_once(16, |n| {
        let store = store.clone();
        async move {
            let who = claimant(&format!("worker {n}"));
            let mut mine = Vec::new();
            loop {
                let work = store.claim(&who, 7, HOLD).await.unwrap().work;
                if work.is_empty() {
                    return mine;
                }
                mine.extend(work.into_iter().map(|claimed| claimed.domain.id));
            }
        }
    })
    .await;
    let all: Vec<_> = claimed.into_iter().flatten().collect();
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 200);
}

async fn the_longest_due_is_first_and_a_full_batch_says_so(store: SharedStore) {
    for name in ["a.example.com", "b.example.com", "c.example.com"] {
        add(&store, name).await;
    }
    let who = claimant("w");
    let batch = store.claim(&who, 2, HOLD).await.unwrap();
    let names: Vec<_> = batch.work.iter().map(|one| one.domain.name.to_string()).collect();
    assert_eq!(names, ["a.example.com", "b.example.com"]);
    assert_eq!(batch.next_due_at, Some(batch.now));
    assert_eq!(store.claim(&who, 2, HOLD).await.unwrap().work.len(), 1);
}

async fn an_idle_store_says_when_the_next_is_due(store: SharedStore) {
    let who = claimant("w");
    assert_eq!(store.claim(&who, 5, HOLD).await.unwrap().next_due_at, None);
    add(&store, "shop.example.com").await;
    let looking =
        step(&store, &claim_one(&store, &who).await, Outcome::Accepted, Products::default()).await;
    let note = Note::new("dns-nxdomain", "no such name");
    let after = finish(&store, &looking, Outcome::DnsNotPointed { note }).await;
    let idle = store.claim(&who, 5, HOLD).await.unwrap();
    assert!(idle.work.is_empty());
    assert_eq!(idle.next_due_at, after.domain.next_attempt_at);
    assert!(idle.next_due_at.is_some_and(|next| next > idle.now));
}

async fn a_lapse_is_counted_and_each_delays_the_next(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    let mut epochs = Vec::new();
    // The first lapse is free, the second costs two seconds: that much is waited for, the rest is read from the row.
    for (lapses, delay) in [(0, 0), (1, 2), (2, 4)] {
        let (claimed, at) = eventually(SOON, "the claim to lapse", async || {
            let mut batch = store.claim(&who, 1, HOLD).await.unwrap();
            batch.work.pop().map(|claimed| (claimed, batch.now)).ok_or("not due yet")
        })
        .await;
        assert_eq!(claimed.domain.lapses, lapses);
        epochs.push(claimed.epoch);
        let due = store.claim(&who, 1, HOLD).await.unwrap().next_due_at.unwrap();
        let off = due.as_micros() - at.plus(HOLD + Duration::from_secs(delay)).as_micros();
        assert!(off.abs() < 1_000_000, "{off} µs off");
        // As if the worker had died now.
        let claim = [(claimed.domain.id, claimed.epoch)];
        assert!(store.renew_claims(&who, &claim, Duration::ZERO).await.unwrap().is_empty());
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

async fn a_commit_forgives_lapses(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let (who, hold) = (claimant("w"), Duration::from_millis(20));
    assert_eq!(store.claim(&who, 1, hold).await.unwrap().work.len(), 1);
    let claimed = eventually(SOON, "the claim to lapse", async || {
        store.claim(&who, 1, HOLD).await.unwrap().work.pop().ok_or("not due yet")
    })
    .await;
    assert_eq!(claimed.domain.lapses, 1);
    let after = step(&store, &claimed, Outcome::Accepted, Products::default()).await;
    assert_eq!(after.domain.lapses, 0);
}

async fn after_a_takeover_nothing_can_be_committed(store: SharedStore) {
    let domain = add(&store, "shop.example.com").await;
    let (slow, quick) = (claimant("slow"), claimant("quick"));
    let old = store.claim(&slow, 1, Duration::from_millis(20)).await.unwrap().work.remove(0);
    let new = eventually(SOON, "a takeover", async || {
        store.claim(&quick, 1, HOLD).await.unwrap().work.pop().ok_or("still claimed")
    })
    .await;
    assert!(new.epoch > old.epoch);
    let commit = commit_of(&store, &old, &Outcome::Accepted, Products::default(), true).await;
    assert!(matches!(store.commit(&old, &commit).await, Err(Error::ClaimLost)));
    assert_eq!(store.domain(domain.id).await.unwrap().unwrap().state, State::Initial);
    step(&store, &new, Outcome::Accepted, Products::default()).await;
    let history = store.history(domain.id, &Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(history.items.len(), 2);
}

async fn after_its_time_nothing_can_be_committed(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    let claimed = store.claim(&who, 1, Duration::from_micros(1)).await.unwrap().work.remove(0);
    let commit = commit_of(&store, &claimed, &Outcome::Accepted, Products::default(), true).await;
    assert!(matches!(store.commit(&claimed, &commit).await, Err(Error::ClaimLost)));
    let lost = store.renew_claims(&who, &[(claimed.domain.id, claimed.epoch)], HOLD).await.unwrap();
    assert_eq!(lost, [claimed.domain.id]);
}

async fn a_stale_version_is_lost(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let claimed = claim_one(&store, &claimant("w")).await;
    let commit = commit_of(&store, &claimed, &Outcome::Accepted, Products::default(), true).await;
    let after = store.commit(&claimed, &commit).await.unwrap();
    assert_eq!(after.domain.version, claimed.domain.version + 1);
    assert!(matches!(store.commit(&claimed, &commit).await, Err(Error::ClaimLost)));
}

async fn renewed_claims_hold_and_lost_ones_are_named(store: SharedStore) {
    add_numbered(&store, 3).await;
    let who = claimant("w");
    let work = store.claim(&who, 3, HOLD).await.unwrap().work;
    let mut claims: Vec<_> = work.iter().map(|one| (one.domain.id, one.epoch)).collect();
    assert!(store.renew_claims(&who, &claims, HOLD).await.unwrap().is_empty());
    assert!(store.renew_claims(&who, &[], HOLD).await.unwrap().is_empty());
    let everything = claims.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!(store.renew_claims(&claimant("other"), &claims, HOLD).await.unwrap(), everything);
    claims[1].1 += 1;
    assert_eq!(store.renew_claims(&who, &claims, HOLD).await.unwrap(), [claims[1].0]);
}

async fn what_is_given_back_is_due_at_no_cost(store: SharedStore) {
    add_numbered(&store, 2).await;
    let who = claimant("w");
    let work = claim_all(&store, &who).await;
    assert_eq!(work.len(), 2);
    let claims: Vec<_> = work.iter().map(|one| (one.domain.id, one.epoch)).collect();
    // Another's claims are not ours to give.
    store.unclaim(&claimant("other"), &claims).await.unwrap();
    assert!(claim_all(&store, &who).await.is_empty());
    store.unclaim(&who, &claims).await.unwrap();
    let again = claim_all(&store, &who).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|one| one.domain.lapses == 0));
    let commit = commit_of(&store, &work[0], &Outcome::Accepted, Products::default(), true).await;
    assert!(matches!(store.commit(&work[0], &commit).await, Err(Error::ClaimLost)));
}

async fn a_step_commits_state_and_history_together(store: SharedStore) {
    use State::{AcmeOrdering, DnsVerified, DnsVerifying, Initial};
    let domain = add(&store, "shop.example.com").await;
    let claimed = claim_one(&store, &claimant("w")).await;
    let looking = step(&store, &claimed, Outcome::Accepted, Products::default()).await;
    let note = Note::new("dns-nxdomain", "no such name");
    let again =
        step(&store, &looking, Outcome::DnsNotPointed { note: note.clone() }, Products::default())
            .await;
    assert_eq!((again.domain.attempt, again.domain.last_error.as_ref()), (1, Some(&note)));
    let queued = step(&store, &again, Outcome::DnsPointed, Products::default()).await;
    assert_eq!(store.domain(domain.id).await.unwrap().unwrap(), queued.domain);
    let history = store.history(domain.id, &Page { limit: 10, after: None }).await.unwrap();
    let hops: Vec<_> = history
        .items
        .iter()
        .map(|event| match &event.body {
            EventBody::Transition { from, to, attempt, error, .. } => {
                assert_eq!(error.is_some(), *to == Some(DnsVerifying) && *from == *to);
                (*from, *to, *attempt)
            }
            body => panic!("{body:?}"),
        })
        .collect();
    assert_eq!(
        hops,
        [
            (None, Some(Initial), 0),
            (Some(Initial), Some(DnsVerifying), 1),
            (Some(DnsVerifying), Some(DnsVerifying), 1),
            (Some(DnsVerifying), Some(DnsVerified), 2),
            (Some(DnsVerified), Some(AcmeOrdering), 1),
        ]
    );
}

async fn a_quiet_wait_writes_no_history(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let before = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    store.want(domain.id, holdfast_model::Wanted::Retry, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let later = store.ping().await.unwrap().plus(HOLD);
    let after = finish(&store, &claimed, Outcome::RenewalLater { look_at: later }).await;
    assert_eq!(after.domain.next_attempt_at, Some(later));
    let history = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    assert_eq!(history.len(), before.len());
}

async fn a_kept_claim_goes_on_and_ends(store: SharedStore) {
    add(&store, "shop.example.com").await;
    let who = claimant("w");
    let claimed = claim_one(&store, &who).await;
    let kept = step(&store, &claimed, Outcome::Accepted, Products::default()).await;
    assert_eq!(kept.epoch, claimed.epoch);
    assert!(claim_all(&store, &claimant("other")).await.is_empty());
    finish(&store, &kept, Outcome::DnsPointed).await;
    let lost = store.renew_claims(&who, &[(kept.domain.id, kept.epoch)], HOLD).await.unwrap();
    assert_eq!(lost.len(), 1);
    // Queued, it waits for an order and is not due.
    assert!(claim_all(&store, &who).await.is_empty());
}
