//! Electors over a store in memory and over PostgreSQL: one leads, work is supervised, leases are handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use holdfast_lease::clock::BootClock;
use holdfast_lease::store::MemoryStore;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{
    Elector, Error, Failback, Happening, Health, Holder, Name, Options, Priority, Standing, Store,
    Wish,
};
use holdfast_testkit::{Postgres, eventually};

const SOON: Duration = Duration::from_secs(10);

pub(crate) fn quick() -> Options {
    Options::with_lease(Duration::from_millis(900), Duration::from_millis(300))
}

pub(crate) fn elector(store: impl Store, who: &str) -> Elector {
    let holder = Holder::new(who).unwrap();
    Elector::start_as(Box::new(store), &quick(), holder, Arc::new(BootClock)).unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(SOON, what, async || if is() { Ok(()) } else { Err("not yet") }).await;
}

#[tokio::test]
async fn one_leads_and_the_next_follows_at_once_on_shutdown() {
    let store = MemoryStore::new();
    let (ann, bob) = (elector(store.clone(), "ann"), elector(store.clone(), "bob"));
    let sweep = name("sweep");
    let first = ann.contend(&sweep, Wish::default());
    let term = first.elected().await.unwrap();
    let second = bob.contend(&sweep, Wish::default());
    let mut standing = second.watch();
    standing.wait_for(|standing| matches!(standing, Standing::Following(_))).await.unwrap();
    assert!(first.is_leader() && !second.is_leader());
    ann.shut_down(SOON).await.unwrap();
    assert!(!first.is_leader());
    let next = tokio::time::timeout(Duration::from_millis(300), second.elected()).await;
    assert_eq!(next.unwrap().unwrap(), term.next(), "the lease was not told of, only polled");
    assert!(matches!(ann.health(), Health::Unhealthy(_)));
    until("bob to be healthy", || bob.health() == Health::Healthy).await;
}

#[tokio::test]
async fn events_of_a_term_come_in_order() {
    let store = MemoryStore::new();
    let ann = elector(store, "ann");
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

#[tokio::test]
async fn an_operation_runs_under_a_lease_and_a_second_is_refused_with_who_holds_it() {
    let store = MemoryStore::new();
    let (ann, bob) = (elector(store.clone(), "ann"), elector(store.clone(), "bob"));
    let import = name("import");
    let refused = ann
        .operation(&import, async |work| {
            // Longer than the lease: it is kept renewed.
            tokio::time::sleep(Duration::from_millis(1_200)).await;
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

#[tokio::test]
async fn work_is_supervised_restarted_and_stopped_before_another_leads() {
    let store = MemoryStore::new();
    let (ann, bob) = (elector(store.clone(), "ann"), elector(store.clone(), "bob"));
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

#[tokio::test]
async fn a_lease_is_handed_to_the_named_successor() {
    let store = MemoryStore::new();
    let electors = ["ann", "bob", "eve"].map(|who| elector(store.clone(), who));
    let leases =
        electors.each_ref().map(|elector| elector.contend(&name("sweep"), Wish::default()));
    until("a leader", || leases.iter().any(holdfast_lease::Leadership::is_leader)).await;
    for (index, who) in ["eve", "bob", "ann", "eve"].into_iter().enumerate() {
        let heir = ["ann", "bob", "eve"].iter().position(|name| *name == who).unwrap();
        let leader = leases.iter().find(|lease| lease.is_leader()).unwrap();
        leader.step_down(Some(Holder::new(who).unwrap()));
        until(&format!("{who} to lead, step {index}"), || leases[heir].is_leader()).await;
    }
}

#[tokio::test]
async fn a_preferred_process_takes_its_lease_back_once() {
    let store = MemoryStore::new();
    let (low, high) = (elector(store.clone(), "low"), elector(store.clone(), "high"));
    let second = low.contend(&name("sweep"), Wish::default());
    second.elected().await.unwrap();
    let failback =
        Failback { stable: Duration::from_millis(300), cooldown: Duration::from_millis(600) };
    let wish = Wish { priority: Priority(5), failback: Some(failback), beacon: false };
    let first = high.contend(&name("sweep"), wish);
    let term = tokio::time::timeout(SOON, first.elected()).await.unwrap().unwrap();
    assert_eq!(term.number(), 2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(first.term(), Some(term), "it flapped");
}

#[tokio::test]
async fn work_that_breaks_its_promise_of_progress_is_unhealthy() {
    let ann = elector(MemoryStore::new(), "ann");
    let lease = ann.contend(&name("sweep"), Wish::default());
    let worker = tokio::spawn(async move {
        lease
            .run_while_leader(|work| async move {
                work.promise(Duration::from_millis(50));
                work.cancelled().await;
            })
            .await
    });
    until(
        "the broken promise",
        || matches!(ann.health(), Health::Unhealthy(why) if why.contains("progress")),
    )
    .await;
    worker.abort();
}

#[tokio::test]
async fn a_thousand_leases_of_one_process_on_postgres_are_kept() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let mut store = PostgresStore::new(&url, Duration::from_secs(1)).unwrap();
    store.apply_schema().await.unwrap();
    let options = Options::with_lease(Duration::from_secs(12), Duration::from_secs(1));
    let ann = Elector::start(store, &options).unwrap();
    let leases: Vec<_> = (0..1_000)
        .map(|index| ann.contend(&name(&format!("lease-{index}")), Wish::default()))
        .collect();
    let all = || leases.iter().all(holdfast_lease::Leadership::is_leader);
    eventually(
        Duration::from_secs(60),
        "all leases",
        async || if all() { Ok(()) } else { Err("not all") },
    )
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(all(), "some were lost: {:?}", ann.health());
}
