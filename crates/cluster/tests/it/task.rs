//! Singleton work: done by one at a time, fenced by the term, taken over where it was.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use holdfast_cluster::{MAINTENANCE, Role, Task};
use holdfast_store::{Error, Fence, Progress};
use holdfast_testkit::eventually;
use tokio::sync::Mutex;

use crate::kit::{Place, SOON};

/// Who ran, in which term.
type Log = Arc<Mutex<Vec<(&'static str, i64)>>>;

fn noted(log: &Log, who: &'static str) -> Vec<Task> {
    let log = log.clone();
    vec![Task::new("count", MAINTENANCE, Duration::from_millis(50), move |fence: Option<Fence>| {
        let log = log.clone();
        async move {
            log.lock().await.push((who, fence.map_or(0, |fence| fence.term)));
            Ok::<_, Error>(1)
        }
    })]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_and_then_the_next() {
    let (place, log) = (Place::on_postgres().await, Log::default());
    let one = place.join_as("one", Role::All, noted(&log, "one")).await;
    eventually(
        SOON,
        "work",
        async || {
            if log.lock().await.len() > 3 { Ok(()) } else { Err("none") }
        },
    )
    .await;
    let two = place.join_as("two", Role::Worker, noted(&log, "two")).await;
    let api = place.join_as("api", Role::Api, noted(&log, "api")).await;
    eventually(SOON, "a status", async || {
        let tasks = two.cluster.tasks().await.unwrap();
        let task = tasks.iter().find(|task| task.name == "count").ok_or("none")?;
        assert_eq!((task.lease.as_str(), task.instance_id.as_str()), (MAINTENANCE, "one"));
        if task.ok && task.runs > 0 { Ok(()) } else { Err("no runs") }
    })
    .await;
    one.end().await;
    eventually(SOON, "work at the next", async || {
        if log.lock().await.iter().any(|(who, _)| *who == "two") { Ok(()) } else { Err("none") }
    })
    .await;
    api.end().await;
    two.end().await;
    let log = log.lock().await;
    assert!(log.iter().all(|(who, _)| *who != "api"), "an API replica works not");
    assert!(log.windows(2).all(|pair| pair[0].1 <= pair[1].1), "terms fell: {log:?}");
    let owners: std::collections::BTreeSet<_> = log.iter().collect();
    assert_eq!(owners.len(), 2, "one owner per term: {owners:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_is_over_writes_nothing() {
    let place = Place::on_postgres().await;
    let fences: Arc<Mutex<Vec<Fence>>> = Arc::default();
    let tasks = {
        let fences = fences.clone();
        vec![Task::new("keep", MAINTENANCE, Duration::from_secs(60), move |fence| {
            let fences = fences.clone();
            async move {
                fences.lock().await.extend(fence);
                Ok::<_, Error>(0)
            }
        })]
    };
    let one = place.join_as("one", Role::All, tasks).await;
    let fence = eventually(SOON, "a fence", async || {
        fences.lock().await.first().cloned().ok_or("none yet")
    })
    .await;
    assert_eq!(one.store.prune_replicas(Some(&fence), Duration::from_secs(60)).await.unwrap(), 0);
    one.cluster.release(MAINTENANCE, "ops").await.unwrap();
    let late = one.store.prune_replicas(Some(&fence), Duration::ZERO).await;
    assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_and_tried_again() {
    let place = Place::on_sqlite();
    let runs = Arc::new(AtomicU64::new(0));
    let tasks = {
        let runs = runs.clone();
        vec![Task::new("fail", MAINTENANCE, Duration::from_millis(20), move |_| {
            let failed = runs.fetch_add(1, Ordering::SeqCst) < 3;
            async move { if failed { Err(Error::NotFound("luck")) } else { Ok(7) } }
        })]
    };
    let one = place.join_as("up", Role::All, tasks).await;
    for (ok, outcome) in [(false, "no such luck"), (true, "7 done")] {
        eventually(SOON, outcome, async || {
            let tasks = one.cluster.tasks().await.unwrap();
            let task = tasks.into_iter().find(|task| task.name == "fail").ok_or("none")?;
            let right = task.ok == ok && task.outcome == outcome;
            if right || runs.load(Ordering::SeqCst) > 5 && task.ok {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .await;
    }
    one.end().await;
}

/// Neither comes again by itself within the hour: one has so many steps to do, the other never comes to an end.
#[tokio::test(flavor = "multi_thread")]
async fn more_to_do_is_done_at_once_and_keeps_no_other_from_its_turn() {
    let hour = Duration::from_secs(3600);
    let (endless, bounded) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let steps = |name, runs: &Arc<AtomicU64>, last: u64| {
        let runs = runs.clone();
        Task::new(name, MAINTENANCE, hour, move |_| {
            let more = runs.fetch_add(1, Ordering::SeqCst) + 1 < last;
            async move {
                tokio::task::yield_now().await;
                Ok::<_, Error>(Progress { done: 1, more })
            }
        })
    };
    let tasks = vec![steps("endless", &endless, u64::MAX), steps("bounded", &bounded, 500)];
    let place = Place::on_sqlite();
    let one = place.join_as("up", Role::All, tasks).await;
    let outcome = async |name: &str| {
        let tasks = one.cluster.tasks().await.unwrap();
        tasks.into_iter().find(|task| task.name == name).map(|task| task.outcome)
    };
    eventually(SOON, "the end of the bounded one", async || {
        let said = outcome("bounded").await.ok_or("nothing")?;
        if said == "500 done" { Ok(()) } else { Err("not all") }
    })
    .await;
    assert_eq!(bounded.load(Ordering::SeqCst), 500);
    assert!(outcome("endless").await.unwrap().ends_with(" done, and more to do"));
    let before = endless.load(Ordering::SeqCst);
    eventually(SOON, "the endless one's next turn", async || {
        if endless.load(Ordering::SeqCst) > before { Ok(()) } else { Err("stopped") }
    })
    .await;
    one.end().await;
}

/// The cluster's own tasks too: replicas and the history of leases are forgotten by their age.
#[tokio::test(flavor = "multi_thread")]
async fn while_ages_are_doubted_the_cluster_forgets_nothing() {
    for (doubted, ran) in [(false, 2), (true, 0)] {
        let place = Place::on_sqlite();
        if doubted {
            place.store().await.doubt_ages(Some(Duration::from_secs(3600))).await.unwrap();
        }
        let one = place.join_as("up", Role::All, Vec::new()).await;
        let names = eventually(SOON, "the last of its own tasks", async || {
            let tasks = one.cluster.tasks().await.unwrap();
            let names: Vec<_> = tasks.into_iter().map(|task| task.name).collect();
            match names.iter().any(|name| name == "bring-moments-back") {
                true => Ok(names),
                false => Err("not yet"),
            }
        })
        .await;
        assert_eq!(names.iter().filter(|name| name.starts_with("prune-")).count(), ran);
        one.end().await;
    }
}
