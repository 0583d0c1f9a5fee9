//! Electors over every kind of store: one leads, work is supervised, leases are handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use holdfast_lease::{
    Error, Failback, Happening, Health, Holder, Leadership, Options, Priority, Standing, Wish,
};
use holdfast_testkit::eventually;

use crate::ground::{Ground, SOON, name, patient, quick, until};

/// Each body becomes a test on each store.
macro_rules! on_every_store {
    ($($body:ident,)*) => {
        on_every_store!(memory: $($body,)*);
        on_every_store!(postgres: $($body,)*);
        on_every_store!(redis: $($body,)*);
        on_every_store!(sqlite: $($body,)*);
    };
    ($store:ident: $($body:ident,)*) => {
        mod $store {
            $(#[tokio::test]
            async fn $body() {
                super::$body(crate::ground::Ground::$store().await).await;
            })*
        }
    };
}

on_every_store! {
    one_leads_and_the_next_follows_at_once_on_shutdown,
    events_of_a_term_come_in_order,
    an_operation_runs_under_a_lease_and_a_second_is_refused_with_who_holds_it,
    work_is_supervised_restarted_and_stopped_before_another_leads,
    a_lease_is_handed_to_the_named_successor,
    a_preferred_process_takes_its_lease_back_once,
    a_lease_taken_away_is_lost_and_contended_for_again,
    work_that_breaks_its_promise_of_progress_is_unhealthy,
}

async fn one_leads_and_the_next_follows_at_once_on_shutdown(ground: Ground) {
    // Where nothing wakes it, the next one polls.
    let options = if ground.wakes() { patient() } else { quick() };
    let (ann, bob) = (ground.elector("ann", &options), ground.elector("bob", &options));
    until("bob to listen", || bob.health() == Health::Healthy).await;
    let sweep = name("sweep");
    let first = ann.contend(&sweep, Wish::default());
    let term = first.elected().await.unwrap();
    let second = bob.contend(&sweep, Wish::default());
    let mut standing = second.watch();
    standing.wait_for(|standing| matches!(standing, Standing::Following(_))).await.unwrap();
    assert!(first.is_leader() && !second.is_leader());
    ann.shut_down(SOON).await.unwrap();
    assert!(!first.is_leader());
    let next = tokio::time::timeout(SOON, second.elected()).await;
    assert_eq!(next.unwrap().unwrap(), term.next(), "the lease was not told of, only polled");
    assert!(matches!(ann.health(), Health::Unhealthy(_)));
    until("bob to be healthy", || bob.health() == Health::Healthy).await;
}

async fn events_of_a_term_come_in_order(ground: Ground) {
    let ann = ground.elector("ann", &quick());
    let mut events = ann.events();
    let lease = ann.contend(&name("sweep"), Wish::default());
    lease.elected().await.unwrap();
    lease.step_down(None);
    until("the second term", || lease.term().is_some_and(|term| term.number() == 2)).await;
    ann.shut_down(SOON).await.unwrap();
    let mut seen = Vec::new();
    drop((ann, lease));
    while let Some(event) = events.next().await {
        if !matches!(event.happening, Happening::RenewedLate { .. }) {
            seen.push((event.term.number(), event.happening));
        }
    }
    let left = Happening::SteppedDown { successor: None };
    let elected = Happening::Elected;
    assert_eq!(seen, [(1, elected.clone()), (1, left.clone()), (2, elected), (2, left)]);
}

async fn an_operation_runs_under_a_lease_and_a_second_is_refused_with_who_holds_it(ground: Ground) {
    let (ann, bob) = (ground.elector("ann", &quick()), ground.elector("bob", &quick()));
    let import = name("import");
    let refused = ann
        .operation(&import, async |work| {
            // Longer than the lease: it is kept renewed.
            ground.renewed(&import, 4).await;
            assert!(!work.is_cancelled());
            bob.operation(&import, async |_| ()).await
        })
        .await
        .unwrap();
    match refused.unwrap_err() {
        Error::Held { holder, since, until, .. } => {
            assert_eq!(holder.as_str(), "ann");
            assert!(since < until);
        }
        other => panic!("{other}"),
    }
    // Released at its end.
    eventually(SOON, "the lease to be free", async || bob.operation(&import, async |_| ()).await)
        .await;
}

async fn work_is_supervised_restarted_and_stopped_before_another_leads(ground: Ground) {
    let (ann, bob) = (ground.elector("ann", &quick()), ground.elector("bob", &quick()));
    let running = Arc::new(AtomicU32::new(0));
    let starts = Arc::new(AtomicU32::new(0));
    for elector in [&ann, &bob] {
        let lease = elector.contend(&name("sweep"), Wish::default());
        let (running, starts) = (running.clone(), starts.clone());
        tokio::spawn(async move {
            let work = move |work: holdfast_lease::Work| {
                let (running, starts) = (running.clone(), starts.clone());
                async move {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    let nth = starts.fetch_add(1, Ordering::SeqCst);
                    if nth > 0 {
                        work.cancelled().await;
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                    // The first one panics: someone must go on.
                    assert!(nth > 0, "seeded panic");
                }
            };
            lease.run_while_leader(work).await
        });
    }
    until("work to be started again", || starts.load(Ordering::SeqCst) >= 2).await;
    ann.shut_down(SOON).await.unwrap();
    bob.shut_down(SOON).await.unwrap();
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

async fn a_lease_is_handed_to_the_named_successor(ground: Ground) {
    let electors = ["ann", "bob", "eve"].map(|who| ground.elector(who, &quick()));
    let leases =
        electors.each_ref().map(|elector| elector.contend(&name("sweep"), Wish::default()));
    until("a leader", || leases.iter().any(Leadership::is_leader)).await;
    for (index, who) in ["eve", "bob", "ann", "eve"].into_iter().enumerate() {
        let heir = ["ann", "bob", "eve"].iter().position(|name| *name == who).unwrap();
        let leader = leases.iter().find(|lease| lease.is_leader()).unwrap();
        leader.step_down(Some(Holder::new(who).unwrap()));
        until(&format!("{who} to lead, step {index}"), || leases[heir].is_leader()).await;
    }
}

async fn a_preferred_process_takes_its_lease_back_once(ground: Ground) {
    let sweep = name("sweep");
    let (low, high) = (ground.elector("low", &quick()), ground.elector("high", &quick()));
    let second = low.contend(&sweep, Wish::default());
    second.elected().await.unwrap();
    let span = Duration::from_millis(500);
    let failback = Failback { stable: span, cooldown: span };
    let wish = Wish { priority: Priority(5), failback: Some(failback) };
    let first = high.contend(&sweep, wish);
    tokio::time::timeout(SOON, first.elected()).await.unwrap().unwrap();
    // Longer than it waited for the first time, by far.
    let row = ground.renewed(&sweep, 5).await;
    assert_eq!(row.owner.unwrap().holder.as_str(), "high");
    let history = ground.history(&sweep).await;
    let owners: Vec<_> = history.iter().rev().filter_map(|entry| entry.to.as_ref()).collect();
    assert_eq!(owners.iter().map(|owner| owner.as_str()).collect::<Vec<_>>(), ["low", "high"]);
}

async fn a_lease_taken_away_is_lost_and_contended_for_again(ground: Ground) {
    let ann = ground.elector("ann", &quick());
    let mut events = ann.events();
    let sweep = name("sweep");
    let lease = ann.contend(&sweep, Wish::default());
    let term = lease.elected().await.unwrap();
    let force = holdfast_lease::request::Force { name: sweep, note: "by hand".to_owned() };
    ground.store(SOON).force(&force).await.unwrap();
    until("another term", || lease.term().is_some_and(|newer| newer > term)).await;
    let mut lost = None;
    while let Some(event) = events.next().await {
        match event.happening {
            Happening::Lost(loss) => lost = Some((event.term, loss)),
            Happening::Elected if event.term > term => break,
            _ => {}
        }
    }
    assert_eq!(lost, Some((term, holdfast_lease::Loss::TakenAway)));
}

async fn work_that_breaks_its_promise_of_progress_is_unhealthy(ground: Ground) {
    let ann = ground.elector("ann", &quick());
    let lease = ann.contend(&name("sweep"), Wish::default());
    let better = Arc::new(tokio::sync::Notify::new());
    let worker = tokio::spawn({
        let better = better.clone();
        async move {
            let work = move |work: holdfast_lease::Work| {
                let better = better.clone();
                async move {
                    work.promise(Duration::from_millis(50));
                    better.notified().await;
                    work.promise(SOON * 2);
                    work.cancelled().await;
                }
            };
            lease.run_while_leader(work).await
        }
    });
    let broken = || matches!(ann.health(), Health::Unhealthy(why) if why.contains("progress"));
    until("the broken promise", broken).await;
    better.notify_one();
    until("progress", || ann.health() == Health::Healthy).await;
    worker.abort();
}

#[tokio::test]
async fn a_thousand_leases_of_one_process_on_postgres_are_kept() {
    let ground = Ground::postgres().await;
    let options = Options::with_lease(Duration::from_secs(15), Duration::from_secs(1));
    let ann = ground.elector("ann", &options);
    let leases: Vec<_> = (0..1_000)
        .map(|index| ann.contend(&name(&format!("lease-{index}")), Wish::default()))
        .collect();
    until("all leases", || leases.iter().all(Leadership::is_leader)).await;
    for index in [0, 500, 999] {
        let kept = name(&format!("lease-{index}"));
        ground.renewed(&kept, 3).await;
    }
    let terms = leases.iter().filter_map(Leadership::term);
    assert!(terms.filter(|term| term.number() == 1).count() == 1_000, "{:?}", ann.health());
}
