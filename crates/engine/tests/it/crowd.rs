//! Many at once: a CA's limit is waited out in the queue, at no domain's cost, by several engines.

use std::{collections::HashMap, time::Duration};

use holdfast_model::{QueuePlace, State};
use holdfast_store::OrderLimits;
use holdfast_testkit::eventually;

use crate::kit::{Backend, Setup, World, new};

/// 2,000 names, a CA that takes 300 orders at a time and answers 429 in between, two engines.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_names_drain_at_the_cas_pace() {
    let limits = OrderLimits { per_3h: 1_000_000, in_flight: 64 };
    let world =
        World::start(Setup { backend: Backend::Postgres, limits, engines: 2, ..Setup::default() })
            .await;
    world.devnet.faults().set("order-limit", "300/15", None).unwrap();
    // However slow this machine is, so that the limit is never reached, the CA says 429 some times.
    world.devnet.faults().set("order-refused", "429/2", Some(5)).unwrap();
    let all: Vec<_> = (0..2_000).map(|n| new(&format!("crowd-{n}.test"), None)).collect();
    for part in all.chunks(1_000) {
        for added in world.store.add_many(part).await.unwrap() {
            assert!(added.unwrap().created);
        }
    }
    eventually(Duration::from_secs(300), "all are Active", async || {
        // Nobody else does so here, and of a long tail only the beginning is counted.
        world.store.fold_counts(None).await.unwrap();
        let counts: HashMap<_, _> = world.store.counts().await.unwrap().into_iter().collect();
        if counts.get(&State::Active) == Some(&2_000) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    let left = world.devnet.faults().list();
    assert!(left.iter().all(|fault| fault.kind != "order-refused"), "the CA never said 429");
    for domain in &all {
        let history = world.history(domain.id).await;
        let ordering = history.iter().filter(|state| **state == State::AcmeOrdering).count();
        assert_eq!(ordering, 1, "waiting cost {} an attempt", domain.name);
        assert!(!history.iter().any(|state| state.is_failure()), "{}: {history:?}", domain.name);
    }
    let finalized = world.finalized().await;
    assert_eq!(finalized.len(), 2_000);
    assert!(finalized.values().all(|times| *times == 1), "an order was finalized twice");
}

/// The bucket is ours: with a budget of three, the fourth waits and says for what.
#[tokio::test]
async fn the_budget_holds_and_the_queue_can_be_told() {
    let limits = OrderLimits { per_3h: 3, in_flight: 64 };
    let world = World::start(Setup { limits, ..Setup::default() }).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(world.add(&format!("budget-{number}.test")).await);
    }
    eventually(Duration::from_secs(30), "three are Active and two wait", async || {
        let counts: HashMap<_, _> = world.store.counts().await.unwrap().into_iter().collect();
        let seen = (counts.get(&State::Active), counts.get(&State::AcmeOrdering));
        if seen == (Some(&3), Some(&2)) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    let mut places = Vec::new();
    for id in ids {
        places.extend(world.store.queue_place(id).await.unwrap());
    }
    places.sort_unstable();
    assert_eq!(places, [QueuePlace::At(1), QueuePlace::At(2)]);
    let account =
        world.store.account(&world.devnet.directory_url(), limits).await.unwrap().unwrap();
    assert!(account.next_slot_at.is_some());
}
