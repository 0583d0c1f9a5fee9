//! What is fenced commits only while its lease is held; and how long renewing leases takes is told.

use std::time::Duration;

use holdfast_store::{Actor, Error, NewEdge, NewToken, Scope, SharedStore};
use holdfast_testkit::eventually;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::kit::{Place, SOON};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Writes by a statement of its own, by several, and in a transaction: all of them or none.
async fn write(store: &SharedStore, byte: u8) -> Result<(), Error> {
    let actor = Actor { instance: "one".to_owned(), name: "tester".to_owned() };
    let (name, hash) = (format!("token {byte}"), [byte; 32]);
    let token = NewToken { name, scope: Scope::Read, hash, edge: None, group: None };
    let all = [
        store.keep_token(&token).await.map(drop),
        store.notice(&actor, "tested", "x", &byte.to_string()).await,
        store.move_from(None, Some(&format!("https://{byte}.test"))).await,
    ];
    let refused = all.iter().filter(|one| one.is_err()).count();
    assert!(refused == 0 || refused == all.len(), "{all:?}");
    all.into_iter().collect()
}

/// What a leader began, and was paused in the middle of, is not written once another may lead.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_held_to_its_term_until_the_commit() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.leads().await;
    let fence = one.cluster.fence(one.cluster.term().unwrap()).unwrap();
    fence.clone().around(write(&one.store, 1)).await.unwrap();
    one.cluster.release("leadership", "a test").await.unwrap();
    let before = (one.store.tokens().await.unwrap(), one.store.latest_event().await.unwrap());
    let refused = fence.clone().around(write(&one.store, 2)).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    assert_eq!(one.store.tokens().await.unwrap(), before.0);
    assert_eq!(one.store.moving_from().await.unwrap().as_deref(), Some("https://1.test"));
    // It leads again, in another term, once it has noticed: the old one stays over.
    let again = eventually(SOON, "another term", async || {
        let again = one.cluster.term().and_then(|term| one.cluster.fence(term));
        again.filter(|again| again.term > fence.term).ok_or("none")
    })
    .await;
    assert!(fence.around(write(&one.store, 2)).await.is_err());
    again.around(write(&one.store, 3)).await.unwrap();
    // Without a fence anybody writes.
    write(&one.store, 4).await.unwrap();
    one.end().await;
}

async fn old_changes_are_forgotten_under_the_fence_only(place: Place) {
    let one = place.join("one").await;
    one.leads().await;
    let fence = one.cluster.fence(one.cluster.term().unwrap()).unwrap();
    let changes = async || one.cluster.lease_history("leadership", None, 100).await.unwrap().len();
    assert_eq!(one.store.prune_lease_history(Some(&fence), DAY, 100).await.unwrap(), 0);
    one.store.check_fence(Some(&fence)).await.unwrap();
    let edge = NewEdge { name: "e1".to_owned(), group: "default".to_owned() };
    one.store.register_edge(&edge).await.unwrap();
    let actor = Actor { instance: "one".to_owned(), name: "tester".to_owned() };
    one.store.remove_edge("e1", &actor).await.unwrap().unwrap();
    one.cluster.release("leadership", "a test").await.unwrap();
    let before = changes().await;
    let refused = one.store.prune_lease_history(Some(&fence), Duration::ZERO, 100).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    assert!(matches!(one.store.check_fence(Some(&fence)).await, Err(Error::Fenced { .. })));
    let refused = one.store.forget_departed(Some(&fence), 100).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    assert_eq!(one.store.forget_departed(None, 100).await.unwrap(), Some(0));
    assert!(changes().await >= before, "a term that was over forgot something");
    assert!(one.store.prune_lease_history(None, Duration::ZERO, 100).await.unwrap() > 0);
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_forgotten_under_the_fence_only_on_postgres() {
    old_changes_are_forgotten_under_the_fence_only(Place::on_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_forgotten_under_the_fence_only_on_sqlite() {
    old_changes_are_forgotten_under_the_fence_only(Place::on_sqlite()).await;
}

#[tokio::test]
async fn how_long_a_renewal_takes_is_told() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let one = Place::on_postgres().await.join("one").await;
    one.leads().await;
    eventually(SOON, "a renewal", async || {
        let text = handle.render();
        let told = text.contains("holdfast_lease_renewal_seconds_count{result=\"ok\"}");
        if told { Ok(()) } else { Err(text) }
    })
    .await;
    one.end().await;
}
