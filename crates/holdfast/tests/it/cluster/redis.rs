//! Leases in Redis: the same leadership, and what happens when Redis is lost with all it knew.

use holdfast_testkit::{Redis, RedisSentinels};

use super::{LEASES, group::Group};

fn backend(redis: &Redis) -> String {
    format!("backend = \"redis\"\nurl = \"{}\"", redis.url())
}

#[tokio::test]
async fn the_leader_may_be_killed() {
    let redis = Redis::start().await.unwrap();
    let mut group = Group::start(3, 6, &backend(&redis)).await;
    group.watch_tasks();
    for lease in ["holdfast", "maintenance"] {
        let (holder, term) = group.holder(0, lease, 0).await;
        group.kill(holder).await;
        let (next, raised) = group.holder((holder + 1) % 3, lease, term).await;
        assert_ne!(next, holder);
        if lease == "maintenance" {
            group.worked(lease, next, raised).await;
        }
        group.begin(holder).await;
    }
    group.judge_tasks();
}

#[tokio::test]
async fn redis_is_lost_and_comes_back_empty() {
    let mut redis = Redis::start().await.unwrap();
    let group = Group::start(2, 6, &backend(&redis)).await;
    group.watch_tasks();
    let (_, term) = group.holder(0, "holdfast", 0).await;
    let (_, maintenance) = group.holder(0, "maintenance", 0).await;
    // It remembers nothing: its terms would begin anew.
    redis.restart().await.unwrap();
    let (_, raised) = group.holder(0, "holdfast", term).await;
    assert!(raised > term, "the term was registered in the database, and cannot fall back");
    let (next, raised) = group.holder(0, "maintenance", maintenance).await;
    group.worked("maintenance", next, raised).await;
    group.judge_tasks();
}

/// The Redis that keeps the leases dies, and the Sentinels make its replica the one. Who leads and who works may stay or change, but
/// in terms above all before, and no work is written twice. Then also the holder dies, to be followed on the new one.
#[tokio::test]
async fn sentinels_fail_over() {
    let sentinels = RedisSentinels::start().await.unwrap();
    let backend = format!("backend = \"redis\"\nurl = \"{}\"\nweak_store = true", sentinels.url());
    let mut group = Group::start(3, 6, &backend).await;
    group.watch_tasks();
    let mut terms = Vec::new();
    for lease in LEASES {
        terms.push(group.holder(0, lease, 0).await.1);
    }
    sentinels.fail_over().await.unwrap();
    // What the new one was told of goes on as it was; of what it was not, the next term is above all that was registered.
    for (lease, before) in LEASES.into_iter().zip(terms) {
        group.holder(0, lease, before - 1).await;
    }
    assert!(!group.leader(0).await.is_empty());
    for lease in ["holdfast", "maintenance", "renewal-sweep"] {
        let (holder, term) = group.holder(0, lease, 0).await;
        group.kill(holder).await;
        let (next, raised) = group.holder((holder + 1) % 3, lease, term).await;
        assert_ne!(next, holder);
        if lease != "holdfast" {
            group.worked(lease, next, raised).await;
        }
        group.begin(holder).await;
    }
    group.judge_tasks();
}
