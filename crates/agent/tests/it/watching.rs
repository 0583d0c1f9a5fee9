//! What was put in place is looked at again and again: a proxy that is gone, a name that is lost, and what an idle edge costs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use holdfast_store::PROXY_DOWN;

use crate::agent::Stage;
use crate::kit::{Memory, name};

/// Within the live window: it is looked at every ten seconds.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_nobody_is_told_of_and_compared_when_it_is_back() {
    const LIVE: Duration = Duration::from_secs(30);
    let stage = Stage::new();
    let sha256 = stage.deploy("shop.test");
    let _running = stage.run();
    stage.memory.until_seen("shop.test", Some(&sha256)).await;
    for _ in 0..2 {
        stage.target.down.store(true, Relaxed);
        let down = |memory: &Memory| memory.complaint().filter(|note| note.code == PROXY_DOWN);
        let note = stage.memory.until_within(LIVE, "the complaint", down).await;
        assert!(note.detail.contains("does not answer visitors at 127.0.0.1:1"), "{note}");
        // It came back without it.
        stage.target.lose("shop.test");
        let applied = stage.target.applied("shop.test");
        stage.target.down.store(false, Relaxed);
        let content = |memory: &Memory| memory.reports().last()?.error.is_none().then_some(());
        stage.memory.until_within(LIVE, "the complaint to end", content).await;
        let again = |_: &Memory| (stage.target.applied("shop.test") > applied).then_some(());
        stage.memory.until_within(LIVE, "the name to be put back", again).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_lost_is_found_in_its_turn_and_put_back() {
    let stage = Stage::new();
    let hosts = (0..20).map(|n| format!("n{n:02}.test")).collect::<Vec<_>>();
    for host in &hosts {
        stage.deploy(host);
    }
    let _running = stage.run();
    stage.until_acknowledged(stage.memory.at()).await;
    stage.target.lose("n07.test");
    let again = |_: &Memory| (stage.target.applied("n07.test") == 2).then_some(());
    // Twenty names take three heartbeats.
    let turn = Duration::from_secs(40);
    stage.memory.until_within(turn, "the name to be put back", again).await;
    assert_eq!(stage.target.doubted(), [name("n07.test")]);
    assert_eq!(stage.target.applied_in_all(), hosts.len() + 1);
    assert!(stage.memory.reports().iter().all(|report| report.error.is_none()));
}

#[tokio::test(start_paused = true)]
async fn what_is_withdrawn_is_not_put_back() {
    let stage = Stage::new();
    let (gone, kept) = (stage.deploy("gone.test"), stage.deploy("kept.test"));
    let _running = stage.run();
    stage.memory.until_seen("gone.test", Some(&gone)).await;
    stage.memory.withdraw("gone.test");
    stage.memory.until_seen("gone.test", None).await;
    let renewed = stage.deploy("kept.test");
    assert_ne!(renewed, kept);
    stage.memory.until_seen("kept.test", Some(&renewed)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((stage.target.applied("gone.test"), stage.target.applied("kept.test")), (1, 2));
    assert!(stage.target.doubted().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_idle_edge_makes_few_handshakes_and_reports_no_more_than_signs_of_life() {
    let stage = Stage::new();
    let pattern = stage.authority.issue("n.test");
    for n in 0..300 {
        let mut bundle = pattern.clone();
        bundle.name = name(&format!("n{n}.test"));
        stage.memory.deploy(&bundle);
    }
    let _running = stage.run();
    stage.until_acknowledged(stage.memory.at()).await;
    let (reports, probed) = (stage.memory.reports().len(), stage.target.probed_in_all());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let reports = stage.memory.reports().split_off(reports);
    assert!((59..=62).contains(&reports.len()), "{}", reports.len());
    let probed = stage.target.probed_in_all() - probed;
    assert!((8 * 59..=8 * 61).contains(&probed), "{probed}");
    // What was looked at goes out with them, and every name had its turn.
    let seen = reports.iter().flat_map(|report| &report.observations);
    let domains: BTreeSet<_> = seen.map(|seen| seen.domain).collect();
    assert_eq!(domains.len(), 300);
    assert_eq!(stage.target.applied_in_all(), 300);
}
