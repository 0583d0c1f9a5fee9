//! A stepped clock is what a process sees, and its monotonic clock is left alone.

use holdfast_testkit::{Faketime, Postgres};
use sqlx::{Connection as _, PgConnection};

/// The wall clock of a server, in seconds.
async fn wall(connection: &mut PgConnection) -> f64 {
    let query = "SELECT extract(epoch FROM clock_timestamp())::float8";
    sqlx::query_scalar(query).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_server_sees_its_clock_stepped_both_ways() {
    let clock = Faketime::new().unwrap();
    let server = Postgres::start_by(&clock).await.unwrap();
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
    let right = wall(&mut connection).await;
    clock.step(3_600).unwrap();
    let ahead = wall(&mut connection).await - right;
    assert!((3_600.0..3_900.0).contains(&ahead), "{ahead}");
    clock.step(-3_600).unwrap();
    let behind = wall(&mut connection).await - right;
    assert!((-3_600.0..-3_300.0).contains(&behind), "{behind}");
    // Timeouts still work.
    sqlx::query("SET statement_timeout = '20ms'").execute(&mut connection).await.unwrap();
    sqlx::query("SELECT pg_sleep(60)").execute(&mut connection).await.unwrap_err();
}
