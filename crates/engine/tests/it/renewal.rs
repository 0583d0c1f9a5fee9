//! Renewal: by age, by the CA's window, by request; the same machine each time.

use std::time::Duration;

use holdfast_devnet::{DevnetConfig, Profile};
use holdfast_model::{State, Wanted};

use crate::kit::{Backend, Setup, World, actor};

async fn renewed(world: &World) {
    let id = world.add("shop.test").await;
    let first = world.reaches(id, State::Active).await.certificate.unwrap();
    let second = world
        .reaches_when(id, "another certificate", |domain| {
            domain.state == State::Active
                && domain
                    .certificate
                    .as_ref()
                    .is_some_and(|certificate| certificate.sha256 != first.sha256)
        })
        .await;
    assert!(second.last_error.is_none());
    let passed = world.history(id).await;
    let due = passed.iter().position(|state| *state == State::RenewalDue).unwrap();
    assert_eq!(passed[due..due + 3], [State::RenewalDue, State::Renewing, State::AcmeOrdering]);
}

/// A certificate that lives for eight seconds is renewed after four.
#[tokio::test]
async fn by_age() {
    let blink = Profile::new("blink", Duration::from_secs(8), "8 seconds");
    let devnet = DevnetConfig { profiles: vec![blink], ..DevnetConfig::default() };
    let world =
        World::start(Setup { backend: Backend::Postgres, devnet, ..Setup::default() }).await;
    renewed(&world).await;
}

#[tokio::test]
async fn by_request() {
    let world = World::start(Setup::default()).await;
    let id = world.add("shop.test").await;
    let first = world.reaches(id, State::Active).await.certificate.unwrap();
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    world
        .reaches_when(id, "another certificate", |domain| {
            domain.state == State::Active
                && domain
                    .certificate
                    .as_ref()
                    .is_some_and(|certificate| certificate.sha256 != first.sha256)
        })
        .await;
    let orders = world.ca_says("orders").await;
    assert!(
        orders.iter().any(|order| order["replaces"].is_string()),
        "the CA was not told what is replaced"
    );
}

/// DNS that went away does not block a renewal.
#[tokio::test]
async fn dns_never_blocks_a_renewal() {
    let world = World::start(Setup::default()).await;
    let id = world.add("shop.test").await;
    let first = world.reaches(id, State::Active).await.certificate.unwrap();
    // The zone still leads the CA here, but not by our CNAME.
    world.devnet.zone().set("shop.test", "A", "127.0.0.1").unwrap();
    world.store.want(id, Wanted::Renew, &actor()).await.unwrap();
    world
        .reaches_when(id, "another certificate", |domain| {
            domain.state == State::Active
                && domain
                    .certificate
                    .as_ref()
                    .is_some_and(|certificate| certificate.sha256 != first.sha256)
        })
        .await;
}
