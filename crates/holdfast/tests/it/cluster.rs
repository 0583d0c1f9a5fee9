//! Replicas as one cluster: real processes on a real PostgreSQL, killed, paused, doubled and told to end.

mod cold;
mod failover;
pub(crate) mod group;
mod pooler;
mod redis;
mod rolling;
mod unwell;

use holdfast_testkit::{Postgres, Proxy, Way};
use http::Method;
use serde_json::json;

use self::group::Group;
use crate::kit::SOON;

pub(crate) const LEASES: [&str; 4] = ["holdfast", "maintenance", "renewal-sweep", "alerts"];

#[tokio::test]
async fn the_holder_of_any_lease_may_be_killed() {
    let mut group = Group::start(3, 6, "").await;
    group.watch_tasks();
    for lease in LEASES {
        let (holder, term) = group.holder(0, lease, 0).await;
        group.kill(holder).await;
        let other = (holder + 1) % 3;
        let (next, raised) = group.holder(other, lease, term).await;
        assert_ne!(next, holder);
        if lease != "holdfast" {
            group.worked(lease, next, raised).await;
        }
        group.begin(holder).await;
    }
    group.judge_tasks();
}

#[tokio::test]
async fn the_holder_of_any_lease_may_be_paused() {
    let group = Group::start(3, 6, "").await;
    group.watch_tasks();
    for lease in LEASES {
        let (holder, term) = group.holder(0, lease, 0).await;
        group.process(holder).pause().unwrap();
        let other = (holder + 1) % 3;
        let (next, raised) = group.holder(other, lease, term).await;
        assert_ne!(next, holder);
        if lease != "holdfast" {
            group.worked(lease, next, raised).await;
        }
        group.process(holder).resume().unwrap();
        // It wakes up in the middle of whatever it did, and finds out.
        assert_ne!(group.leader(other).await, "");
        group.holder(holder, lease, term).await;
    }
    group.judge_tasks();
}

/// What it sent and nobody waits for any more arrives when the wire is mended, in a term that is over.
#[tokio::test]
async fn the_holder_of_any_lease_may_be_cut_off_from_the_database() {
    let mut group = Group::start(3, 6, "").await;
    group.watch_tasks();
    let proxy = Proxy::before(Postgres::shared().await.unwrap().port()).await.unwrap();
    group.end(0).await;
    group.members[0].database = Some(proxy.lead(&group.url));
    group.begin(0).await;
    for lease in LEASES {
        // On a busy machine the reservation may run out before r0 wakes up: then it is asked for again.
        let (mut holder, mut term) = group.holder(1, lease, 0).await;
        while holder != 0 {
            group.run(1, ["lease", "step-down", lease, "--to", "r0"]);
            (holder, term) = group.holder(1, lease, term).await;
        }
        proxy.hold(Way::ToServer);
        proxy.hold(Way::ToClient);
        let (next, raised) = group.holder(1, lease, term).await;
        assert_ne!(next, 0);
        if lease != "holdfast" {
            group.worked(lease, next, raised).await;
        }
        proxy.resume().await;
        group.holder(0, lease, term).await;
    }
    group.judge_tasks();
}

/// A write that a leader took, and that reaches the database only when another leads, is not written.
#[tokio::test]
async fn a_write_that_outlives_its_leader_is_not_written() {
    let mut group = Group::start(2, 6, "").await;
    let proxy = Proxy::before(Postgres::shared().await.unwrap().port()).await.unwrap();
    group.members[0].database = Some(proxy.lead(&group.url));
    group.writes = Some("reject");
    for at in [1, 0] {
        group.end(at).await;
    }
    for at in [0, 1] {
        group.begin(at).await;
    }
    let (mut holder, mut term) = group.holder(1, "holdfast", 0).await;
    while holder != 0 {
        group.run(1, ["lease", "step-down", "holdfast", "--to", "r0"]);
        (holder, term) = group.holder(1, "holdfast", term).await;
    }
    assert_eq!(group.leader(0).await, "r0");
    proxy.hold(Way::ToServer);
    let add = json!({ "name": "late.example.com" });
    let write = group.ask(0, Method::POST, "/v1/domains", Some(&add));
    let succeeded = async {
        let (next, _) = group.holder(1, "holdfast", term).await;
        assert_eq!(next, 1);
        proxy.resume().await;
    };
    let (answer, ()) = tokio::join!(write, succeeded);
    // Whatever its client was told, it was not done.
    assert!(!answer.as_ref().is_ok_and(|(status, _)| status.is_success()), "{answer:?}");
    let kept = group.sql("SELECT count(*) FROM domain WHERE name = 'late.example.com'");
    assert_eq!(kept.trim(), "0", "a term that was over wrote: {answer:?}");
    let (status, _) = group.ask(1, Method::POST, "/v1/domains", Some(&add)).await.unwrap();
    assert_eq!(status.as_u16(), 201);
}

#[tokio::test]
async fn sigterm_hands_every_lease_to_the_oldest_other_at_once() {
    // A lease that is not handed over would last longer than this test waits.
    let mut group = Group::start(3, 600, "").await;
    let (holder, term) = group.holder(1, "holdfast", 0).await;
    assert_eq!(holder, 0, "the oldest one leads");
    for lease in ["maintenance", "renewal-sweep", "alerts"] {
        assert_eq!(group.holder(1, lease, 0).await.0, 0);
    }
    group.end(0).await;
    for lease in LEASES {
        let (next, _) = group.holder(2, lease, if lease == "holdfast" { term } else { 1 }).await;
        assert_eq!(next, 1, "{lease}");
        let path = format!("/v1/leases/{lease}/history");
        let history = group.items(2, &path).await.unwrap();
        assert_eq!(
            (history[0]["change"].as_str(), history[0]["to"].as_str()),
            (Some("reserved"), Some("r1"))
        );
    }
    assert_eq!(group.leader(2).await, "r1");
    let replicas = group.items(2, "/v1/replicas").await.unwrap();
    assert_eq!(replicas.len(), 2, "who left is not there: {replicas:?}");
    // Back again it has its place in the order of age, and takes nothing away.
    group.begin(0).await;
    let replicas = group.items(2, "/v1/replicas").await.unwrap();
    assert_eq!(replicas[0]["instance_id"], "r0");
    assert_eq!(group.leader(0).await, "r1");
}

#[tokio::test]
async fn a_second_process_of_the_same_name_takes_its_place() {
    let mut group = Group::start(2, 6, "").await;
    let mut double = group.command(0);
    double.env(
        "HOLDFAST__SERVER__LISTEN",
        format!("127.0.0.1:{}", holdfast_testkit::free_port().unwrap()),
    );
    let double = holdfast_testkit::Process::spawn("double", &double).unwrap();
    double.wait_for_line(SOON, crate::kit::is_ready).await.unwrap();
    let status = group.process(0).wait(SOON).await.unwrap();
    assert_eq!(status.code(), Some(1));
    let log = group.process(0).log();
    assert!(log.contains("identity-taken") && log.contains("instance_id"), "{log}");
    assert_eq!(group.items(1, "/v1/replicas").await.unwrap().len(), 2);
    assert!(double.terminate(SOON).await.unwrap().success());
    group.end(1).await;
}

#[tokio::test]
async fn leases_on_the_command_line() {
    let group = Group::start(2, 6, "").await;
    let (holder, term) = group.holder(0, "holdfast", 0).await;
    let other = 1 - holder;
    let listed = group.run(0, ["lease", "list"]).done().stdout;
    assert!(listed.contains("holdfast") && listed.contains("maintenance"), "{listed}");
    let replicas = group.run(0, ["replica", "list"]).done().stdout;
    assert!(replicas.contains("r0") && replicas.contains("healthy"), "{replicas}");
    let to = group.members[other].name.clone();
    group.run(0, ["lease", "step-down", "holdfast", "--to", &to]).done();
    let (next, raised) = group.holder(0, "holdfast", term).await;
    assert_eq!(next, other);
    let released = group.run(1, ["lease", "release", "holdfast", "--output", "json"]).done().json();
    let forced = released["term"].as_u64().unwrap();
    assert!(forced > raised);
    group.holder(0, "holdfast", forced).await;
    let history = group.run(0, ["lease", "history", "holdfast"]).done().stdout;
    assert!(history.contains("forced") && history.contains("by admin"), "{history}");
    group.run(0, ["lease", "release", "nothing"]).refused(1, &["lease list"]);
    group
        .run(0, ["lease", "step-down", "holdfast", "--to", "nobody"])
        .refused(1, &["replica list"]);
    let tasks = group.run(0, ["task", "list"]).done().stdout;
    assert!(tasks.contains("fold-counts") && tasks.contains("sweep-renewals"), "{tasks}");
    let (status, body) = group
        .ask(0, Method::POST, "/v1/leases/holdfast/step-down", Some(&json!({ "for": "r0" })))
        .await
        .unwrap();
    assert_eq!((status.as_u16(), body["code"].as_str()), (422, Some("unknown-field")));
}
