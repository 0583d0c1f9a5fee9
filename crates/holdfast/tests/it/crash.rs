//! The crash walk: a run is recorded; then, for every crash point and every occurrence of it in the recording, before and
//! after, a fresh server is killed exactly there by a real `abort`, started again, and must end where the recorded
//! run ended, with nothing lost and nothing done twice.

mod site;
mod story;
mod walk;

use holdfast_gateway::point::Point;

use self::{story::Story, walk::walk};
use crate::replica::Database;

/// From nothing to served, renewed, removed and revoked.
#[tokio::test]
async fn a_whole_life_on_sqlite() {
    walk(Database::Sqlite, Story::Life).await;
}

#[tokio::test]
async fn a_whole_life_on_postgres() {
    walk(Database::Postgres, Story::Life).await;
}

#[tokio::test]
async fn a_certificate_brought_along_on_sqlite() {
    walk(Database::Sqlite, Story::Import).await;
}

#[tokio::test]
async fn a_certificate_brought_along_on_postgres() {
    walk(Database::Postgres, Story::Import).await;
}

/// The CA asks to be left alone, and everybody does.
#[tokio::test]
async fn a_queue_behind_a_limit() {
    walk(Database::Postgres, Story::Queue).await;
}

/// The CA's window is asked for, and a certificate that lives for eight seconds is renewed in time.
#[tokio::test]
async fn a_renewal_by_the_cas_window() {
    walk(Database::Sqlite, Story::Window).await;
}

/// A CA so slow that claims must be renewed while it is waited for.
#[tokio::test]
async fn a_slow_ca() {
    walk(Database::Postgres, Story::Slow).await;
}

/// The account's key is changed, and every step of that can be the last.
#[tokio::test]
async fn another_key_for_the_account_on_sqlite() {
    walk(Database::Sqlite, Story::Account).await;
}

#[tokio::test]
async fn another_key_for_the_account_on_postgres() {
    walk(Database::Postgres, Story::Account).await;
}

/// A point that no story passes would be one the walk never proves anything about.
#[test]
fn every_point_has_its_story() {
    for point in Point::ALL {
        let told = Story::ALL.iter().any(|story| story.passes().contains(point));
        assert!(told || story::ELSEWHERE.contains(point), "no story passes {point}");
    }
}
