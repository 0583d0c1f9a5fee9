//! Handles that are dropped, doubled and asked too late: none may strand a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::yield_now;

use super::*;
use crate::event::Happening;
use crate::identity::Priority;
use crate::request::{Acquire, Acquired};
use crate::row::StoreTime;
use crate::store::MemoryStore;

const SOON: Duration = Duration::from_secs(60);

fn elector(store: &MemoryStore, who: &str) -> Elector {
    // Long leases: whatever is free soon was released.
    let options = Options::with_lease(Duration::from_secs(600), Duration::from_secs(60));
    let options = Options { reservation: Duration::from_millis(10), ..options };
    let holder = Holder::new(who).unwrap();
    Elector::start_as(Box::new(store.clone()), &options, holder, Arc::new(BootClock)).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn soon<T>(what: &str, wanted: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, wanted).await {
        Ok(found) => found,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let level = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(what, level).await;
}

/// Runs an operation as soon as nobody else holds its lease.
async fn operate(elector: &Elector, lease: &Name) {
    while elector.operation(lease, async |_| ()).await.is_err() {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_second_operation_of_one_process_is_refused_and_the_first_goes_on() {
    let ann = elector(&MemoryStore::new(), "ann");
    let import = name("import");
    let refused = ann
        .operation(&import, async |work| {
            let refused = ann.operation(&import, async |_| ()).await;
            assert!(!work.is_cancelled());
            assert!(ann.contend(&import, Wish::default()).is_leader());
            refused
        })
        .await
        .unwrap();
    match refused.unwrap_err() {
        Error::Held { holder, since, until, .. } => {
            assert_eq!(&holder, ann.holder());
            assert!(since < until);
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_operation_leaves_the_wish_of_who_contends_already() {
    let mut store = MemoryStore::new();
    let ann = elector(&store, "ann");
    let wish = Wish { priority: Priority(5), failback: None };
    let lease = ann.contend(&name("sweep"), wish);
    let first = soon("a term", lease.elected()).await.unwrap();
    ann.operation(&name("sweep"), async |_| ()).await.unwrap();
    until("another term", || lease.term().is_some_and(|term| term > first)).await;
    let row = store.look(&[name("sweep")]).await.unwrap().answer.remove(0).0.unwrap();
    assert_eq!(row.priority, Priority(5));
}

#[tokio::test]
async fn a_handle_that_is_dropped_leaves_the_others_their_lease() {
    let ann = elector(&MemoryStore::new(), "ann");
    let first = ann.contend(&name("sweep"), Wish::default());
    let term = soon("a term", first.elected()).await.unwrap();
    drop(ann.contend(&name("sweep"), Wish::default()));
    // Whatever the drop set off comes before the next lease is won.
    soon("another lease", ann.contend(&name("other"), Wish::default()).elected()).await.unwrap();
    assert_eq!(first.term(), Some(term));
}

#[tokio::test]
async fn a_handle_made_while_the_last_one_goes_contends_anew() {
    let ann = elector(&MemoryStore::new(), "ann");
    for _ in 0..50 {
        let lease = ann.contend(&name("sweep"), Wish::default());
        soon("a term", lease.elected()).await.unwrap();
        drop(lease);
    }
}

#[tokio::test]
async fn an_operation_dropped_at_any_moment_strands_nothing() {
    let store = MemoryStore::new();
    let (ann, bob) = (elector(&store, "ann"), elector(&store, "bob"));
    let import = name("import");
    for polls in 0..60 {
        {
            let working = ann.operation(&import, async |_| std::future::pending::<()>().await);
            let mut working = std::pin::pin!(working);
            for _ in 0..polls {
                assert!(futures_util::poll!(&mut working).is_pending());
                yield_now().await;
            }
        }
        soon("the lease", operate(&bob, &import)).await;
    }
    soon("the end", ann.shut_down(SOON)).await.unwrap();
}

#[tokio::test]
async fn an_expired_lease_is_taken_not_refused() {
    let mut store = MemoryStore::new();
    let request = Acquire {
        name: name("import"),
        holder: Holder::new("dead").unwrap(),
        incarnation: Incarnation::random(),
        priority: Priority(0),
        ttl: Duration::from_secs(60),
        above: Term::NONE,
        unchanged: None,
        beacon: false,
        not_after: StoreTime::from_micros(i64::MAX),
    };
    assert!(matches!(store.acquire(&request).await.unwrap().answer, Acquired::Granted(_)));
    store.step_clock(Duration::from_secs(120), false);
    let ann = elector(&store, "ann");
    soon("the operation", ann.operation(&name("import"), async |_| ())).await.unwrap();
}

#[tokio::test]
async fn whoever_asks_after_the_end_is_told() {
    let ann = elector(&MemoryStore::new(), "ann");
    let kept = ann.contend(&name("sweep"), Wish::default());
    soon("a term", kept.elected()).await.unwrap();
    let mut events = ann.events();
    soon("the end", ann.shut_down(SOON)).await.unwrap();
    let import = name("import");
    let late = ann.operation(&import, async |_| ());
    assert!(matches!(soon("an answer", late).await, Err(Error::ShutDown)));
    let late = ann.contend(&name("late"), Wish::default());
    assert!(matches!(soon("an answer", late.elected()).await, Err(Error::ShutDown)));
    let last = soon("an event", events.next()).await.unwrap();
    assert_eq!(last.happening, Happening::SteppedDown { successor: None });
    assert_eq!(soon("the end of events", events.next()).await, None);
    assert_eq!(soon("the end of events", ann.events().next()).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_does_not_stop_keeps_its_lease_when_whoever_ran_it_is_dropped() {
    let store = MemoryStore::new();
    let (ann, bob) = (elector(&store, "ann"), elector(&store, "bob"));
    let (begun, may_end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let lease = ann.contend(&name("sweep"), Wish::default());
    let runner = tokio::spawn({
        let (begun, may_end) = (begun.clone(), may_end.clone());
        async move {
            lease
                .run_while_leader(move |_| {
                    let (begun, may_end) = (begun.clone(), may_end.clone());
                    async move {
                        begun.store(true, Ordering::SeqCst);
                        while !may_end.load(Ordering::SeqCst) {
                            std::thread::yield_now();
                        }
                    }
                })
                .await
        }
    });
    until("work", || begun.load(Ordering::SeqCst)).await;
    let next = bob.contend(&name("sweep"), Wish::default());
    runner.abort();
    soon("the runner's end", runner).await.unwrap_err();
    // The driver has heard of the drop when it answers this.
    soon("another lease", ann.contend(&name("other"), Wish::default()).elected()).await.unwrap();
    assert!(!next.is_leader(), "the lease was released under work that goes on");
    may_end.store(true, Ordering::SeqCst);
    soon("the next leader", next.elected()).await.unwrap();
}

#[tokio::test]
async fn work_that_panics_before_it_begins_is_begun_again() {
    let ann = elector(&MemoryStore::new(), "ann");
    let lease = ann.contend(&name("sweep"), Wish::default());
    let starts = Arc::new(AtomicU32::new(0));
    let counted = starts.clone();
    tokio::spawn(async move {
        let work = move |work: Work| {
            assert!(counted.fetch_add(1, Ordering::SeqCst) > 0, "seeded panic");
            async move { work.cancelled().await }
        };
        lease.run_while_leader(work).await
    });
    until("a second start", || starts.load(Ordering::SeqCst) > 1).await;
    soon("the end", ann.shut_down(SOON)).await.unwrap();
}

#[tokio::test]
async fn operations_under_ever_new_names_are_forgotten() {
    let ann = elector(&MemoryStore::new(), "ann");
    for index in 0..100 {
        ann.operation(&name(&format!("import-{index}")), async |_| ()).await.unwrap();
    }
    until("all to be forgotten", || lock(&ann.shared.locals).is_empty()).await;
    assert!(lock(&ann.shared.handles).is_empty());
}

#[tokio::test]
async fn a_driver_that_dies_leaves_nobody_believing() {
    let ann = elector(&MemoryStore::new(), "ann");
    let lease = ann.contend(&name("sweep"), Wish::default());
    soon("a term", lease.elected()).await.unwrap();
    let mut events = ann.events();
    drop(driver::Epitaph(ann.shared.clone()));
    assert!(!lease.is_leader());
    assert!(matches!(ann.health(), Health::Unhealthy(_)));
    assert_eq!(soon("the end of events", events.next()).await, None);
}
