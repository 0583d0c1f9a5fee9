//! The driver and its helpers when the store fails, panics, hangs or answers late: in paused time, so that hours take no time and
//! whatever spins is seen to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::stage::{Fault, PausedClock, Stage};
use super::*;

/// Tokio moves the clock on only when everyone waits: a driver that spins would never let this pass.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Waits for a level, in paused time.
async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..600 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited in vain for {what}");
}

fn start(stage: &Stage, clock: &Arc<PausedClock>, who: &str) -> Elector {
    let (store, holder) = (Box::new(stage.clone()), Holder::new(who).unwrap());
    Elector::start_as(store, &Options::default(), holder, clock.clone()).unwrap()
}

fn sweep() -> Name {
    Name::new("sweep").unwrap()
}

async fn owner(stage: &Stage) -> Option<Holder> {
    let row = stage.store.clone().look(&[sweep()]).await.unwrap().answer.remove(0).0;
    row?.owner.map(|owner| owner.holder)
}

#[tokio::test(start_paused = true)]
async fn an_idle_elector_asks_seldom_and_does_not_spin() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let other = stage.beside();
    let ann = start(&stage, &clock, "ann");
    let first = ann.contend(&sweep(), Wish::default());
    first.elected().await.unwrap();
    let bob = start(&other, &clock, "bob");
    let second = bob.contend(&sweep(), Wish::default());
    pass(60).await;
    let calls = |stage: &Stage| stage.script.calls.swap(0, Ordering::Relaxed);
    let _settling = (calls(&stage), calls(&other), clock.sleeps.swap(0, Ordering::Relaxed));
    pass(3_600).await;
    let (renewals, looks) = (calls(&stage), calls(&other));
    let sleeps = clock.sleeps.load(Ordering::Relaxed);
    assert!((355..=365).contains(&renewals), "{renewals} renewals in an hour");
    assert!((110..=130).contains(&looks), "{looks} looks in an hour");
    // Each of those may be waited for, given a limit, and looked at again.
    assert!(sleeps < 4 * u64::from(renewals + looks), "{sleeps} sleeps in an hour");
    assert!(first.is_leader() && !second.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_once_is_not_asked_without_end() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    *lock(&stage.script.calls_to_come) = Some((u32::MAX, Fault::Fails));
    let ann = start(&stage, &clock, "ann");
    let lease = ann.contend(&sweep(), Wish::default());
    pass(600).await;
    let calls = stage.script.calls.load(Ordering::Relaxed);
    assert!((300..=600).contains(&calls), "{calls} calls in ten minutes, a second or two apart");
    assert!(matches!(ann.health(), Health::Unhealthy(why) if why.contains("told to fail")));
    *lock(&stage.script.calls_to_come) = None;
    lease.elected().await.unwrap();
    assert_eq!(ann.health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_has_failed_and_is_asked_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let ann = start(&stage, &clock, "ann");
    let lease = ann.contend(&sweep(), Wish::default());
    let term = lease.elected().await.unwrap();
    *lock(&stage.script.calls_to_come) = Some((1, Fault::Panics));
    let degraded = || matches!(ann.health(), Health::Degraded(why) if why.contains("panicked"));
    until("the panic to be told", degraded).await;
    pass(60).await;
    assert_eq!(lease.term(), Some(term), "one panic cost the lease");
    assert_eq!(ann.health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_in_time() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let ann = start(&stage, &clock, "ann");
    let lease = ann.contend(&sweep(), Wish::default());
    let term = lease.elected().await.unwrap();
    *lock(&stage.script.calls_to_come) = Some((1, Fault::Hangs));
    pass(60).await;
    assert_eq!(lease.term(), Some(term), "one lost answer cost the lease");
    *lock(&stage.script.calls_to_come) = Some((u32::MAX, Fault::Hangs));
    pass(28).await;
    assert!(!lease.is_leader(), "it is believed in longer than the store can have kept it");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_came_too_late_to_act_is_sent_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let ann = start(&stage, &clock, "ann");
    let lease = ann.contend(&sweep(), Wish::default());
    lease.elected().await.unwrap();
    *lock(&stage.script.releases_to_come) = Some((2, Fault::IsLate));
    ann.shut_down(Duration::from_secs(20)).await.unwrap();
    assert_eq!(stage.script.releases.load(Ordering::Relaxed), 3);
    assert_eq!(owner(&stage).await, None, "the lease was left to expire");
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_sent_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let ann = start(&stage, &clock, "ann");
    let lease = ann.contend(&sweep(), Wish::default());
    lease.elected().await.unwrap();
    *lock(&stage.script.releases_to_come) = Some((1, Fault::Hangs));
    ann.shut_down(Duration::from_secs(20)).await.unwrap();
    assert_eq!(owner(&stage).await, None, "the lease was left to expire");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_is_connected_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let other = stage.beside();
    let (ann, bob) = (start(&stage, &clock, "ann"), start(&other, &clock, "bob"));
    let first = ann.contend(&sweep(), Wish::default());
    first.elected().await.unwrap();
    let second = bob.contend(&sweep(), Wish::default());
    pass(5).await;
    *lock(&other.script.news_to_come) = Some((1, Fault::Panics));
    first.step_down(None);
    // The wake-up is lost with the panic; what was missed is found by looking once it listens again.
    tokio::time::timeout(Duration::from_secs(10), second.elected()).await.unwrap().unwrap();
    until("health", || bob.health() == Health::Healthy).await;
    assert_eq!(other.script.connects.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_cannot_connect_is_given_up_and_tried_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    *lock(&stage.script.connects_to_come) = Some((5, Fault::Hangs));
    let ann = start(&stage, &clock, "ann");
    pass(10).await;
    assert!(matches!(ann.health(), Health::Degraded(why) if why.contains("polling")));
    // Three seconds each, and one between them.
    pass(20).await;
    assert_eq!(stage.script.connects.load(Ordering::Relaxed), 6);
    assert_eq!(ann.health(), Health::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_listener_whose_connection_was_dropped_in_silence_is_connected_again() {
    let clock = PausedClock::new();
    let stage = Stage::new(&clock);
    let ann = start(&stage, &clock, "ann");
    let checks = || stage.script.checks.load(Ordering::Relaxed);
    pass(600).await;
    assert!((4..=5).contains(&checks()), "{} checks in ten minutes", checks());
    assert_eq!(stage.script.connects.load(Ordering::Relaxed), 1);
    *lock(&stage.script.checks_to_come) = Some((1, Fault::Hangs));
    pass(130).await;
    assert_eq!(stage.script.connects.load(Ordering::Relaxed), 2);
    assert_eq!(ann.health(), Health::Healthy);
}
