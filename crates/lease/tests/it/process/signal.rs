//! Children killed and paused, and their database with them.

use holdfast_testkit::{Durability, Postgres};

use super::crew::{Crew, Place};

#[tokio::test]
async fn a_killed_leader_is_followed_and_a_paused_one_is_refused_when_it_wakes() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let mut crew = Crew::start(&url, vec![Place::at(&url); 3]).await;
    let mut term = crew.written_above(0).await;
    for _ in 0..2 {
        let leader = crew.leader(term).await;
        crew.children[leader].kill().await.unwrap();
        term = crew.written_above(term).await;
        crew.replace(leader);
    }
    let paused = crew.leader(term).await;
    crew.children[paused].pause().unwrap();
    crew.written_above(term).await;
    crew.children[paused].resume().unwrap();
    crew.refused(paused, term).await;
    crew.check().await;
    crew.check_beliefs();
}

#[tokio::test]
async fn a_restarted_postgres_finds_its_leader_again() {
    let mut postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = postgres.database().await.unwrap();
    let crew = Crew::start(&url, vec![Place::at(&url); 3]).await;
    crew.written_above(0).await;
    postgres.restart().await.unwrap();
    crew.written_more().await;
    crew.check().await;
}
