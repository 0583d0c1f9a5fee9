//! A CA that is away, in whatever words: it costs no name a try, is told, and is over when it is over.

use std::time::Duration;

use holdfast_model::{DomainId, State};
use holdfast_store::{Account, OrderLimits};
use holdfast_testkit::{Endpoint, Lie, eventually};

use crate::kit::{Setup, World, actor, patient, quick};

const PATIENCE: Duration = Duration::from_secs(120);

async fn account(world: &World) -> Account {
    let (directory, limits) = (world.devnet.directory_url(), Setup::default().limits);
    world.store.account(&directory, limits).await.unwrap().expect("an account")
}

async fn twenty(world: &World) -> Vec<DomainId> {
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(world.add(&format!("shop-{number}.test")).await);
    }
    ids
}

async fn all_are_active(world: &World, ids: &[DomainId]) {
    for id in ids {
        eventually(PATIENCE, "Active", async || match world.domain(*id).await {
            domain if domain.state == State::Active => Ok(()),
            domain => Err(format!("{} {:?}", domain.state, domain.last_error)),
        })
        .await;
    }
}

async fn none_has_failed(world: &World, ids: &[DomainId]) {
    for id in ids {
        let history = world.history(*id).await;
        assert!(!history.iter().any(|state| state.is_failure()), "{history:?}");
        let ordered = history.iter().filter(|state| **state == State::AcmeOrdering).count();
        assert_eq!(ordered, 1, "the outage cost an order: {history:?}");
    }
}

/// Some names wait for the verdict, others for an order, when a page comes instead of the CA.
async fn a_page_costs_nothing(status: &str) {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("slow-validation", "3000", None).unwrap();
    let mut ids = vec![world.add("first.test").await];
    world.reaches(ids[0], State::AcmeChallengeValidating).await;
    world.devnet.faults().set("web-page", status, None).unwrap();
    ids.extend(twenty(&world).await);
    eventually(PATIENCE, "the outage is noted and met", async || {
        let account = account(&world).await;
        let failure = account.failure.ok_or("not noted")?;
        assert!(failure.starts_with("ca-not-acme: replica `engine-0` says: "), "{failure}");
        let first = world.domain(ids[0]).await;
        assert_eq!((first.state, first.failures), (State::AcmeChallengeValidating, 0));
        let told = first.last_error.is_some_and(|note| note.code == "ca-not-acme");
        let often = world.struck("web-page") >= 20;
        if told && often { Ok(()) } else { Err("not often enough") }
    })
    .await;
    world.devnet.faults().clear("web-page").unwrap();
    all_are_active(&world, &ids).await;
    none_has_failed(&world, &ids).await;
    let since = account(&world).await.failing_since;
    assert_eq!(since, None, "it is over");
}

#[tokio::test]
async fn a_page_with_404_costs_twenty_names_nothing() {
    a_page_costs_nothing("404").await;
}

#[tokio::test]
async fn a_page_with_200_costs_twenty_names_nothing() {
    a_page_costs_nothing("200").await;
}

#[tokio::test]
async fn answers_that_break_off_cost_twenty_names_nothing() {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("dropped-reply", "0.2", None).unwrap();
    let ids = twenty(&world).await;
    all_are_active(&world, &ids).await;
    none_has_failed(&world, &ids).await;
    assert!(world.finalized().await.values().all(|times| *times == 1));
}

/// JSON that is no order, as a gateway before the CA may give it.
#[tokio::test]
async fn json_that_is_no_order_costs_twenty_names_nothing() {
    let setup = Setup { policy: patient(), lying: true, issuer_root: true, ..Setup::default() };
    let world = World::start(setup).await;
    let lie = Lie::about(Endpoint::NewOrder).times(50);
    world.lying().tell(lie.text(|_| r#"{"status":"maintenance"}"#.to_owned()));
    let ids = twenty(&world).await;
    all_are_active(&world, &ids).await;
    none_has_failed(&world, &ids).await;
    assert!(world.lying().asked(Endpoint::NewOrder) > 50);
}

/// A short outage sends nobody to the end of the queue.
#[tokio::test]
async fn an_outage_costs_no_name_its_place_in_the_queue() {
    let limits = OrderLimits { per_3h: 100_000, in_flight: 2 };
    let world = World::start(Setup { policy: patient(), limits, ..Setup::default() }).await;
    let first = world.add("first.test").await;
    world.reaches(first, State::Active).await;
    let id = account(&world).await.id;
    world.store.halt_account(id, None, &actor(), "the CA").await.unwrap();
    let mut joined = Vec::new();
    for number in 0..6 {
        let id = world.add(&format!("shop-{number}.test")).await;
        let queued = world.reaches_when(id, "the queue", |domain| domain.queued_at.is_some()).await;
        joined.push((id, queued.queued_at));
    }
    world.devnet.faults().set("web-page", "404", None).unwrap();
    world.store.resume_account(id, &actor(), "the CA").await.unwrap();
    eventually(PATIENCE, "three waves", async || match world.struck("web-page") {
        6.. => Ok(()),
        asked => Err(asked),
    })
    .await;
    for (id, place) in joined {
        let domain = world.domain(id).await;
        assert_eq!((domain.state, domain.queued_at), (State::AcmeOrdering, place));
    }
}

/// Wrong once: another order, and then a certificate.
async fn is_not_final_at_once(kind: &str) {
    let world = World::start(Setup { policy: quick(), ..Setup::default() }).await;
    world.devnet.faults().set(kind, "shop.test", Some(1)).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let history = world.history(id).await;
    assert!(history.contains(&State::AcmeOrderFailed), "{kind}: {history:?}");
    assert!(!history.contains(&State::Failed), "{kind}: {history:?}");
    assert_eq!(world.devnet.faults().list(), [], "{kind} never struck");
}

#[tokio::test]
async fn one_wrong_refusal_of_a_csr_is_not_final() {
    is_not_final_at_once("bad-csr").await;
}

#[tokio::test]
async fn one_authorization_without_challenges_is_not_final() {
    is_not_final_at_once("no-challenges").await;
}

/// It is final when it came again and again, and others got through.
#[tokio::test]
async fn what_is_said_again_and_again_of_one_name_alone_is_final() {
    let world = World::start(Setup { policy: quick(), ..Setup::default() }).await;
    world.devnet.faults().set("bad-csr", "shop.test", None).unwrap();
    let id = world.add("shop.test").await;
    eventually(Duration::from_secs(5), "three tries", async || {
        let struck = world.struck("bad-csr");
        if struck >= 3 { Ok(()) } else { Err(struck) }
    })
    .await;
    assert_ne!(world.domain(id).await.state, State::Failed, "nobody else got through");
    for number in 0..20 {
        let other = world.add(&format!("other-{number}.test")).await;
        world.reaches(other, State::Active).await;
        if world.domain(id).await.state == State::Failed {
            break;
        }
    }
    let failed = world.reaches(id, State::Failed).await;
    assert_eq!(failed.last_error.unwrap().code, "acme-bad-csr");
}

#[tokio::test]
async fn a_ca_that_wants_something_done_stops_orders_for_all_and_names_the_page() {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("action-required", "1", None).unwrap();
    let ids = twenty(&world).await;
    let reason = eventually(PATIENCE, "a stop", async || {
        if world.struck("action-required") == 0 {
            return Err("not asked");
        }
        account(&world).await.pause_reason.ok_or("no pause")
    })
    .await;
    let note = holdfast_model::Note::parse(&reason);
    assert_eq!(note.code, "acme-terms");
    assert_eq!(note.link(), Some(world.devnet.url("/terms").as_str()));
    for id in ids {
        let domain = world.reaches_when(id, "the queue", |domain| !domain.order_open).await;
        assert!(!domain.state.is_failure() && domain.failures == 0, "{:?}", domain.state);
    }
}
