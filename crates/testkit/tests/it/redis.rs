//! Redis starts, answers, forgets, and is gone.

use holdfast_testkit::{Redis, RedisCluster, RedisSentinels, RedisTls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn ask(redis: &Redis, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).await.unwrap();
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.trim_end_matches("+OK\r\n").trim_end().to_owned()
}

#[tokio::test]
async fn it_answers_and_remembers_nothing_across_a_restart() {
    let mut redis = Redis::start().await.unwrap();
    ask(&redis, "SET name value").await;
    assert_eq!(ask(&redis, "EXISTS name").await, ":1");
    redis.restart().await.unwrap();
    assert_eq!(ask(&redis, "EXISTS name").await, ":0");
}

#[tokio::test]
async fn with_persistence_it_remembers() {
    let mut redis =
        Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).await.unwrap();
    ask(&redis, "SET name value").await;
    redis.restart().await.unwrap();
    assert_eq!(ask(&redis, "EXISTS name").await, ":1");
}

#[tokio::test]
async fn sentinels_make_the_replica_the_primary() {
    let sentinels = RedisSentinels::start().await.unwrap();
    assert!(sentinels.second().ask(&["ROLE"]).await.unwrap().starts_with("slave"));
    sentinels.fail_over().await.unwrap();
    assert!(sentinels.second().ask(&["ROLE"]).await.unwrap().starts_with("master"));
}

#[tokio::test]
async fn a_cluster_shares_its_slots() {
    let cluster = RedisCluster::start().await.unwrap();
    let mut taken = 0;
    for server in cluster.servers() {
        taken += usize::from(server.ask(&["SET", "name", "value"]).await.unwrap() == "OK");
    }
    assert_eq!(taken, 1, "one of them has the slot");
}

#[tokio::test]
async fn with_tls_nothing_else_is_spoken() {
    let redis = RedisTls::start_with(&[]).await.unwrap();
    assert!(redis.server().ask(&["PING"]).await.is_err());
    assert!(redis.root_pem().contains("BEGIN CERTIFICATE"));
}
