//! Redis loses what it acknowledged: terms that are registered in a database hold all the same.

use holdfast_testkit::{Postgres, Redis, RedisSentinels};

use super::crew::{Crew, Place};

/// Pauses the leader, does something to Redis, and looks at who follows and what becomes of the late write.
async fn check(leases: &str, strike: impl AsyncFnOnce()) {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let place = Place { leases: leases.to_owned(), ..Place::at(&url) };
    let crew = Crew::start(&url, vec![place; 3]).await;
    let term = crew.written_above(0).await;
    let leader = crew.leader(term).await;
    crew.children[leader].pause().unwrap();
    strike().await;
    crew.written_above(term).await;
    crew.children[leader].resume().unwrap();
    crew.refused(leader, term).await;
    crew.written_more().await;
    crew.check().await;
}

#[tokio::test]
async fn a_failover_by_sentinels() {
    let sentinels = RedisSentinels::start().await.unwrap();
    check(&sentinels.url(), async || sentinels.fail_over().await.unwrap()).await;
}

#[tokio::test]
async fn everything_forgotten() {
    let redis = Redis::start().await.unwrap();
    check(&redis.url(), async || {
        redis.ask(&["FLUSHALL"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty() {
    let mut redis = Redis::start().await.unwrap();
    let url = redis.url();
    check(&url, async || redis.restart().await.unwrap()).await;
}
