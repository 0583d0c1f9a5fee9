//! What an edge found when it compared itself with a restored database, as far as it still differs.

use holdfast_store::{Difference, EdgeId, Error, NAMED, Names, NewEdge, SharedStore};

use crate::kit::*;

on_both! {
    what_agrees_again_is_not_told_any_more,
    more_names_than_are_told_are_counted_to_the_last,
    an_edge_that_nobody_knows_has_no_differences,
}

async fn edge(store: &SharedStore, group: &str) -> EdgeId {
    let new = NewEdge { name: format!("edge-{group}"), group: group.to_owned() };
    store.register_edge(&new).await.unwrap().id
}

fn names(names: &[&str]) -> Names {
    Names::of(names.iter().map(|name| (*name).to_owned()).collect())
}

async fn found(store: &SharedStore, edge: EdgeId) -> Difference {
    store.difference(edge).await.unwrap()
}

async fn what_agrees_again_is_not_told_any_more(store: SharedStore) {
    let (own, other) = (edge(&store, "default").await, edge(&store, "other").await);
    assert_eq!(found(&store, own).await, Difference::default());
    active(&store, "served.example.com", "1").await;
    let (unknown, absent) = (names(&["lost.test", "new.test"]), names(&["served.example.com"]));
    store.keep_difference(own, &unknown, Some(&absent)).await.unwrap();
    store.keep_difference(other, &names(&["served.example.com"]), Some(&absent)).await.unwrap();
    let told = Difference { unknown: unknown.clone(), absent: absent.clone() };
    assert_eq!(found(&store, own).await, told);
    // Another group's edges are not to serve it.
    let strange = found(&store, other).await;
    assert_eq!((strange.unknown, strange.absent), (absent.clone(), Names::default()));
    // Added again, it is known; of `absent` nothing is said, so it stays.
    active(&store, "new.test", "2").await;
    let left = Difference { unknown: names(&["lost.test"]), absent: absent.clone() };
    assert_eq!(found(&store, own).await, left);
    store.keep_difference(own, &Names::default(), None).await.unwrap();
    let left = Difference { unknown: Names::default(), absent };
    assert_eq!(found(&store, own).await, left);
    store.keep_difference(own, &Names::default(), Some(&Names::default())).await.unwrap();
    assert_eq!(found(&store, own).await, Difference::default());
}

async fn more_names_than_are_told_are_counted_to_the_last(store: SharedStore) {
    let edge = edge(&store, "default").await;
    active(&store, "n0000.test", "1").await;
    let all = (0..NAMED + 500).map(|n| format!("n{n:04}.test"));
    let told = Names::of(all.collect());
    assert_eq!((told.count, told.first.len()), (1_500, NAMED));
    store.keep_difference(edge, &told, None).await.unwrap();
    let left = found(&store, edge).await.unknown;
    assert_eq!((left.count, left.first.len()), (1_499, NAMED - 1));
    // The first of a list are known again: those that were not told are not.
    let first = Names { count: 501, first: vec!["n0000.test".to_owned()] };
    store.keep_difference(edge, &first, None).await.unwrap();
    assert_eq!(found(&store, edge).await.unknown, Names { count: 500, first: Vec::new() });
}

async fn an_edge_that_nobody_knows_has_no_differences(store: SharedStore) {
    let nobody = EdgeId(uuid::Uuid::new_v4());
    let kept = store.keep_difference(nobody, &names(&["a.test"]), None).await;
    assert!(matches!(kept, Err(Error::NotFound("edge"))), "{kept:?}");
    assert_eq!(found(&store, nobody).await, Difference::default());
}
