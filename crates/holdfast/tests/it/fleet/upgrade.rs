//! An upgrade, and the way back, one replica after the other while people read and write.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{
    judge, load,
    member::{Fleet, Plan},
    names,
};
use crate::kit::PROGRAM;

/// From the build of the commit before to this one, and back: the schema is the newer one from the first replica on.
#[tokio::test]
async fn a_rolling_upgrade_and_back_fails_no_request() {
    let previous = Path::new(PROGRAM).with_file_name("../previous/build/debug/holdfast");
    assert!(previous.is_file(), "there is no {}: ./dev test makes it", previous.display());
    let mut fleet = Fleet::start(Plan { program: previous.clone(), ..Plan::default() }).await;
    let names = names(60);
    judge::add(&fleet, &names).await;
    let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let load = load(fleet.network.http, &over, &answered);
    let roll = async {
        fleet.program = PROGRAM.into();
        fleet.roll().await;
        fleet.program = previous;
        fleet.roll().await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, roll);
    println!("{} requests, none failed", answered.load(Ordering::Relaxed));
    let all = judge::domains(&fleet).await;
    let all: Vec<String> =
        all.iter().map(|domain| domain["name"].as_str().unwrap().to_owned()).collect();
    judge::all_active(&fleet, &all).await;
    judge::finalized_at_most(&fleet, 1).await;
    judge::gapless(&fleet, &all).await;
    judge::nothing_left(&fleet).await;
}
