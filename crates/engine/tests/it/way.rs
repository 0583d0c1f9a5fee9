//! Each replica has its own way to the CA: what bars the way of one says nothing of the others, and their success nothing of it.

use std::time::Duration;

use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_model::State;
use holdfast_store::Account;
use holdfast_testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::kit::{Backend, Setup, World, actor, patient};

const PATIENCE: Duration = Duration::from_secs(120);

async fn account(world: &World) -> Account {
    let (directory, limits) = (world.devnet.directory_url(), Setup::default().limits);
    world.store.account(&directory, limits).await.unwrap().expect("an account")
}

/// Runs an engine until it is told to stop.
fn run(world: &World, number: u32, setup: &Setup) -> CancellationToken {
    let (stop, incarnation) = (CancellationToken::new(), uuid::Uuid::new_v4());
    let engine = world.engine_at(&world.devnet, number, incarnation, setup);
    tokio::spawn(engine.run(stop.clone()));
    stop
}

/// A replica that cannot reach the CA is told for as long as that lasts, however well another one gets through.
async fn a_replica_without_a_way_is_told_while_others_order(backend: Backend) {
    let setup = Setup { backend, engines: 0, policy: patient(), ..Setup::default() };
    let world = World::start(setup.clone()).await;
    world.ca(&world.devnet, &setup).register_anew().await.unwrap();
    let stranger = Devnet::start(DevnetConfig::default()).await.unwrap();
    let wrong_root = Some(stranger.root_pem().to_owned());
    let _lost = run(&world, 1, &Setup { wrong_root, ..setup.clone() });
    let since = eventually(PATIENCE, "the failure to be noted", async || {
        account(&world).await.failing_since.ok_or("not noted")
    })
    .await;
    let _other = run(&world, 0, &setup);
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let told = account(&world).await;
    assert_eq!(told.failing_since, Some(since));
    assert!(told.failure.unwrap().contains("replica `engine-1` says: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_way_is_told_while_others_order_on_sqlite() {
    a_replica_without_a_way_is_told_while_others_order(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_way_is_told_while_others_order_on_postgres() {
    a_replica_without_a_way_is_told_while_others_order(Backend::Postgres).await;
}

/// The CA limits one replica's address: that it takes orders from another one does not send the first one back to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_one_replica_is_not_over_when_another_gets_through() {
    let setup = Setup { engines: 0, policy: patient(), ..Setup::default() };
    let world = World::start(setup.clone()).await;
    world.ca(&world.devnet, &setup).register_anew().await.unwrap();
    world.devnet.faults().set("unavailable", "3600", None).unwrap();
    let _limited = run(&world, 1, &setup);
    eventually(PATIENCE, "a long wait", async || {
        let account = account(&world).await;
        let (again, since) = account.asked_again_at.zip(account.failing_since).ok_or("none")?;
        if again.since(since) > PATIENCE / 2 { Ok(()) } else { Err("a short one") }
    })
    .await;
    world.devnet.faults().clear("unavailable").unwrap();
    let other = run(&world, 0, &setup);
    let first = world.add("first.test").await;
    world.reaches(first, State::Active).await;
    other.cancel();
    let mut waiting = Vec::new();
    for name in ["second.test", "third.test", "fourth.test"] {
        let id = world.add(name).await;
        world.reaches_when(id, "the queue", |domain| domain.queued_at.is_some()).await;
        waiting.push(id);
    }
    for id in &waiting {
        assert!(world.domain(*id).await.queued_at.is_some(), "it was asked for");
    }
    world.store.resume_account(account(&world).await.id, &actor(), "ca").await.unwrap();
    for id in waiting {
        world.reaches(id, State::Active).await;
    }
}
