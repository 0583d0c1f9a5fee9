//! A change of the CA's directory while domains are on their way: replicas of both directories live side by side, and no order is lost.

use std::time::Duration;

use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_model::{Domain, DomainId, State};
use holdfast_store::{NewReplica, OrderLimits, SharedStore};
use holdfast_testkit::eventually;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::kit::{Backend, Setup, World, actor, new, patient};

const LONG: Duration = Duration::from_secs(120);
const NAMES: usize = 60;

/// A replica that gives signs of life until it is told to stop.
fn lives(store: &SharedStore, number: u32, incarnation: Uuid, stop: CancellationToken) {
    let (store, instance) = (store.clone(), format!("engine-{number}"));
    let replica = NewReplica {
        instance: instance.clone(),
        incarnation,
        url: "http://127.0.0.1".into(),
        role: "all".into(),
        version: "test".into(),
    };
    tokio::spawn(async move {
        let stale = Duration::from_secs(3);
        store.register_replica(&replica, stale).await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        while !stop.is_cancelled() {
            ticks.tick().await;
            store.beat(&instance, incarnation, false, stale).await.unwrap();
        }
        store.deregister_replica(&instance, incarnation).await.unwrap();
    });
}

/// Runs an engine as a replica; gives what ends both.
fn run(world: &World, devnet: &Devnet, number: u32, setup: &Setup) -> CancellationToken {
    let (stop, incarnation) = (CancellationToken::new(), Uuid::new_v4());
    lives(&world.store, number, incarnation, stop.clone());
    tokio::spawn(world.engine_at(devnet, number, incarnation, setup).run(stop.clone()));
    stop
}

async fn other_ca(world: &World) -> Devnet {
    let (http_port, tls_port) = world.ports;
    Devnet::start(DevnetConfig { http_port, tls_port, ..DevnetConfig::default() }).await.unwrap()
}

async fn all(world: &World, ids: &[DomainId]) -> Vec<Domain> {
    let mut domains = Vec::new();
    for id in ids {
        domains.push(world.domain(*id).await);
    }
    domains
}

async fn reaches(world: &World, id: DomainId, what: &str, met: impl Fn(&Domain) -> bool) {
    eventually(LONG * 2, what, async || match world.domain(id).await {
        domain if met(&domain) => Ok(()),
        domain => Err(format!("{} {:?}", domain.state, domain.last_error)),
    })
    .await;
}

async fn a_rolling_change_loses_no_order(backend: Backend) {
    let setup = Setup {
        backend,
        engines: 0,
        policy: patient(),
        limits: OrderLimits { per_3h: 100_000, in_flight: 20 },
        ..Setup::default()
    };
    let world = World::start(setup.clone()).await;
    let later = other_ca(&world).await;
    for ca in [&world.devnet, &later] {
        ca.faults().set("slow-validation", "2000", None).unwrap();
    }
    let old = run(&world, &world.devnet, 0, &setup);
    let names: Vec<_> = (0..NAMES).map(|n| new(&format!("n{n}.test"), None)).collect();
    let added = world.store.add_many(&names).await.unwrap();
    let ids: Vec<_> = added.into_iter().map(|one| one.unwrap().domain.id).collect();
    let open = async |least: usize| {
        eventually(LONG, "open orders", async || {
            let domains = all(&world, &ids).await;
            let open = domains.iter().filter(|one| one.order_open).count();
            if open >= least { Ok(()) } else { Err(open) }
        })
        .await;
    };
    open(15).await;
    // Both work side by side for a while, each on the orders of its own CA.
    let _new = run(&world, &later, 1, &setup);
    open(30).await;
    let directory = world.devnet.directory_url();
    eventually(LONG, "a certificate of the old CA", async || {
        let domains = all(&world, &ids).await;
        let mut certificates = domains.iter().filter_map(|one| one.certificate.as_ref());
        certificates.find(|one| one.directory == directory).map(drop).ok_or("none")
    })
    .await;
    old.cancel();
    // What it leaves is given up once it is sure that nobody goes on with it.
    for id in &ids {
        reaches(&world, *id, "Active", |domain| domain.state == State::Active).await;
    }
    let mut issued = [0, 0];
    for id in &ids {
        let history = world.history(*id).await;
        assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
        let certificate = world.domain(*id).await.certificate.unwrap();
        issued[usize::from(certificate.directory == later.directory_url())] += 1;
    }
    assert!(issued.iter().all(|count| *count > 0), "{issued:?}");
    let once = world.finalized().await;
    assert!(once.values().all(|times| *times <= 1), "{once:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_change_loses_no_order_on_sqlite() {
    a_rolling_change_loses_no_order(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_change_loses_no_order_on_postgres() {
    a_rolling_change_loses_no_order(Backend::Postgres).await;
}

/// A domain is removed in the middle of an order at the old CA: that CA's replicas tear it down, and once they are gone, the others do.
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_removed_in_the_middle_of_a_change() {
    let setup = Setup { engines: 0, policy: patient(), ..Setup::default() };
    let world = World::start(setup.clone()).await;
    let later = other_ca(&world).await;
    world.devnet.faults().set("slow-validation", "60000", None).unwrap();
    let old = run(&world, &world.devnet, 0, &setup);
    let ids = [world.add("shop.test").await, world.add("late.test").await];
    for id in ids {
        world.reaches(id, State::AcmeChallengeValidating).await;
    }
    let _new = run(&world, &later, 1, &setup);
    world.store.remove(ids[0], true, &actor()).await.unwrap();
    world.reaches_when(ids[0], "removal", |domain| domain.removed_at.is_some()).await;
    old.cancel();
    world.store.remove(ids[1], true, &actor()).await.unwrap();
    reaches(&world, ids[1], "removal", |domain| domain.removed_at.is_some()).await;
}
