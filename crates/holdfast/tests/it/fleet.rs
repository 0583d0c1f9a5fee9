//! Three replicas on one PostgreSQL behave as one service that has no bad moment.

mod balancer;
mod clock;
mod judge;
mod member;
mod pebble;
mod renewal;
mod upgrade;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use holdfast_testkit::pace;
use http::Method;
use serde_json::json;

use self::member::{Fleet, Plan};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("customer-{at}.test")).collect()
}

fn is_soak() -> bool {
    std::env::var_os("HOLDFAST_SOAK").is_some()
}

/// Killed, paused past their claims, robbed of their database: nothing is lost and nothing is done twice.
#[tokio::test]
async fn chaos() {
    let mut fleet = Fleet::start(Plan::default()).await;
    fleet.network.run(["fault", "set", "slow-request", "200"]).done();
    let names = names(300);
    judge::add(&fleet, &names).await;
    let blows = if is_soak() { 300 } else { 18 };
    for blow in 0..blows {
        strike(&mut fleet, blow).await;
    }
    fleet.network.run(["fault", "clear"]).done();
    judge::all_active(&fleet, &names).await;
    judge::finalized_at_most(&fleet, 1).await;
    judge::gapless(&fleet, &names).await;
    judge::nothing_left(&fleet).await;
}

/// The primary is lost under work and its standby takes over: no step is lost, none is done twice, and somebody leads.
#[tokio::test]
async fn the_database_fails_over() {
    let fleet = Fleet::start(Plan { standby: true, ..Plan::default() }).await;
    fleet.network.run(["fault", "set", "slow-request", "200"]).done();
    let names = names(200);
    judge::add(&fleet, &names).await;
    judge::active_at_least(&fleet, 20).await;
    fleet.fail_over().await;
    fleet.network.run(["fault", "clear"]).done();
    judge::all_active(&fleet, &names).await;
    judge::finalized_at_most(&fleet, 1).await;
    judge::gapless(&fleet, &names).await;
    judge::nothing_left(&fleet).await;
    judge::somebody_leads(&fleet).await;
}

/// One blow a second, in turn: mostly a `kill -9`, now and then a pause longer than a claim, twice the database.
async fn strike(fleet: &mut Fleet, blow: usize) {
    let at = blow * 7 % 3;
    match blow % 9 {
        4 => fleet.postgres.restart().await.unwrap(),
        2 | 7 => {
            fleet.members[at].process().pause().unwrap();
            pace(Duration::from_secs(3)).await;
            fleet.members[at].process().resume().unwrap();
        }
        _ => {
            fleet.members[at].kill().await;
            pace(Duration::from_millis(300)).await;
            fleet.spawn(at);
            pace(Duration::from_millis(700)).await;
        }
    }
}

/// The replica that orders is not among those the CA can reach.
#[tokio::test]
async fn challenges_are_answered_by_replicas_that_did_not_order() {
    let plan = Plan {
        roles: &["worker", "api", "api"],
        balanced: |role| role == "api",
        ..Plan::default()
    };
    let fleet = Fleet::start(plan).await;
    let names = names(40);
    judge::add(&fleet, &names).await;
    judge::all_active(&fleet, &names).await;
    judge::finalized_at_most(&fleet, 1).await;
    judge::gapless(&fleet, &names).await;
    judge::nothing_left(&fleet).await;
}

/// One after the other is asked to end and started again, while people read and write: nobody notices.
#[tokio::test]
async fn a_rolling_restart_fails_no_request() {
    let mut fleet = Fleet::start(Plan::default()).await;
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let load = load(fleet.network.http, &over, &answered);
    let restart = async {
        fleet.roll().await;
        over.store(true, Ordering::Relaxed);
    };
    let ((), ()) = tokio::join!(load, restart);
    println!("{} requests, none failed", answered.load(Ordering::Relaxed));
}

/// Four people who read and write without pause; every answer must be a good one.
async fn load(port: u16, over: &AtomicBool, answered: &AtomicU64) {
    let client = member::Visitor::new(port);
    let person = |id: usize| {
        let client = &client;
        async move {
            for round in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let name = format!("person-{id}-{round}.test");
                let body = json!({"name": name, "orchestration_id": name});
                client.expect(Method::POST, "/v1/domains", Some(&body)).await;
                client.expect(Method::GET, &format!("/v1/domains/{name}"), None).await;
                answered.fetch_add(2, Ordering::Relaxed);
            }
        }
    };
    tokio::join!(person(0), person(1), person(2), person(3));
}
