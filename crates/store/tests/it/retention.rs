//! Retention: what is over goes for good, in steps; what is not stays, and so does what a replay needs.

use std::time::Duration;

use holdfast_model::{Outcome, State, Wanted};
use holdfast_store::{
    ClaimRequest, DomainPatch, Error, EventCursor, NewEdge, Outdated, Page, Revision, SharedStore,
};

use crate::{kit::*, raw::Raw};

const DAY: Duration = Duration::from_secs(24 * 3600);

on_both! {
    nothing_young_is_pruned,
    what_is_not_folded_stays,
    events_go_and_counts_stay,
}

raw_on_both! {
    a_removed_domain_goes_with_all_that_was_its_own,
    a_removal_under_a_clock_that_was_set_back_is_no_older_than_what_it_removed,
    a_long_history_goes_in_steps,
    of_a_domain_that_lives_the_old_history_goes,
    the_history_of_a_removed_domain_stays_for_as_long_as_the_domain,
    a_claim_that_was_released_goes_and_those_of_domains_stay,
    a_superseded_certificate_goes_after_its_end,
    what_can_be_gone_back_to_stays,
    what_is_damaged_is_not_gone_back_to,
    an_edge_behind_the_deleted_tombstones_lists_anew,
    the_tombstone_of_a_group_that_was_left_goes,
    tombstones_go_past_removals_that_wait,
    ended_orders_go,
}

/// Prunes until nothing is left to do; gives how many rows went.
async fn prune(store: &SharedStore, what: Outdated, age: Duration) -> u64 {
    let mut all = 0;
    loop {
        let step = store.prune(None, what, age, 3).await.unwrap();
        all += step.done;
        if !step.more {
            return all;
        }
    }
}

async fn fold(store: &SharedStore) {
    while store.fold_counts(None).await.unwrap() > 0 {}
}

/// Another certificate for an Active domain, in the place of the one it has.
async fn renew(store: &SharedStore, id: holdfast_model::DomainId, serial: &str) {
    let who = claimant("w");
    store.want(id, Wanted::Renew, &actor()).await.unwrap();
    finish(store, &claim_one(store, &who).await, Outcome::RenewalNeeded).await;
    let admitted = admit_one(store, &who, account(store).await).await;
    let deploying = issue(store, &into_download(store, admitted, serial).await, serial).await;
    finish(store, &deploying, Outcome::DeploymentSeen).await;
}

async fn nothing_young_is_pruned(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    remove(&store, domain.id).await;
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    fold(&store).await;
    for what in Outdated::ALL {
        assert_eq!(prune(&store, what, DAY).await, 0, "{what:?}");
    }
}

async fn what_is_not_folded_stays(store: SharedStore) {
    let gone = active(&store, "gone.example.com", "1").await;
    remove(&store, gone.id).await;
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    let all = store.events_after(EventCursor::default(), 1_000).await.unwrap();
    for what in [Outdated::Notices, Outdated::History, Outdated::Removed] {
        prune(&store, what, Duration::ZERO).await;
    }
    assert_eq!(store.events_after(EventCursor::default(), 1_000).await.unwrap(), all);
    assert!(store.domain(gone.id).await.unwrap().is_some());
}

async fn events_go_and_counts_stay(store: SharedStore) {
    let gone = active(&store, "gone.example.com", "1").await;
    let kept = active(&store, "kept.example.com", "2").await;
    remove(&store, gone.id).await;
    store.notice(&actor(), "test", "x", "y").await.unwrap();
    fold(&store).await;
    let counts = store.counts().await.unwrap();
    prune(&store, Outdated::Notices, Duration::ZERO).await;
    prune(&store, Outdated::Removed, Duration::ZERO).await;
    let page = Page { limit: 100, after: None };
    assert!(store.history(gone.id, &page).await.unwrap().items.is_empty());
    let history = store.history(kept.id, &page).await.unwrap().items;
    assert_eq!(store.events_after(EventCursor::default(), 1_000).await.unwrap(), history);
    assert_eq!(store.counts().await.unwrap(), counts);
}

async fn a_removed_domain_goes_with_all_that_was_its_own(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    let kept = active(&store, "kept.example.com", "2").await;
    remove(&store, gone.id).await;
    fold(&store).await;
    for what in [Outdated::Removed, Outdated::Tombstones, Outdated::Orders, Outdated::Notices] {
        prune(&store, what, Duration::ZERO).await;
    }
    assert!(store.domain(gone.id).await.unwrap().is_none());
    for table in ["domain", "certificate", "deployment"] {
        let rows = raw.number(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(rows, 1, "{table}");
    }
    assert_eq!(raw.number("SELECT count(*) FROM sealed WHERE owner = 'certificate'").await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM acme_order").await, 0);
    // The claim is what a replay is told by.
    assert_eq!(raw.number("SELECT count(*) FROM claim").await, 2);
    assert!(store.bundle(kept.id).await.unwrap().is_some());
    assert!(store.claim_on(&gone.resource).await.unwrap().unwrap().released_at.is_some());
}

async fn a_removal_under_a_clock_that_was_set_back_is_no_older_than_what_it_removed(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    remove(&store, gone.id).await;
    raw.execute(&format!("UPDATE domain SET removed_at = {}", raw.days_ago(700))).await;
    fold(&store).await;
    assert_eq!(prune(&store, Outdated::Removed, DAY * 400).await, 0);
    assert!(store.domain(gone.id).await.unwrap().is_some());
}

async fn a_long_history_goes_in_steps(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    remove(&store, gone.id).await;
    fold(&store).await;
    let left = async || store.events_after(EventCursor::default(), 1_000).await.unwrap().len();
    let before = left().await;
    let step = store.prune(None, Outdated::Removed, Duration::ZERO, 4).await.unwrap();
    assert!(step.done == 4 && step.more, "{step:?}");
    assert_eq!(left().await, before - 4);
    assert!(store.domain(gone.id).await.unwrap().is_some(), "its history is not gone yet");
    prune(&store, Outdated::Removed, Duration::ZERO).await;
    assert!(store.domain(gone.id).await.unwrap().is_none());
}

async fn of_a_domain_that_lives_the_old_history_goes(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    fold(&store).await;
    raw.execute(&format!("UPDATE event SET at = {}", raw.days_ago(401))).await;
    store.want(domain.id, Wanted::Renew, &actor()).await.unwrap();
    finish(&store, &claim_one(&store, &claimant("w")).await, Outcome::RenewalNeeded).await;
    fold(&store).await;
    assert!(prune(&store, Outdated::History, DAY * 400).await > 5);
    let history = store.history(domain.id, &Page { limit: 100, after: None }).await.unwrap().items;
    assert!(!history.is_empty() && history.len() < 5, "{history:?}");
    // It was served before, though its arrival is forgotten.
    let last = EventCursor { id: i64::MAX, xid: i64::MAX };
    assert!(store.was_active_before(domain.id, last).await.unwrap());
}

async fn a_superseded_certificate_goes_after_its_end(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    renew(&store, domain.id, "2").await;
    raw.execute(&raw.lives(97, 0)).await;
    let ended = raw.days_ago(7);
    raw.execute(&format!("UPDATE certificate SET not_after = {ended}")).await;
    assert_eq!(prune(&store, Outdated::Certificates, DAY * 6).await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM certificate").await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM sealed WHERE owner = 'certificate'").await, 1);
    // The one it has stays, however long ago it ended.
    assert_eq!(store.bundle(domain.id).await.unwrap().unwrap().summary.serial, "2");
}

async fn what_can_be_gone_back_to_stays(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    renew(&store, domain.id, "2").await;
    assert_eq!(prune(&store, Outdated::Certificates, Duration::ZERO).await, 0);
    let back = store.roll_back(domain.id, None, &actor()).await.unwrap();
    assert_eq!(back.certificate.unwrap().serial, "1");
    // Both ended meanwhile: only the one that was left goes.
    raw.execute(&format!("UPDATE certificate SET not_after = {}", raw.days_ago(1))).await;
    assert_eq!(prune(&store, Outdated::Certificates, Duration::ZERO).await, 1);
    assert_eq!(store.bundle(domain.id).await.unwrap().unwrap().summary.serial, "1");
    let refused = store.roll_back(domain.id, None, &actor()).await.unwrap_err();
    assert!(matches!(refused, Error::NothingToRollBackTo), "{refused}");
}

async fn what_is_damaged_is_not_gone_back_to(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    renew(&store, domain.id, "2").await;
    let first = "(SELECT id FROM certificate WHERE serial = '1')";
    raw.execute(&format!("UPDATE sealed SET value = substr(value, 1, 20) WHERE id = {first}"))
        .await;
    let refused = store.roll_back(domain.id, None, &actor()).await.unwrap_err();
    assert!(refused.is_damage(), "{refused}");
    let now = store.domain(domain.id).await.unwrap().unwrap();
    assert_eq!((now.state, now.certificate.unwrap().serial.as_str()), (State::Active, "2"));
}

async fn an_edge_behind_the_deleted_tombstones_lists_anew(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    active(&store, "kept.example.com", "2").await;
    let before = store.latest_revision().await.unwrap();
    store.remove(gone.id, false, &actor()).await.unwrap();
    let claimed = claim_one(&store, &claimant("w")).await;
    let torn = store.begin_teardown(&claimed).await.unwrap();
    // Whoever waits for it to be seen still needs it.
    assert_eq!(prune(&store, Outdated::Tombstones, Duration::ZERO).await, 0);
    store.finish_removal(&torn, &actor()).await.unwrap();
    assert_eq!(prune(&store, Outdated::Tombstones, DAY).await, 0);
    assert_eq!(store.changes("default", before, 10).await.unwrap().items.len(), 1);
    let heard = store.latest_revision().await.unwrap();
    assert_eq!(prune(&store, Outdated::Tombstones, Duration::ZERO).await, 1);

    let refused = store.changes("default", before, 10).await.unwrap_err();
    assert!(matches!(refused, Error::RevisionGone { .. }), "{refused}");
    assert!(store.changes("default", heard, 10).await.unwrap().items.is_empty());
    let listed = store.desired("default", &Page { limit: 10, after: None }).await.unwrap();
    assert_eq!((listed.items.len(), listed.revision), (1, heard));
    assert_eq!(store.changes("default", Revision::default(), 10).await.unwrap().items.len(), 1);
    // The name again is a change as any other.
    active(&store, "gone.example.com", "3").await;
    assert_eq!(store.changes("default", heard, 10).await.unwrap().items.len(), 1);
    assert_eq!(prune(&store, Outdated::Tombstones, Duration::ZERO).await, 0);
}

async fn the_tombstone_of_a_group_that_was_left_goes(raw: Raw) {
    let store = raw.store.clone();
    let domain = active(&store, "shop.example.com", "1").await;
    store.register_edge(&NewEdge { name: "e1".into(), group: "default".into() }).await.unwrap();
    let patch = DomainPatch { edge_group: Some("eu".to_owned()), ..DomainPatch::default() };
    store.patch(domain.id, None, &patch, &actor()).await.unwrap();
    assert_eq!(raw.number("SELECT count(*) FROM deployment").await, 2);
    assert_eq!(prune(&store, Outdated::Tombstones, Duration::ZERO).await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM deployment").await, 1);
    assert_eq!(store.changes("eu", Revision::default(), 10).await.unwrap().items.len(), 1);
}

async fn tombstones_go_past_removals_that_wait(raw: Raw) {
    let (store, who) = (raw.store.clone(), claimant("w"));
    for n in 0..10 {
        let domain = active(&store, &format!("n{n}.example.com"), &format!("{n}")).await;
        store.remove(domain.id, false, &actor()).await.unwrap();
        let torn = store.begin_teardown(&claim_one(&store, &who).await).await.unwrap();
        // As many removals wait for an edge as one step may delete.
        if n >= 3 {
            store.finish_removal(&torn, &actor()).await.unwrap();
        }
    }
    assert_eq!(prune(&store, Outdated::Tombstones, Duration::ZERO).await, 7);
    assert_eq!(raw.number("SELECT count(*) FROM deployment").await, 3);
}

async fn ended_orders_go(raw: Raw) {
    let store = raw.store.clone();
    for n in 0..7 {
        active(&store, &format!("n{n}.example.com"), &format!("{n}")).await;
    }
    into_queue(&store, {
        add(&store, "open.example.com").await;
        claim_one(&store, &claimant("w")).await
    })
    .await;
    admit_one(&store, &claimant("w"), account(&store).await).await;
    assert_eq!(prune(&store, Outdated::Orders, Duration::ZERO).await, 7);
    assert_eq!(raw.number("SELECT count(*) FROM acme_order WHERE ended_at IS NULL").await, 1);
    assert_eq!(raw.number("SELECT count(*) FROM acme_order").await, 1);
}

/// The history of a removed domain is spared, and what comes after it is found without looking at it again.
async fn the_history_of_a_removed_domain_stays_for_as_long_as_the_domain(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    remove(&store, gone.id).await;
    let lives = active(&store, "lives.example.com", "2").await;
    fold(&store).await;
    let history = async |id| {
        let page = Page { limit: 100, after: None };
        store.history(id, &page).await.unwrap().items.len()
    };
    let (spared, before) = (history(gone.id).await, history(lives.id).await);
    assert!(spared > 6 && before > 6);
    raw.execute(&format!("UPDATE event SET at = {}", raw.days_ago(401))).await;
    prune(&store, Outdated::History, DAY * 400).await;
    assert_eq!((history(gone.id).await, history(lives.id).await), (spared, 0));

    renew(&store, lives.id, "3").await;
    fold(&store).await;
    let young = history(lives.id).await;
    assert!(young > 3);
    assert_eq!(prune(&store, Outdated::History, DAY * 400).await, 0);
    let place = raw.number("SELECT count(*) FROM setting WHERE key = 'history_pruned_to'").await;
    assert_eq!(place, 1);
    raw.execute(&format!("UPDATE event SET at = {}", raw.days_ago(401))).await;
    // One step is enough: what was spared is not among the rows that are looked at.
    let step = store.prune(None, Outdated::History, DAY * 400, 3).await.unwrap();
    assert!(step.done == 3 && step.more, "{step:?}");
    prune(&store, Outdated::History, DAY * 400).await;
    assert_eq!((history(gone.id).await, history(lives.id).await), (spared, 0));

    prune(&store, Outdated::Removed, Duration::ZERO).await;
    assert_eq!(history(gone.id).await, 0);
    assert!(store.domain(gone.id).await.unwrap().is_none());
}

async fn a_claim_that_was_released_goes_and_those_of_domains_stay(raw: Raw) {
    let store = raw.store.clone();
    let gone = active(&store, "gone.example.com", "1").await;
    remove(&store, gone.id).await;
    for (resource, released) in [("old", true), ("young", true), ("held", false)] {
        let (resource, orchestration_id) = (resource.to_owned(), format!("id of {resource}"));
        let request = ClaimRequest {
            resource: resource.clone(),
            name: None,
            orchestration_id: orchestration_id.clone(),
        };
        store.claim_resource(&request).await.unwrap();
        if released {
            store.release_resource(&resource, &orchestration_id).await.unwrap();
        }
    }
    let old = format!(
        "UPDATE claim SET released_at = {} WHERE released_at IS NOT NULL AND resource <> 'young'",
        raw.days_ago(401)
    );
    raw.execute(&old).await;
    assert_eq!(prune(&store, Outdated::Claims, DAY * 400).await, 1);
    assert_eq!(
        raw.number("SELECT count(*) FROM claim WHERE resource IN ('young', 'held')").await,
        2
    );
    // What a replay is told by.
    assert!(store.claim_on(&gone.resource).await.unwrap().unwrap().released_at.is_some());
    assert_eq!(store.claim_on("old").await.unwrap(), None);
}
