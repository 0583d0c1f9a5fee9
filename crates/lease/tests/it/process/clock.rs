//! Wall clocks stepped by an hour: a child's own, which must not matter, and the store's, which decides expiry.

use std::time::Duration;

use holdfast_testkit::{Faketime, Postgres};

use super::crew::{Crew, Place};

const HOUR: i64 = 3_600;

#[tokio::test]
async fn the_clock_of_a_client_is_of_no_matter() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let clock = Faketime::new().unwrap();
    // So long that only a step of the clock could end it.
    let place = Place { lasts: Duration::from_secs(60), ..Place::at(&url) };
    let crew = vec![Place { clock: Some(&clock), ..place.clone() }];
    let mut crew = Crew::start(&url, crew).await;
    let term = crew.written_above(0).await;
    crew.join(place);
    for (step, by) in [(HOUR, HOUR), (-HOUR, -2 * HOUR)] {
        clock.step(step).unwrap();
        let saw = |line: &str| {
            let by_what = line.strip_prefix("clock stepped by ").and_then(|by| by.parse().ok());
            by_what.is_some_and(|seen: i64| (seen - by).abs() < HOUR / 10)
        };
        crew.said(0, saw).await;
        assert_eq!(crew.written_more().await, term, "the leader changed");
    }
    assert_eq!(crew.leader(term).await, 0);
    assert!(!crew.children[1].log().contains("elected"), "the other one led");
    crew.check().await;
}

/// Steps the store's clock under a leader that is alive, then under one that sleeps and is followed.
async fn check_step(step: i64) {
    let clock = Faketime::new().unwrap();
    let postgres = Postgres::start_by(&clock).await.unwrap();
    let url = postgres.database().await.unwrap();
    let crew = Crew::start(&url, vec![Place::at(&url); 3]).await;
    crew.written_above(0).await;
    clock.step(step).unwrap();
    let term = crew.written_more().await;
    let leader = crew.leader(term).await;
    crew.pause_between_writes(leader).await;
    clock.step(2 * step).unwrap();
    crew.written_above(term).await;
    crew.children[leader].resume().unwrap();
    crew.refused(leader, term).await;
    crew.written_more().await;
    crew.check().await;
}

#[tokio::test]
async fn the_clock_of_the_store_stepped_forward() {
    check_step(HOUR).await;
}

#[tokio::test]
async fn the_clock_of_the_store_stepped_back() {
    check_step(-HOUR).await;
}
