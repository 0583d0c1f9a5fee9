//! Vital signs: what waits, what stays, what ends.

use std::time::Duration;

use holdfast_model::State;
use holdfast_store::{OrderLimits, SharedStore};

use crate::kit::*;

on_both! {
    what_waits_is_counted,
    what_ends_is_counted_and_named,
    who_stays_is_found,
    the_budget_left_is_told,
    open_challenges_are_listed,
}

/// The kit's certificates end in 2096.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn what_waits_is_counted(store: SharedStore) {
    let quiet = store.vitals(&[]).await.unwrap();
    assert_eq!((quiet.due, quiet.queued, quiet.orders, quiet.deliveries), (0, 0, 0, 0));
    assert_eq!((quiet.next_due_at, quiet.queued_since, quiet.first_expiry), (None, None, None));
    add(&store, "a.example.com").await;
    let due = store.vitals(&[]).await.unwrap();
    assert_eq!(due.due, 1);
    assert!(due.next_due_at.is_some_and(|at| at <= due.now));
    let behind = due.next_due_at.map(|at| at.plus(Duration::from_micros(1)));
    let bounded = store.vitals_from(&[], behind).await.unwrap();
    assert_eq!((bounded.due, bounded.next_due_at), (0, None), "what lies before is not looked at");
    assert_eq!(store.vitals_from(&[], due.next_due_at).await.unwrap().due, due.due);
    let (who, account) = (claimant("x"), account(&store).await);
    let claimed = claim_one(&store, &who).await;
    assert_eq!(store.vitals(&[]).await.unwrap().due, 0, "what is claimed is not due");
    into_queue(&store, claimed).await;
    let queued = store.vitals(&[]).await.unwrap();
    assert_eq!(queued.queued, 1);
    assert!(queued.queued_since.is_some_and(|at| at <= queued.now));
    let admitted = admit_one(&store, &who, account).await;
    into_download(&store, admitted, "t").await;
    let ordered = store.vitals(&[]).await.unwrap();
    assert_eq!((ordered.queued, ordered.orders, ordered.challenges), (0, 1, 1));
}

async fn what_ends_is_counted_and_named(store: SharedStore) {
    let domain = active(&store, "shop.example.com", "1").await;
    let vitals = store.vitals(&[DAY, CENTURY]).await.unwrap();
    assert_eq!(vitals.expiring, [0, 1]);
    let not_after = domain.certificate.unwrap().not_after;
    assert_eq!(vitals.first_expiry, Some(not_after));
    assert!(store.expiring(DAY, 10).await.unwrap().is_empty());
    let soon = store.expiring(CENTURY, 10).await.unwrap();
    assert_eq!(soon.len(), 1);
    assert_eq!((soon[0].name.as_str(), soon[0].not_after), ("shop.example.com", not_after));
    remove(&store, domain.id).await;
    assert_eq!(store.vitals(&[CENTURY]).await.unwrap().expiring, [0]);
    assert!(store.expiring(CENTURY, 10).await.unwrap().is_empty());
}

async fn who_stays_is_found(store: SharedStore) {
    let domain = add(&store, "a.example.com").await;
    let staying = store.staying(State::Initial, Duration::ZERO, 10).await.unwrap();
    assert_eq!(staying.iter().map(|one| one.id).collect::<Vec<_>>(), [domain.id]);
    assert!(store.staying(State::Initial, DAY, 10).await.unwrap().is_empty());
    assert!(store.staying(State::Renewing, Duration::ZERO, 10).await.unwrap().is_empty());
    active(&store, "b.example.com", "1").await;
    assert!(store.staying(State::Active, Duration::ZERO, 10).await.unwrap().is_empty(), "a rest");
}

async fn the_budget_left_is_told(store: SharedStore) {
    let limits = OrderLimits { per_3h: 10, in_flight: 10 };
    let id = account(&store).await;
    let left = async || store.account(DIRECTORY, limits).await.unwrap().unwrap().orders_left;
    assert_eq!(left().await, Some(10));
    let who = claimant("x");
    add(&store, "a.example.com").await;
    into_queue(&store, claim_one(&store, &who).await).await;
    assert_eq!(store.admit(&who, id, limits, 10, HOLD).await.unwrap().work.len(), 1);
    assert_eq!(left().await, Some(9));
}

async fn open_challenges_are_listed(store: SharedStore) {
    let (who, account) = (claimant("x"), account(&store).await);
    add(&store, "a.example.com").await;
    into_queue(&store, claim_one(&store, &who).await).await;
    assert!(store.open_challenges(10).await.unwrap().is_empty());
    let admitted = admit_one(&store, &who, account).await;
    into_download(&store, admitted, "token-1").await;
    let open = store.open_challenges(10).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].token, "token-1");
    assert_eq!(Some(&open[0].answer), store.challenge_answer("token-1").await.unwrap().as_ref());
}
