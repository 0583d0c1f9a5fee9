//! An upgrade, and the way back, one replica after the other while people read and write.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use holdfast_testkit::pace;
use http::Method;
use serde_json::json;

use super::{
    judge, load,
    member::{Fleet, Plan, Visitor},
    names,
};
use crate::kit::PROGRAM;

/// What operators and their monitoring read.
const SEEN: [&str; 9] = [
    "/v1/edges",
    "/v1/edges/watcher",
    "/v1/alerts",
    "/v1/replicas",
    "/v1/leases",
    "/v1/webhooks",
    "/v1/domains?limit=100",
    "/metrics",
    "/health",
];

/// From the last release to this one, and back: the schema is the newer one from the first replica on.
#[tokio::test]
async fn a_rolling_upgrade_and_back_fails_no_request() {
    let previous = Path::new(PROGRAM).with_file_name("../previous/build/debug/holdfast");
    assert!(previous.is_file(), "there is no {}: ./dev test makes it", previous.display());
    let mut fleet = Fleet::start(Plan { program: previous.clone(), ..Plan::default() }).await;
    let names = names(60);
    judge::add(&fleet, &names).await;
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let load = load(fleet.network.http, &over, &answered);
    let watch = watch(fleet.network.http, &over, &answered);
    let roll = async {
        fleet.program = PROGRAM.into();
        fleet.roll().await;
        fleet.program = previous;
        fleet.roll().await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, watch, roll);
    println!("{} requests, none failed", answered.load(Ordering::Relaxed));
    let all = judge::domains(&fleet).await;
    let all: Vec<String> =
        all.iter().map(|domain| domain["name"].as_str().unwrap().to_owned()).collect();
    judge::all_active(&fleet, &all).await;
    judge::finalized_at_most(&fleet, 1).await;
    judge::gapless(&fleet, &all).await;
    judge::nothing_left(&fleet).await;
}

/// An edge that registers, and an operator who looks at everything there is to see.
async fn watch(port: u16, over: &AtomicBool, answered: &AtomicU64) {
    let client = Visitor::new(port);
    let group = json!({"group": "elsewhere"});
    while !over.load(Ordering::Relaxed) {
        let registered = client.expect(Method::PUT, "/v1/edges/watcher", Some(&group)).await;
        assert_eq!(registered["group"], "elsewhere", "{registered}");
        for path in SEEN {
            client.expect(Method::GET, path, None).await;
        }
        answered.fetch_add(1 + SEEN.len() as u64, Ordering::Relaxed);
        pace(Duration::from_millis(100)).await;
    }
}
