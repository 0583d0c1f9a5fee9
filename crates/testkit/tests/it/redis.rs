//! Redis starts, answers, forgets, and is gone.

use holdfast_testkit::Redis;
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
