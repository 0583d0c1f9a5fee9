//! Pauses of the account: what the store says holds, and what is lifted there is noticed.

use std::time::Duration;

use holdfast_model::State;
use holdfast_store::{AccountId, Claimant, OrderLimits, SharedStore};
use holdfast_testkit::eventually;

use crate::kit::{Backend, Setup, World, actor, patient};

const HOUR: Duration = Duration::from_secs(3_600);
const LIMITS: OrderLimits = OrderLimits { per_3h: 100_000, in_flight: 64 };

async fn account(world: &World) -> AccountId {
    let (store, directory): (&SharedStore, _) = (&world.store, world.devnet.directory_url());
    eventually(Duration::from_secs(60), "an account", async || {
        store.account(&directory, LIMITS).await.unwrap().map(|account| account.id).ok_or("none")
    })
    .await
}

/// A pause of an hour, lifted: the domain has its certificate within a minute.
async fn a_pause_that_is_lifted_is_over(backend: Backend, by_hand: bool) {
    let setup = Setup { backend, engines: 2, policy: patient(), ..Setup::default() };
    let world = World::start(setup).await;
    let first = world.add("first.test").await;
    world.reaches(first, State::Active).await;
    let id = account(&world).await;
    if by_hand {
        world.store.halt_account(id, None, &actor(), "ca").await.unwrap();
    }
    world.store.pause_account(id, HOUR, "acme-rate-limited: slow down").await.unwrap();
    let shop = world.add("shop.test").await;
    world.reaches_when(shop, "the queue", |domain| domain.queued_at.is_some()).await;
    let who = Claimant { instance: "other".into(), incarnation: uuid::Uuid::new_v4() };
    let admission = world.store.admit(&who, id, LIMITS, 1, HOUR).await.unwrap();
    assert!(admission.work.is_empty(), "it is paused");
    assert!(world.store.resume_account(id, &actor(), "ca").await.unwrap());
    world.reaches(shop, State::Active).await;
}

#[tokio::test]
async fn a_pause_that_is_lifted_is_over_on_sqlite() {
    a_pause_that_is_lifted_is_over(Backend::Sqlite, false).await;
}

#[tokio::test]
async fn a_pause_that_is_lifted_is_over_on_postgres() {
    a_pause_that_is_lifted_is_over(Backend::Postgres, true).await;
}

/// The CA asked for an hour when it was asked for the account: this replica kept away for all of it, whatever the store said.
#[tokio::test]
async fn a_replica_that_has_no_account_yet_notices_too() {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("unavailable", "3600", None).unwrap();
    let shop = world.add("shop.test").await;
    let directory = world.devnet.directory_url();
    let id = account(&world).await;
    eventually(Duration::from_secs(60), "a wait that is worth lifting", async || {
        let account = world.store.account(&directory, LIMITS).await.unwrap().unwrap();
        let again = account.asked_again_at.zip(account.failing_since).ok_or("none")?;
        if again.0.since(again.1) > HOUR / 60 { Ok(()) } else { Err("a short one") }
    })
    .await;
    let struck = world.struck("unavailable");
    world.devnet.faults().clear("unavailable").unwrap();
    assert!(struck > 0);
    world.store.resume_account(id, &actor(), "ca").await.unwrap();
    world.reaches(shop, State::Active).await;
}

/// Orders are open at the CA in every state when it deactivates the account: no domain fails for it, and all go on with the next one.
#[tokio::test]
async fn a_deactivated_account_fails_no_domain() {
    let setup = Setup { policy: patient(), ..Setup::default() };
    let world = World::start(setup.clone()).await;
    let add = async |names: &[&str]| {
        let mut ids = Vec::new();
        for name in names {
            ids.push(world.add(name).await);
        }
        ids
    };
    let faults = world.devnet.faults();
    faults.set("processing", "20000", None).unwrap();
    let mut ids = add(&["a.test", "b.test"]).await;
    for id in &ids {
        world.reaches(*id, State::CertificateDownloading).await;
    }
    faults.set("slow-validation", "20000", None).unwrap();
    let validating = add(&["c.test", "d.test"]).await;
    for id in &validating {
        world.reaches(*id, State::AcmeChallengeValidating).await;
    }
    world.devnet.deactivate_accounts();
    ids.extend(validating);
    ids.extend(add(&["e.test"]).await);
    for id in &ids {
        world
            .reaches_when(*id, "the queue", |domain| {
                domain.queued_at.is_some() && !domain.order_open
            })
            .await;
    }
    let directory = world.devnet.directory_url();
    eventually(Duration::from_secs(60), "the account to be known as unusable", async || {
        let account = world.store.account(&directory, LIMITS).await.unwrap().unwrap();
        account.unusable.ok_or("usable")
    })
    .await;
    faults.clear("processing").unwrap();
    faults.clear("slow-validation").unwrap();
    world.ca(&world.devnet, &setup).register_anew().await.unwrap();
    for id in ids {
        world.reaches(id, State::Active).await;
        let history = world.history(id).await;
        assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
    }
}
