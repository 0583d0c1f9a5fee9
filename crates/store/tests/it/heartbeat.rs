//! Replicas: registered, heard, replaced, pruned, all by the store's clock.

use std::time::Duration;

use holdfast_store::{Beat, NewReplica, Replica, SharedStore};
use uuid::Uuid;

on_both! {
    a_known_name_keeps_its_place_in_the_order_of_age,
    a_second_process_of_a_name_replaces_the_first,
    who_is_silent_is_stale_then_forgotten_and_comes_back,
    who_leaves_is_not_listed_and_keeps_its_place,
}

const STALE: Duration = Duration::from_secs(30);

fn replica(instance: &str) -> NewReplica {
    NewReplica {
        instance: instance.to_owned(),
        incarnation: Uuid::new_v4(),
        url: format!("http://{instance}:8600"),
        role: "all".to_owned(),
        version: "1".to_owned(),
    }
}

fn names(replicas: &[Replica]) -> Vec<&str> {
    replicas.iter().map(|replica| replica.instance.as_str()).collect()
}

async fn heard(store: &SharedStore, replica: &NewReplica) -> Beat {
    store.beat(&replica.instance, replica.incarnation, false, STALE).await.unwrap()
}

async fn a_known_name_keeps_its_place_in_the_order_of_age(store: SharedStore) {
    for name in ["b", "a", "c"] {
        assert!(!store.register_replica(&replica(name), STALE).await.unwrap());
    }
    let before = store.replicas(STALE).await.unwrap();
    assert_eq!(names(&before), ["b", "a", "c"]);
    assert!(before.iter().all(|replica| replica.healthy && !replica.draining));
    let again = replica("b");
    assert!(store.register_replica(&again, STALE).await.unwrap(), "the first one is alive");
    let after = store.replicas(STALE).await.unwrap();
    assert_eq!(names(&after), ["b", "a", "c"]);
    assert_eq!(after[0].registered_at, before[0].registered_at);
    assert!(after[0].started_at > before[0].started_at);
    assert_eq!(after[0].incarnation, again.incarnation);
}

async fn a_second_process_of_a_name_replaces_the_first(store: SharedStore) {
    let (first, second) = (replica("a"), replica("a"));
    store.register_replica(&first, STALE).await.unwrap();
    assert!(matches!(heard(&store, &first).await, Beat::Heard(all) if all.len() == 1));
    assert!(store.register_replica(&second, STALE).await.unwrap());
    assert_eq!(heard(&store, &first).await, Beat::Replaced);
    assert!(matches!(heard(&store, &second).await, Beat::Heard(_)));
    // The first one's farewell is none of the second's.
    store.deregister_replica("a", first.incarnation).await.unwrap();
    assert!(matches!(heard(&store, &second).await, Beat::Heard(all) if all.len() == 1));
}

async fn who_is_silent_is_stale_then_forgotten_and_comes_back(store: SharedStore) {
    let one = replica("a");
    store.register_replica(&one, STALE).await.unwrap();
    let none = Duration::ZERO;
    assert!(!store.replicas(none).await.unwrap()[0].healthy);
    assert_eq!(store.prune_replicas(None, STALE).await.unwrap(), 0);
    assert_eq!(store.prune_replicas(None, none).await.unwrap(), 1);
    assert_eq!(heard(&store, &one).await, Beat::Unknown);
    assert!(!store.register_replica(&one, STALE).await.unwrap());
    assert!(matches!(heard(&store, &one).await, Beat::Heard(_)));
}

async fn who_leaves_is_not_listed_and_keeps_its_place(store: SharedStore) {
    let (one, other) = (replica("a"), replica("b"));
    store.register_replica(&one, STALE).await.unwrap();
    store.register_replica(&other, STALE).await.unwrap();
    let draining = store.beat("a", one.incarnation, true, STALE).await.unwrap();
    assert!(matches!(draining, Beat::Heard(all) if all[0].draining && !all[1].draining));
    store.deregister_replica("a", one.incarnation).await.unwrap();
    assert_eq!(names(&store.replicas(STALE).await.unwrap()), ["b"]);
    assert!(!store.register_replica(&replica("a"), STALE).await.unwrap(), "nobody was there");
    let all = store.replicas(STALE).await.unwrap();
    assert_eq!(names(&all), ["a", "b"]);
    assert!(!all[0].draining);
}
