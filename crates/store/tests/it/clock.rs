//! What a clock that was wrong for a moment left behind: nobody waits for it once the clock is
//! right.

use std::time::Duration;

use holdfast_model::{Note, Outcome, Policy, State, WaitScope, decide};
use holdfast_store::{
    Attempt, Beat, CLAIM_LEFT, Commit, NewDelivery, NewEdge, NewReplica, NewWebhook, OrderLimits,
    Page, Products, Search, Secret, Then,
};
use uuid::Uuid;

use crate::{kit::*, raw::Raw};

raw_on_both! {
    what_was_written_in_the_future_is_due_now,
    who_failed_in_the_future_is_tried_again,
    a_claim_of_the_dead_from_the_future_ends_and_one_of_the_living_goes_on,
    a_claim_of_the_dead_ends_soon_after_a_small_step_back,
    a_long_claim_of_the_living_outlives_any_step,
    a_wait_from_the_future_is_as_long_as_it_was_meant_to_be,
    a_budget_from_the_future_misses_what_was_ordered_and_no_more,
    a_pause_from_the_future_is_as_long_as_it_was_meant_to_be,
    a_sign_of_life_in_the_future_is_none,
    a_message_from_the_future_is_sent_again_soon,
    what_was_decided_by_a_clock_ahead_waits_from_its_commit_on,
    a_jump_is_known_to_who_did_not_see_it,
    a_clock_in_good_order_leaves_nothing_to_bring_back,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: i32 = 720;

/// As a clock so many hours ahead would have written all domains.
async fn written_ahead(raw: &Raw, hours: i32) {
    let later = raw.hours(hours);
    let columns =
        ["updated_at", "entered_at", "next_attempt_at", "due_at", "queued_at", "failing_since"];
    for column in columns {
        let shift = format!("UPDATE domain SET {column} = {later} WHERE {column} IS NOT NULL");
        raw.execute(&shift).await;
    }
}

async fn brought_back(raw: &Raw, search: Search) -> u64 {
    raw.store.bring_back(None, search, 1_000).await.unwrap()
}

async fn what_was_written_in_the_future_is_due_now(raw: Raw) {
    let store = &raw.store;
    for hours in [2, MONTH] {
        let name = format!("h{hours}.example.com");
        let id = add(store, &name).await.id;
        written_ahead(&raw, hours).await;
        assert!(claim_all(store, &claimant("w")).await.is_empty());
        assert!(store.out_of_bounds().await.unwrap() > 0);
        assert!(brought_back(&raw, Search::Impossible).await > 0);
        assert_eq!(store.out_of_bounds().await.unwrap(), 0);
        let now = store.ping().await.unwrap();
        let claimed = claim_all(store, &claimant("w")).await;
        let claimed = claimed.into_iter().find(|one| one.domain.id == id).unwrap();
        assert!(claimed.domain.entered_at <= now && claimed.domain.updated_at <= now);
        // It stands in the queue behind nobody who came later.
        into_queue(store, claimed).await;
        written_ahead(&raw, hours).await;
        brought_back(&raw, Search::Impossible).await;
        let queued = store.domain(id).await.unwrap().unwrap();
        assert!(queued.queued_at.unwrap() <= store.ping().await.unwrap());
    }
}

async fn who_failed_in_the_future_is_tried_again(raw: Raw) {
    let store = &raw.store;
    let id = add(store, "shop.example.com").await.id;
    let claimed = claim_one(store, &claimant("w")).await;
    let note = Note::new("dns", "not to be had");
    let failed = finish(store, &claimed, Outcome::Hopeless { note }).await;
    assert_eq!(failed.domain.state, State::Failed);
    brought_back(&raw, Search::Suspicious).await;
    assert!(claim_all(store, &claimant("w")).await.is_empty());
    written_ahead(&raw, MONTH).await;
    brought_back(&raw, Search::Impossible).await;
    assert_eq!(claim_one(store, &claimant("w")).await.domain.id, id);
}

async fn a_claim_of_the_dead_from_the_future_ends_and_one_of_the_living_goes_on(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add(store, "shop.example.com").await;
    let claimed = claim_one(store, &who).await;
    let later = raw.hours(MONTH);
    let claim = format!("UPDATE domain SET claimed_until = {later}, due_at = {later}");
    raw.execute(&claim).await;
    assert_eq!(brought_back(&raw, Search::Impossible).await, 1);
    let next = store.claim(&who, 1, HOLD).await.unwrap();
    let wait = next.next_due_at.unwrap().since(next.now);
    assert!(next.work.is_empty() && wait <= HOLD, "{wait:?}");
    // Who lives renews it, and commits.
    let claims = [(claimed.domain.id, claimed.epoch)];
    assert!(store.renew_claims(&who, &claims, HOLD).await.unwrap().is_empty());
    step(store, &claimed, Outcome::Accepted, Products::default()).await;
}

/// The clock was set back by less than would be impossible: still nobody waits for long.
async fn a_claim_of_the_dead_ends_soon_after_a_small_step_back(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add(store, "shop.example.com").await;
    claim_one(store, &who).await;
    let later = if raw.is_postgres() { "interval '90 seconds'" } else { "90000000" };
    let columns = ["updated_at", "entered_at", "claimed_until", "due_at"];
    let later = columns.map(|column| format!("{column} = {column} + {later}")).join(", ");
    raw.execute(&format!("UPDATE domain SET {later}")).await;
    assert_eq!(brought_back(&raw, Search::Suspicious).await, 1);
    let next = store.claim(&who, 1, HOLD).await.unwrap();
    let wait = next.next_due_at.unwrap().since(next.now);
    assert!(next.work.is_empty() && wait <= Duration::from_secs(60), "{wait:?}");
}

/// As long as claims may be configured to last. Whoever renews within what is left keeps it.
async fn a_long_claim_of_the_living_outlives_any_step(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add(store, "shop.example.com").await;
    let hour = Duration::from_secs(3600);
    let claimed = store.claim(&who, 1, hour).await.unwrap().work.remove(0);
    brought_back(&raw, Search::Suspicious).await;
    let left = store.claim(&who, 1, HOLD).await.unwrap();
    let left = left.next_due_at.unwrap().since(left.now);
    assert!(left <= CLAIM_LEFT && left > CLAIM_LEFT / 2, "{left:?}");
    let claims = [(claimed.domain.id, claimed.epoch)];
    assert!(store.renew_claims(&who, &claims, hour).await.unwrap().is_empty());
    step(store, &claimed, Outcome::Accepted, Products::default()).await;
}

async fn a_wait_from_the_future_is_as_long_as_it_was_meant_to_be(raw: Raw) {
    let (store, name) = (&raw.store, host("shop.example.com"));
    let (account, hour) = (account(store).await, Duration::from_secs(3600));
    store.note_wait(account, WaitScope::Name, &name, hour, "too many").await.unwrap();
    let month = if raw.is_postgres() { "interval '30 days'" } else { "2592000000000" };
    let ahead =
        format!("UPDATE ca_wait SET noted_at = noted_at + {month}, until = until + {month}");
    raw.execute(&ahead).await;
    let left = async || {
        let wait = store.waiting_for(account, &name).await.unwrap().unwrap();
        wait.until.since(store.ping().await.unwrap())
    };
    assert!(left().await <= hour, "{:?}", left().await);
    assert_eq!(store.out_of_bounds().await.unwrap(), 1);
    brought_back(&raw, Search::Impossible).await;
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
    assert!(left().await <= hour, "{:?}", left().await);
}

async fn a_budget_from_the_future_misses_what_was_ordered_and_no_more(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    let limits = OrderLimits { per_3h: 10, in_flight: 100 };
    let account = account(store).await;
    add_numbered(store, 12).await;
    for claimed in claim_all(store, &claimant("dns")).await {
        into_queue(store, claimed).await;
    }
    let admitted = async |limit| store.admit(&who, account, limits, limit, HOLD).await.unwrap();
    assert_eq!(admitted(1).await.work.len(), 1);
    for (hours, expected, search) in [(MONTH, 2, None), (2, 2, Some(Search::Suspicious))] {
        raw.execute(&format!("UPDATE acme_account SET budget_at = {}", raw.hours(hours))).await;
        if let Some(search) = search {
            assert_eq!(brought_back(&raw, search).await, 1);
        }
        let admitted = admitted(expected).await.work.len();
        assert_eq!(u32::try_from(admitted).unwrap(), expected, "{hours} hours ahead");
    }
    // What was ordered is missing, and nothing else.
    assert_eq!(admitted(10).await.work.len(), 5);
    let empty = admitted(10).await;
    assert!(empty.work.is_empty() && empty.ask_again_at.unwrap().since(empty.now) < DAY / 10);
}

async fn a_pause_from_the_future_is_as_long_as_it_was_meant_to_be(raw: Raw) {
    let store = &raw.store;
    let account = account(store).await;
    store.pause_account(account, HOLD, "slow down").await.unwrap();
    let ahead = ["paused_at", "paused_until"].map(|column| {
        let hours = raw.hours(0);
        format!("{column} = {column} + ({} - {hours})", raw.hours(MONTH))
    });
    raw.execute(&format!("UPDATE acme_account SET {}", ahead.join(", "))).await;
    let paused = async || {
        let account = store.account(DIRECTORY, MANY).await.unwrap().unwrap();
        account.paused_until.unwrap().since(store.ping().await.unwrap())
    };
    assert!(paused().await <= HOLD + Duration::from_secs(1));
    assert_eq!(store.out_of_bounds().await.unwrap(), 1);
    brought_back(&raw, Search::Impossible).await;
    assert!(paused().await <= HOLD + Duration::from_secs(1));
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
    // And one that was noted by a release that does not say since when.
    let far =
        format!("UPDATE acme_account SET paused_at = NULL, paused_until = {}", raw.hours(MONTH));
    raw.execute(&far).await;
    assert!(paused().await <= 7 * DAY);
    assert_eq!(store.out_of_bounds().await.unwrap(), 1);
    brought_back(&raw, Search::Impossible).await;
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
}

async fn a_sign_of_life_in_the_future_is_none(raw: Raw) {
    let (store, stale, incarnation) = (&raw.store, Duration::from_secs(30), Uuid::new_v4());
    let new = NewReplica {
        instance: "r0".to_owned(),
        incarnation,
        url: String::new(),
        role: "all".to_owned(),
        version: String::new(),
    };
    store.register_replica(&new, stale).await.unwrap();
    let edge = NewEdge { name: "e0".to_owned(), group: "default".to_owned() };
    store.register_edge(&edge).await.unwrap();
    let alive = async || {
        let replicas = store.replicas(stale).await.unwrap();
        (replicas[0].healthy, store.edges().await.unwrap()[0].live)
    };
    assert_eq!(alive().await, (true, true));
    let later = raw.hours(2);
    raw.execute(&format!("UPDATE replica SET beat_at = {later}")).await;
    raw.execute(&format!("UPDATE edge SET last_seen_at = {later}")).await;
    assert_eq!(alive().await, (false, false));
    let Beat::Heard(replicas) = store.beat("r0", incarnation, false, stale).await.unwrap() else {
        panic!("not heard")
    };
    assert!(replicas[0].healthy, "who lives says so again");
    brought_back(&raw, Search::Impossible).await;
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
    let seen = store.edges().await.unwrap()[0].last_seen_at;
    assert!(seen <= store.ping().await.unwrap());
}

async fn a_message_from_the_future_is_sent_again_soon(raw: Raw) {
    let store = &raw.store;
    let new = NewWebhook {
        url: "https://receiver.test/".to_owned(),
        events: Vec::new(),
        secret: Secret::from("s".to_owned()),
    };
    let webhook = store.keep_webhook(&new).await.unwrap();
    let message = NewDelivery {
        lane: "a".to_owned(),
        kind: "domain.active".to_owned(),
        body: "{}".to_owned(),
    };
    assert!(store.put_down(&webhook, webhook.after, &[message]).await.unwrap());
    let claim = async || store.claim_deliveries(webhook.id, 10, HOLD).await.unwrap();
    let claimed = claim().await;
    let attempt = Attempt { status: None, error: None, then: Then::Again(HOLD) };
    store.delivery_tried(&claimed[0], &attempt).await.unwrap();
    brought_back(&raw, Search::Suspicious).await;
    assert!(claim().await.is_empty(), "what waits for a little waits on");
    for (hours, search) in [(2, Search::Suspicious), (MONTH, Search::Impossible)] {
        raw.execute(&format!("UPDATE delivery SET due_at = {}", raw.hours(hours))).await;
        assert_eq!(brought_back(&raw, search).await, 1);
        assert_eq!(claim().await.len(), 1);
    }
    raw.execute(&format!("UPDATE delivery SET created_at = {}", raw.hours(2))).await;
    assert_eq!(brought_back(&raw, Search::Impossible).await, 1);
    assert!(claim().await.is_empty(), "it is on its way");
    let listed = store.deliveries(webhook.id, &Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(listed.items[0].attempts, 3);
    assert!(listed.items[0].created_at <= store.ping().await.unwrap());
}

/// The engine's clock was carried forward from a time that the database has meanwhile left.
async fn what_was_decided_by_a_clock_ahead_waits_from_its_commit_on(raw: Raw) {
    let (store, who) = (&raw.store, claimant("w"));
    add(store, "shop.example.com").await;
    let looking =
        step(store, &claim_one(store, &who).await, Outcome::Accepted, Products::default()).await;
    let now = store.ping().await.unwrap();
    let note = Note::new("dns", "elsewhere");
    let outcome = Outcome::DnsNotPointed { note };
    let decided = decide(&looking.domain, &outcome, &Policy::default(), now.plus(DAY / 12));
    let wait = decided.next_attempt_at.unwrap().since(decided.decided_at);
    let commit = Commit {
        transition: decided,
        ..commit_of(store, &looking, &outcome, Products::default(), false).await
    };
    let after = store.commit(&looking, &commit).await.unwrap().domain;
    let now = store.ping().await.unwrap();
    assert!(after.entered_at <= now && after.next_attempt_at.unwrap() <= now.plus(wait));
    let idle = store.claim(&who, 1, HOLD).await.unwrap();
    assert!(idle.work.len() == 1 || idle.next_due_at.unwrap() <= now.plus(wait), "{idle:?}");
}

/// What is dropped by its age waits at every replica, also at one that was started after the jump. And no longer than a day,
/// whatever the clock said when it was noted.
async fn a_jump_is_known_to_who_did_not_see_it(raw: Raw) {
    let store = &raw.store;
    assert!(!store.are_ages_doubtful().await.unwrap());
    store.doubt_ages(Some(DAY)).await.unwrap();
    assert!(store.are_ages_doubtful().await.unwrap());
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
    assert_eq!(brought_back(&raw, Search::Suspicious).await, 0);
    store.doubt_ages(None).await.unwrap();
    assert!(!store.are_ages_doubtful().await.unwrap());
    store.doubt_ages(Some(Duration::ZERO)).await.unwrap();
    assert!(!store.are_ages_doubtful().await.unwrap(), "it ends by itself");
    // A clock a month ahead noted it.
    store.doubt_ages(Some(31 * DAY)).await.unwrap();
    assert_eq!(store.out_of_bounds().await.unwrap(), 1);
    for (search, brought) in [(Search::Impossible, 1), (Search::Suspicious, 0)] {
        assert_eq!(brought_back(&raw, search).await, brought);
        assert_eq!(store.out_of_bounds().await.unwrap(), 0);
        assert!(store.are_ages_doubtful().await.unwrap());
    }
}

async fn a_clock_in_good_order_leaves_nothing_to_bring_back(raw: Raw) {
    let store = &raw.store;
    active(store, "served.example.com", "1").await;
    add(store, "claimed.example.com").await;
    claim_one(store, &claimant("w")).await;
    add(store, "new.example.com").await;
    for search in [Search::Impossible, Search::Suspicious] {
        // A budget that was spent by orders says what they cost, however often it is looked at.
        brought_back(&raw, search).await;
        assert_eq!(brought_back(&raw, search).await, 0);
    }
    assert_eq!(store.out_of_bounds().await.unwrap(), 0);
}
