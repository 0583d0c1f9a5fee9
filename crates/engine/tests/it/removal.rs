//! Removal: the edge stops serving, the name is free, the history stays.

use std::time::Duration;

use holdfast_model::State;
use holdfast_testkit::eventually;

use crate::kit::{Backend, Setup, World, actor, name};

async fn removed_and_added_again(backend: Backend) {
    let world = World::start(Setup { backend, ..Setup::default() }).await;
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    world.store.remove(id, true, &actor()).await.unwrap();
    world.store.remove(id, true, &actor()).await.unwrap();
    world.reaches_when(id, "removed", |domain| domain.removed_at.is_some()).await;
    assert!(world.store.domain_named(&name("shop.test")).await.unwrap().is_none());
    assert!(world.store.bundle_named(&name("shop.test")).await.unwrap().is_none());
    let certificates = world.ca_says("certificates").await;
    assert!(
        certificates.iter().all(|certificate| certificate["revoked"].is_object()),
        "{certificates:?}"
    );
    assert!(!world.history(id).await.is_empty());

    let again = world.add("shop.test").await;
    assert_ne!(again, id);
    world.reaches(again, State::Active).await;
}

#[tokio::test]
async fn removal_frees_the_name_on_sqlite() {
    removed_and_added_again(Backend::Sqlite).await;
}

#[tokio::test]
async fn removal_frees_the_name_on_postgres() {
    removed_and_added_again(Backend::Postgres).await;
}

/// Also when it is asked for in the middle of an order.
#[tokio::test]
async fn removal_in_the_middle_of_an_order() {
    let world = World::start(Setup::default()).await;
    world.devnet.faults().set("slow-validation", "60000", None).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::AcmeChallengeValidating).await;
    world.store.remove(id, false, &actor()).await.unwrap();
    world.reaches_when(id, "removed", |domain| domain.removed_at.is_some()).await;
    eventually(Duration::from_secs(5), "no open order is left", async || {
        let open = world.store.open_order(id).await.unwrap();
        if open.is_none() { Ok(()) } else { Err(format!("{open:?}")) }
    })
    .await;
}
