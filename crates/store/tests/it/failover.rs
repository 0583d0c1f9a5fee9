//! Sessions of the store after a failover: none stays with a server that takes no writes, and none lives for ever.

use std::time::Duration;

use holdfast_store::{Error, MasterKey, NewDomain, OpenOptions, Outage, SharedStore, open};
use holdfast_testkit::{Durability, Postgres, eventually};

use crate::{
    kit::*,
    postgres::{number, raw},
};

const LONG: Duration = Duration::from_secs(60);

/// Sessions of requests, oldest first.
const SESSIONS: &str = "SELECT coalesce(min(pid), 0)::bigint FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast' AND query LIKE '%AS now%'";

/// So many requests at once.
const MANY_SESSIONS: i64 = 8;

/// Sessions that list webhooks, and of those the ones that cannot yet.
const WAITED: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast' AND query LIKE '%FROM webhook w LEFT JOIN%'";
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast' AND query LIKE '%FROM webhook w LEFT JOIN%'
        AND wait_event_type = 'Lock'";

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_is_left_when_it_says_so() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    add(&store, "one.example.com").await;
    server.set_read_only(true).await.unwrap();
    // Reads alone would be answered: the ping asks.
    let refused = store.ping().await.unwrap_err();
    assert!(matches!(refused, Error::TakesNoWrites(_) | Error::NoSession { .. }), "{refused:?}");
    assert!(refused.is_transient());
    assert!(matches!(store.ping().await.unwrap_err(), Error::NoSession { .. }));
    server.set_read_only(false).await.unwrap();
    eventually(LONG, "a ping", async || store.ping().await).await;
    add(&store, "two.example.com").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_says_25006_in_a_transaction_is_not_used_again() {
    is_not_used_again(async |store| store.move_from(None, Some(DIRECTORY)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_says_25006_to_a_statement_by_itself_is_not_used_again() {
    is_not_used_again(async |store| store.release_resource("one", "one").await.map(drop)).await;
}

/// A session that was good says 25006 at a write: it is dropped with all others, and the next one is refused with the host's name.
async fn is_not_used_again(write: impl AsyncFn(&SharedStore) -> Result<(), Error>) {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut session = raw(&url).await;
    let mut execute = async |text: &'static str| {
        sqlx::Executor::execute(&mut session, text).await.unwrap();
    };
    execute("SET default_transaction_read_only = off").await;
    // As many as wait at once have a session each.
    execute("BEGIN; LOCK TABLE webhook IN ACCESS EXCLUSIVE MODE").await;
    let waiting: Vec<_> = (0..MANY_SESSIONS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.webhooks().await })
        })
        .collect();
    let mut watch = raw(&url).await;
    eventually(LONG, "the sessions", async || match number(&mut watch, WAITING).await {
        MANY_SESSIONS => Ok(()),
        other => Err(other),
    })
    .await;
    execute("COMMIT").await;
    for one in waiting {
        one.await.unwrap().unwrap();
    }
    assert_eq!(number(&mut watch, WAITED).await, MANY_SESSIONS);
    server.set_read_only(true).await.unwrap();
    let refused = write(&store).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused:?}");
    let refused = write(&store).await.unwrap_err();
    let Error::NoSession { source, .. } = refused else { panic!("{refused:?}") };
    assert!(source.takes_no_writes(), "{source}");
    assert!(source.to_string().contains(&server.port().to_string()), "{source}");
    eventually(LONG, "the idle sessions to end", async || match number(&mut watch, WAITED).await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_life() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let key = MasterKey::generate().unwrap();
    let mut session = raw(&url).await;
    for (longest_life, same) in [(LONG, true), (Duration::ZERO, false)] {
        let options = OpenOptions { longest_life, ..OpenOptions::default() };
        let store = open(&url, Some(key.clone()), options).await.unwrap();
        store.ping().await.unwrap();
        let first = number(&mut session, SESSIONS).await;
        store.ping().await.unwrap();
        let second = number(&mut session, SESSIONS).await;
        assert_eq!(first != 0 && first == second, same, "{longest_life:?}: {first} {second}");
    }
}

async fn nothing_is_added(store: &SharedStore, new: &[NewDomain]) {
    let adding: Vec<_> = new
        .iter()
        .map(|new| {
            let (store, new) = (store.clone(), new.clone());
            tokio::spawn(async move { store.add(&new).await })
        })
        .collect();
    for one in adding {
        let refused = one.await.unwrap().unwrap_err();
        assert_eq!(refused.outage(), Some(Outage::AwaitsStandby), "{refused:?}");
        assert!(refused.is_transient());
    }
}

/// Commits that wait for a synchronous standby.
const AWAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast' AND wait_event = 'SyncRep'";
/// No timeout of PostgreSQL ends the wait of a commit for its standby. It is told, its sessions are ended, and what became of it is not
/// known: asked again, it is done once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_synchronous_standby_is_named_shows_nothing_and_bounds_its_sessions() {
    let primary = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = primary.database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut standby = primary.synchronous_standby().await.unwrap();
    store.check_writes().await.unwrap();
    standby.crash().await.unwrap();
    let refused = store.check_writes().await.unwrap_err();
    assert_eq!(refused.outage(), Some(Outage::AwaitsStandby), "{refused:?}");
    let new: Vec<_> = (0..MANY_SESSIONS).map(|n| fresh(&format!("n{n}.example.com"))).collect();
    nothing_is_added(&store, &new).await;
    let mut watch = raw(&url).await;
    assert!(number(&mut watch, AWAITING).await >= MANY_SESSIONS);
    // What is read is answered meanwhile.
    store.ping().await.unwrap();
    // What waits is not shown to anybody: a failover may undo it.
    nothing_is_added(&store, &new).await;
    assert_eq!(number(&mut watch, "SELECT count(*) FROM domain").await, 0);
    // However long it lasts, sessions do not pile up.
    for _ in 0..3 {
        let all: Vec<_> = (0..MANY_SESSIONS)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.check_writes().await })
            })
            .collect();
        for one in all {
            let refused = one.await.unwrap().unwrap_err();
            assert_eq!(refused.outage(), Some(Outage::AwaitsStandby), "{refused:?}");
        }
    }
    let waiting = number(&mut watch, AWAITING).await;
    assert!(waiting <= 5 * MANY_SESSIONS, "{waiting}");
    standby.restart().await.unwrap();
    eventually(LONG, "a commit", async || store.check_writes().await).await;
    for new in &new {
        store.add(new).await.unwrap();
    }
    assert_eq!(number(&mut watch, "SELECT count(*) FROM domain").await, MANY_SESSIONS);
}
