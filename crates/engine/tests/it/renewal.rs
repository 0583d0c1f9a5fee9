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

/// A certificate that a person went back to is kept for half of what is left of it, though it is due by its age.
#[tokio::test]
async fn not_before_the_end_of_a_rollback() {
    let short = Profile::new("short", Duration::from_secs(40), "40 seconds");
    let devnet = DevnetConfig { profiles: vec![short], ..DevnetConfig::default() };
    let world = World::start(Setup { devnet, ..Setup::default() }).await;
    let id = world.add("shop.test").await;
    let fingerprint = |domain: &holdfast_model::Domain| {
        let certificate = domain.certificate.as_ref().filter(|_| domain.state == State::Active);
        certificate.map(|certificate| certificate.sha256.clone())
    };
    let first = fingerprint(&world.reaches(id, State::Active).await);
    let is_new = |domain: &holdfast_model::Domain, known: &[&Option<String>]| {
        let seen = fingerprint(domain);
        seen.is_some() && !known.contains(&&seen)
    };
    let second = world.reaches_when(id, "a renewal", |domain| is_new(domain, &[&first])).await;
    let second = fingerprint(&second);
    world.store.roll_back(id, first.as_deref(), &actor()).await.unwrap();
    let held = world.store.held_until(id).await.unwrap().unwrap();
    world.reaches_when(id, "another renewal", |domain| is_new(domain, &[&first, &second])).await;
    let page = holdfast_store::Page { limit: 1_000, after: None };
    let history = world.store.history(id, &page).await.unwrap().items;
    let due = history.iter().rev().find(|event| {
        matches!(&event.body, holdfast_store::EventBody::Transition { to, .. } if *to == Some(State::RenewalDue))
    });
    assert!(due.unwrap().at >= held, "{:?} {held}", due.unwrap());
}
