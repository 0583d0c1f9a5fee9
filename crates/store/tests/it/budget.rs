//! What an order costs: a renewal nothing, whatever is new a share of the budget.

use std::time::Duration;

use holdfast_model::{Outcome, QueuePlace, Timestamp, Wanted};
use holdfast_store::{Claimed, OrderLimits, SharedStore};

use crate::{kit::*, raw::Raw};

on_both! {
    renewals_go_on_while_the_budget_is_spent,
    a_renewal_that_the_ca_never_made_gives_nothing_back,
    orders_in_flight_bound_renewals,
    what_opens_last_is_told,
}

raw_on_both! {
    only_a_recent_certificate_of_this_ca_is_renewed_for_nothing,
    who_waited_too_long_is_charged_after_all,
    one_of_four_is_for_the_new_when_all_are_charged,
}

/// A budget that is always spent.
const NONE: OrderLimits = OrderLimits { per_3h: 0, in_flight: 100 };
const FEW: OrderLimits = OrderLimits { per_3h: 3, in_flight: 100 };

/// Active, and then in the queue for its renewal.
async fn renew(store: &SharedStore, names: &[&str]) {
    for name in names {
        let domain = store.domain_named(&host(name)).await.unwrap().unwrap();
        store.want(domain.id, Wanted::Renew, &actor()).await.unwrap();
    }
    for claimed in claim_all(store, &claimant("renewer")).await {
        finish(store, &claimed, Outcome::RenewalNeeded).await;
    }
}

async fn queue_up(store: &SharedStore, count: usize) {
    add_numbered(store, count).await;
    for claimed in claim_all(store, &claimant("dns")).await {
        into_queue(store, claimed).await;
    }
}

async fn admit(store: &SharedStore, limits: OrderLimits, limit: u32) -> Vec<Claimed> {
    let account = account(store).await;
    store.admit(&claimant("w"), account, limits, limit, HOLD).await.unwrap().work
}

async fn left(store: &SharedStore, limits: OrderLimits) -> u32 {
    store.account(DIRECTORY, limits).await.unwrap().unwrap().orders_left.unwrap()
}

/// When the budget is whole again: a moment that does not move while nothing is ordered.
async fn full_at(store: &SharedStore) -> Option<Timestamp> {
    store.ca_accounts(FEW).await.unwrap().remove(0).full_at
}

fn names(work: &[Claimed]) -> Vec<&str> {
    work.iter().map(|one| one.domain.name.as_str()).collect()
}

async fn is_charged(store: &SharedStore, name: &str) -> bool {
    let domain = store.domain_named(&host(name)).await.unwrap().unwrap();
    store.queue_standing(domain.id).await.unwrap().unwrap().is_charged
}

async fn renewals_go_on_while_the_budget_is_spent(store: SharedStore) {
    let old = ["a.example.com", "b.example.com"];
    for name in old {
        active(&store, name, name).await;
    }
    queue_up(&store, 5).await;
    assert!(admit(&store, NONE, 100).await.is_empty());
    renew(&store, &old).await;
    assert!(!is_charged(&store, "a.example.com").await);
    assert!(is_charged(&store, "n00004.example.com").await);
    let id = account(&store).await;
    let given = store.admit(&claimant("w"), id, NONE, 100, HOLD).await.unwrap();
    assert_eq!(names(&given.work), old);
    // The new ones wait for the clock.
    assert!(given.ask_again_at.is_some_and(|at| at > given.now));
}

async fn a_renewal_that_the_ca_never_made_gives_nothing_back(store: SharedStore) {
    active(&store, "a.example.com", "1").await;
    queue_up(&store, 1).await;
    assert_eq!(admit(&store, FEW, 100).await.len(), 1);
    let before = full_at(&store).await;
    for _ in 0..4 {
        renew(&store, &["a.example.com"]).await;
        for _ in 0..2 {
            let renewing = admit(&store, FEW, 1).await.remove(0);
            finish(&store, &renewing, Outcome::CaWaits).await;
        }
        let renewing = admit(&store, FEW, 1).await.remove(0);
        let renewing = into_download(&store, renewing, "t").await;
        let deploying = issue(&store, &renewing, "again").await;
        finish(&store, &deploying, Outcome::DeploymentSeen).await;
        assert_eq!(full_at(&store).await, before);
    }
}

async fn orders_in_flight_bound_renewals(store: SharedStore) {
    let old = ["a.example.com", "b.example.com", "c.example.com"];
    for name in old {
        active(&store, name, name).await;
    }
    renew(&store, &old).await;
    let two = OrderLimits { per_3h: 0, in_flight: 2 };
    let id = account(&store).await;
    let given = store.admit(&claimant("w"), id, two, 100, HOLD).await.unwrap();
    assert_eq!(given.work.len(), 2);
    assert!(admit(&store, two, 100).await.is_empty());
}

async fn what_opens_last_is_told(store: SharedStore) {
    queue_up(&store, 5).await;
    assert_eq!(admit(&store, FEW, 100).await.len(), 3);
    let id = account(&store).await;
    let look = async || store.admit(&claimant("w"), id, FEW, 100, HOLD).await.unwrap().ask_again_at;
    let slot = look().await;
    assert!(slot.is_some());
    store.pause_account(id, 2 * Duration::from_secs(3600), "slow down").await.unwrap();
    let paused = store.account(DIRECTORY, FEW).await.unwrap().unwrap().paused_until;
    assert_eq!((look().await, paused > slot), (paused, true));
}

async fn only_a_recent_certificate_of_this_ca_is_renewed_for_nothing(raw: Raw) {
    let store = &raw.store;
    let all = ["here.example.com", "late.example.com", "other.example.com", "kept.example.com"];
    for name in all {
        active(store, name, name).await;
    }
    let days = |days: i64| {
        if raw.is_postgres() {
            format!("created_at - interval '{days} days'")
        } else {
            format!("created_at - {days} * 86400000000")
        }
    };
    for (name, set) in [
        ("here", format!("created_at = {}", days(119))),
        ("late", format!("created_at = {}", days(121))),
        ("other", "directory = 'https://other.test'".to_owned()),
        ("kept", "directory = 'imported'".to_owned()),
    ] {
        let of = format!("(SELECT certificate_id FROM domain WHERE name = '{name}.example.com')");
        raw.execute(&format!("UPDATE certificate SET {set} WHERE id = {of}")).await;
    }
    renew(store, &all).await;
    for name in all {
        assert_eq!(is_charged(store, name).await, name != "here.example.com", "{name}");
    }
    assert_eq!(names(&admit(store, NONE, 100).await), ["here.example.com"]);
    let one = OrderLimits { per_3h: 1, ..FEW };
    assert_eq!(admit(store, one, 100).await.len(), 1);
    assert_eq!(left(store, one).await, 0);
    assert!(admit(store, one, 100).await.is_empty());
}

/// They joined as renewals. By now their certificates are another CA's: the directory was changed.
async fn who_waited_too_long_is_charged_after_all(raw: Raw) {
    let store = &raw.store;
    let all = ["a.example.com", "b.example.com", "c.example.com", "d.example.com"];
    for name in all {
        active(store, name, name).await;
    }
    renew(store, &all).await;
    raw.execute("UPDATE certificate SET directory = 'https://other.test' WHERE sha256 <> 'sha-d.example.com'").await;
    let id = account(store).await;
    let mut given = Vec::new();
    // Two at a time: what is behind those that are no renewals is found at once.
    for _ in 0..3 {
        let admission = store.admit(&claimant("w"), id, NONE, 2, HOLD).await.unwrap();
        given.extend(admission.work.iter().map(|one| one.domain.name.to_string()));
        if admission.ask_again_at.is_none_or(|at| at > admission.now) {
            break;
        }
    }
    assert_eq!(given, ["d.example.com"]);
    for name in &all[..3] {
        assert!(is_charged(store, name).await, "{name}");
    }
    let before = full_at(store).await;
    let ten = OrderLimits { per_3h: 10, ..FEW };
    assert_eq!(names(&admit(store, ten, 100).await), all[..3]);
    assert!(full_at(store).await > before, "they cost nothing");
}

/// The budget is what bounds: the turns hold all the same.
async fn one_of_four_is_for_the_new_when_all_are_charged(raw: Raw) {
    let store = &raw.store;
    let old: Vec<_> = (0..12).map(|n| format!("old{n:02}.example.com")).collect();
    let old: Vec<_> = old.iter().map(String::as_str).collect();
    for name in &old {
        active(store, name, name).await;
    }
    raw.execute("UPDATE certificate SET directory = 'https://other.test'").await;
    renew(store, &old).await;
    queue_up(store, 12).await;
    let twelve = OrderLimits { per_3h: 12, in_flight: 1_000 };
    let first = store.domain_named(&host(old[0])).await.unwrap().unwrap();
    assert_eq!(store.queue_place(first.id).await.unwrap(), Some(QueuePlace::At(1)));
    // What it took to make them active is missing.
    let given = admit(store, twelve, 100).await;
    let new = given.iter().filter(|one| one.domain.certificate.is_none()).count();
    // Where in a turn it begins depends on the clock.
    assert!(given.len() == 11 && (2..=3).contains(&new), "{new} of {}", given.len());
}
