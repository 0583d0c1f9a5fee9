//! Who leads, how the leadership changes hands, and what people can do about it.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use holdfast_cluster::{Cluster, Error, MAINTENANCE, Role, Task};
use holdfast_store::{EventBody, EventCursor};
use holdfast_testkit::eventually;

use crate::kit::{Place, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_the_others_know_where_it_is() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.leads().await;
    let two = place.join("two").await;
    let worker = place.join_as("worker", Role::Worker, Vec::new()).await;
    let term = two.follows("one").await;
    assert_eq!(worker.follows("one").await, term);
    assert_eq!(one.cluster.term(), Some(term));
    assert_eq!(one.follows("one").await, term);
    assert!(!two.cluster.is_leader() && !worker.cluster.is_leader());
    let leaders: Vec<_> = two.cluster.replicas().await.unwrap();
    let leaders: Vec<_> = leaders.iter().map(|r| (r.instance_id.as_str(), r.leader)).collect();
    assert_eq!(leaders, [("one", true), ("two", false), ("worker", false)]);
}

/// One that does not contend looks by itself; whoever asks it so rarely that it might as well have forgotten is told all the same. Alerts
/// are such work, and would raise one that nobody leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_now_and_then_knows_who_leads() {
    let place = Place::on_postgres().await;
    let api = place.join_as("api", Role::Api, Vec::new()).await;
    api.leads().await;
    let told: Arc<Mutex<Vec<bool>>> = Arc::default();
    let itself: Arc<OnceLock<Cluster>> = Arc::default();
    let ask = {
        let (itself, told) = (itself.clone(), told.clone());
        move |_| {
            let known = itself.get().map(|cluster| cluster.master().is_some());
            told.lock().unwrap().extend(known);
            async { Ok::<_, holdfast_store::Error>(1) }
        }
    };
    let tasks = vec![Task::new("ask", MAINTENANCE, Duration::from_secs(8), ask)];
    let worker = place.join_as("worker", Role::Worker, tasks).await;
    worker.follows("api").await;
    itself.set(worker.cluster.clone()).ok();
    // Not the first time, when it was asked just before.
    eventually(2 * SOON, "the task to be told", async || {
        let told = told.lock().unwrap().clone();
        if told.iter().skip(1).any(|known| *known) { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_in_order_names_the_oldest_other_as_successor() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.leads().await;
    let worker = place.join_as("worker", Role::Worker, Vec::new()).await;
    let two = place.join("two").await;
    let three = place.join("three").await;
    let before = three.follows("one").await;
    two.follows("one").await;
    one.end().await;
    two.leads().await;
    let after = three.follows("two").await;
    assert!(after > before);
    let history = two.cluster.lease_history("leadership", None, 10).await.unwrap();
    let story: Vec<_> = history.iter().rev().map(|e| (e.change, e.to.as_deref())).collect();
    assert_eq!(
        story,
        [("created", Some("one")), ("stepped-down", None), ("reserved", Some("two"))]
    );
    let there = two.cluster.replicas().await.unwrap();
    assert!(there.iter().all(|replica| replica.instance_id != "one"), "{there:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_release_it_and_ask_for_it() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.leads().await;
    let two = place.join("two").await;
    let term = two.follows("one").await;
    let nobody = two.cluster.step_down("leadership", Some("nobody")).await;
    assert!(matches!(nobody, Err(Error::UnknownReplica(_))), "{nobody:?}");
    two.cluster.step_down("leadership", Some("two")).await.unwrap();
    two.leads().await;
    let after = one.follows("two").await;
    assert!(after > term);
    let raised = one.cluster.release("leadership", "ops").await.unwrap();
    assert!(raised > after);
    eventually(SOON, "another owner", async || {
        let leases = one.cluster.leases().await.map_err(|error| error.to_string())?;
        match &leases[0] {
            lease if lease.held && lease.term > raised => Ok(()),
            lease => Err(format!("{lease:?}")),
        }
    })
    .await;
    let history = one.cluster.lease_history("leadership", None, 20).await.unwrap();
    let forced = history.iter().find(|entry| entry.change == "forced").unwrap();
    assert_eq!((forced.note.as_deref(), forced.term), (Some("by ops"), raised));
    let unknown = one.cluster.release("nothing", "ops").await;
    assert!(matches!(unknown, Err(Error::UnknownLease(_))), "{unknown:?}");
    let unknown = one.cluster.lease_history("nothing", None, 1).await;
    assert!(matches!(unknown, Err(Error::UnknownLease(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_is_an_event() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.leads().await;
    let two = place.join("two").await;
    two.follows("one").await;
    one.end().await;
    eventually(SOON, "events", async || {
        let events = two.store.events_after(EventCursor::default(), 100).await.unwrap();
        let told: Vec<_> = events
            .into_iter()
            .filter_map(|event| match event.body {
                EventBody::Notice { kind, subject, .. } if subject == "leadership" => {
                    Some((event.actor.instance, kind))
                }
                _ => None,
            })
            .collect();
        let expected =
            [("one", "leader-elected"), ("one", "leader-stepped-down"), ("two", "leader-elected")];
        let expected = expected.map(|(who, what)| (who.to_owned(), what.to_owned()));
        // Told by two replicas, the last two may come in any order.
        if expected.iter().all(|one| told.contains(one)) {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await;
}
