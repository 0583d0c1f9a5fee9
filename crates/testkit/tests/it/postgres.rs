//! PostgreSQL starts, is its own in each test, survives a crash, and is gone.

use std::time::Duration;

use holdfast_testkit::{Durability, Postgres, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::net::TcpStream;

async fn count_tables(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn each_database_is_empty() {
    let server = Postgres::shared().await.unwrap();
    for _ in 0..2 {
        let url = server.database().await.unwrap();
        assert_eq!(count_tables(&url).await, 0);
        let mut connection = PgConnection::connect(&url).await.unwrap();
        connection.execute("CREATE TABLE thing ()").await.unwrap();
        assert_eq!(count_tables(&url).await, 1);
    }
}

#[tokio::test]
async fn what_was_committed_survives_a_crash_of_the_server() {
    let mut server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("CREATE TABLE thing ()").await.unwrap();
    server.crash().await.unwrap();
    connection.execute("SELECT 1").await.unwrap_err();
    server.restart().await.unwrap();
    assert_eq!(count_tables(&url).await, 1);
}

#[tokio::test]
async fn a_dropped_server_is_gone_with_its_data() {
    let server = Postgres::start(Durability::Durable).await.unwrap();
    let (port, data) = (server.port(), server.data_directory());
    assert!(data.exists());
    drop(server);
    assert!(!data.exists());
    eventually(
        Duration::from_secs(5),
        "the port to be closed",
        async || match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(_) => Err("still open"),
            Err(_) => Ok(()),
        },
    )
    .await;
}
