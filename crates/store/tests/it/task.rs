//! Singleton tasks and the fence around what they write.

use std::time::Duration;

use holdfast_store::{Error, Fence, LeaseHome, Outdated, SharedStore, TaskRun};
use sqlx::Executor as _;
use uuid::Uuid;

use crate::{
    kit::{active, actor},
    postgres,
    raw::Raw,
};

on_both! {
    what_became_of_a_task_is_kept,
    without_its_lease_no_chore_writes,
    a_domain_nobody_would_look_at_in_time_is_made_due,
}

raw_on_both! {
    what_is_due_in_years_is_looked_at_within_hours,
}

fn run(name: &str, outcome: &str) -> TaskRun {
    TaskRun {
        name: name.to_owned(),
        lease: "maintenance".to_owned(),
        instance: "here".to_owned(),
        runs: 2,
        took: Duration::from_millis(5),
        ok: true,
        outcome: outcome.to_owned(),
        next_in: Duration::from_secs(60),
    }
}

/// A term that nobody holds.
fn lost(kept: LeaseHome) -> Fence {
    Fence {
        lease: "maintenance".to_owned(),
        term: 7,
        incarnation: Uuid::new_v4(),
        limit: Duration::from_secs(5),
        kept,
    }
}

async fn what_became_of_a_task_is_kept(store: SharedStore) {
    store.record_task(None, &run("b", "first")).await.unwrap();
    store.record_task(None, &run("a", "other")).await.unwrap();
    store.record_task(None, &run("b", "second")).await.unwrap();
    let tasks = store.tasks().await.unwrap();
    assert_eq!(tasks.iter().map(|task| &*task.name).collect::<Vec<_>>(), ["a", "b"]);
    let b = &tasks[1];
    assert_eq!((b.runs, b.outcome.as_str(), b.took), (4, "second", Duration::from_millis(5)));
    assert!(b.next_in > Duration::from_secs(30) && b.next_in <= Duration::from_secs(60));
    assert!(b.next_at > b.ran_at);
}

async fn without_its_lease_no_chore_writes(store: SharedStore) {
    let fence = lost(LeaseHome::Here);
    let fence = Some(&fence);
    let nothing = Duration::ZERO;
    let refused = [
        store.fold_counts(fence).await.err(),
        store.prune_replicas(fence, nothing).await.err(),
        store.sweep_renewals(fence, None, 10).await.err(),
        store.want_moved(fence, "https://ca.test", 10, &actor()).await.err(),
        store.move_from(fence, None).await.err(),
        store.record_task(fence, &run("a", "x")).await.err(),
    ];
    let mut refused = Vec::from(refused);
    for what in Outdated::ALL {
        refused.push(store.prune(fence, what, nothing, 10).await.err());
    }
    for error in refused {
        assert!(matches!(&error, Some(Error::Fenced { term: 7, .. })), "{error:?}");
    }
    assert!(store.tasks().await.unwrap().is_empty());
}

async fn a_domain_nobody_would_look_at_in_time_is_made_due(store: SharedStore) {
    // Its certificate ends in the far future, so nothing is wrong with it.
    active(&store, "a.example.com", "1").await;
    let swept = store.sweep_renewals(None, None, 10).await.unwrap();
    assert_eq!((swept.nudged, swept.next), (0, None));
}

/// What the release before, or a clock that was wrong, wrote.
async fn what_is_due_in_years_is_looked_at_within_hours(raw: Raw) {
    let store = &raw.store;
    for n in ["far", "near"] {
        active(store, &format!("{n}.example.com"), n).await;
    }
    let far = format!(
        "UPDATE domain SET due_at = {} WHERE name = 'far.example.com'",
        raw.hours(24 * 9_000)
    );
    raw.execute(&far).await;
    let near =
        format!("UPDATE domain SET due_at = {} WHERE name = 'near.example.com'", raw.hours(24 * 7));
    raw.execute(&near).await;
    let swept = store.sweep_renewals(None, None, 10).await.unwrap();
    assert_eq!((swept.nudged, swept.nearer), (0, 1));
    let swept = store.sweep_renewals(None, None, 10).await.unwrap();
    assert_eq!((swept.nudged, swept.nearer), (0, 0));
    let within = format!("UPDATE domain SET tenant = 'near' WHERE due_at < {}", raw.hours(6));
    raw.execute(&within).await;
    let of = |tenant: Option<String>| holdfast_store::DomainFilter { tenant, ..Default::default() };
    let page = holdfast_store::Page { limit: 10, after: None };
    let found = store.domains(&of(Some("near".to_owned())), &page).await.unwrap().items;
    assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["far.example.com"]);
}

/// What only a mistake could have written: no next look, or one after the certificate's end.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_finds_what_was_forgotten() {
    let (store, _, url) = postgres::replicas().await;
    let mut raw = postgres::raw(&url).await;
    active(&store, "forgotten.example.com", "1").await;
    active(&store, "late.example.com", "2").await;
    active(&store, "fine.example.com", "3").await;
    raw.execute(
        "UPDATE certificate SET not_before = now() - interval '80 days', not_after = now() + interval '10 days';
         UPDATE domain SET due_at = now() + interval '30 minutes';
         UPDATE domain SET due_at = NULL WHERE name = 'forgotten.example.com';
         UPDATE domain SET due_at = now() + interval '20 days' WHERE name = 'late.example.com';",
    )
    .await
    .unwrap();
    let swept = store.sweep_renewals(None, None, 2).await.unwrap();
    let rest = store.sweep_renewals(None, swept.next, 2).await.unwrap();
    assert_eq!((swept.nudged + rest.nudged, rest.next), (2, None));
    let due = "SELECT count(*) FROM domain WHERE due_at <= now()";
    assert_eq!(postgres::number(&mut raw, due).await, 2);
}
