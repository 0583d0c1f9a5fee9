//! Edges that live and are out of order: nobody waits for them.

use std::time::Duration;

use holdfast_model::{Note, State};
use holdfast_store::{EdgeReport, NewEdge, SharedStore};
use tokio::task::JoinSet;

use crate::kit::{Backend, Setup, World, actor};

/// An edge that reports all the time, and can do nothing.
async fn broken(store: SharedStore, new: NewEdge) {
    let edge = store.register_edge(&new).await.unwrap().id;
    let error = Some(Note::new("edge-reload-failed", "the reload failed: exit status: 1"));
    let report = EdgeReport { error, ..EdgeReport::default() };
    loop {
        store.observe(edge, &report, &actor()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn check(backend: Backend) {
    let world = World::start(Setup { backend, ..Setup::default() }).await;
    let new = NewEdge { name: "broken".to_owned(), group: "default".to_owned() };
    let mut others = JoinSet::new();
    others.spawn(broken(world.store.clone(), new));
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let status = world.store.deployment(id).await.unwrap();
    assert_eq!((status.serving, status.broken[0].0.as_str()), (1, "broken"));
    world.store.remove(id, false, &actor()).await.unwrap();
    world.reaches_when(id, "removed", |domain| domain.removed_at.is_some()).await;
    assert!(others.try_join_next().is_none(), "it reported all the time");
}

#[tokio::test]
async fn one_that_is_out_of_order_holds_nobody_up_on_sqlite() {
    check(Backend::Sqlite).await;
}

#[tokio::test]
async fn one_that_is_out_of_order_holds_nobody_up_on_postgres() {
    check(Backend::Postgres).await;
}
