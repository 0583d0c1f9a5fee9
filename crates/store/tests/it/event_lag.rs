//! The event log stands still for its readers while an older transaction is open anywhere on the server: seen, with its cause.

use holdfast_store::{EventCursor, EventLag, MasterKey, SharedStore, TransactionOwner};
use holdfast_testkit::Postgres;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::{
    kit::*,
    postgres::{database, raw},
};

on_both!(what_is_committed_can_be_read);

/// A session of another application in another database of the same server.
async fn another() -> PgConnection {
    let mut session = raw(&database().await).await;
    session.execute("SET application_name = 'reports'").await.unwrap();
    session
}

/// Writes an event, two minutes ago.
async fn told(store: &SharedStore, url: &str) {
    told_at(store, url, "clock_timestamp() - interval '2 minutes'").await;
}

/// Writes an event as a clock that says this would have.
async fn told_at(store: &SharedStore, url: &str, at: &str) {
    store.notice(&actor(), "tested", "here", "told").await.unwrap();
    let told = format!("UPDATE event SET at = {at} WHERE id = (SELECT max(id) FROM event)");
    raw(url).await.execute(AssertSqlSafe(told)).await.unwrap();
}

async fn unread(store: &SharedStore) -> usize {
    let read = store.events_after(EventCursor::default(), 100).await.unwrap();
    assert!(read.is_empty(), "{read:?}");
    store.event_lag().await.unwrap().held_by.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_in_another_database_is_the_cause() {
    let url = database().await;
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    // The places of the log are not the server's numbers of transactions, least of all after this.
    store.restored().await.unwrap();
    let mut session = another().await;
    session.execute("BEGIN").await.unwrap();
    session.execute("SELECT pg_current_xact_id()").await.unwrap();
    // A transaction that began after the event does not keep anybody from it.
    told(&store, &url).await;
    let mut later = another().await;
    later.execute("BEGIN").await.unwrap();
    later.execute("SELECT pg_current_xact_id()").await.unwrap();
    assert_eq!(unread(&store).await, 1);
    let holder = store.event_lag().await.unwrap().held_by.remove(0);
    assert!(matches!(holder.owner, TransactionOwner::Session(pid) if pid > 0), "{holder}");
    assert_eq!(holder.database.as_deref(), Some("test_1"));
    assert_eq!(holder.user.as_deref(), Some("holdfast"));
    assert_eq!(holder.application.as_deref(), Some("reports"));
    assert_eq!(holder.state.as_deref(), Some("idle in transaction"));
    assert!(holder.since.is_some());
    session.execute("COMMIT").await.unwrap();
    assert_eq!(store.events_after(EventCursor::default(), 100).await.unwrap().len(), 1);
    later.execute("COMMIT").await.unwrap();
    assert_eq!(store.event_lag().await.unwrap(), EventLag::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_is_the_cause() {
    let url = database().await;
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut session = another().await;
    session
        .execute("BEGIN; CREATE TABLE payment (id int); PREPARE TRANSACTION 'payment-7'")
        .await
        .unwrap();
    session.close().await.unwrap();
    told(&store, &url).await;
    assert_eq!(unread(&store).await, 1);
    let holder = store.event_lag().await.unwrap().held_by.remove(0);
    assert_eq!(holder.owner, TransactionOwner::Prepared("payment-7".to_owned()));
    assert_eq!(holder.database.as_deref(), Some("test_1"));
    assert!(holder.since.is_some());
    let there = Postgres::shared().await.unwrap().url("test_1");
    raw(&there).await.execute("ROLLBACK PREPARED 'payment-7'").await.unwrap();
    assert_eq!(store.event_lag().await.unwrap(), EventLag::default());
}

/// The clock was a month ahead when the first unread event was written. That hides nobody who holds readers back.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_from_the_future_hides_no_lag() {
    let url = database().await;
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let before = store.ping().await.unwrap();
    let mut session = another().await;
    session.execute("BEGIN").await.unwrap();
    session.execute("SELECT pg_current_xact_id()").await.unwrap();
    told_at(&store, &url, "clock_timestamp() + interval '1 month'").await;
    assert_eq!(unread(&store).await, 1);
    let since = store.event_lag().await.unwrap().unread_since.unwrap();
    assert!(since >= before && since <= store.ping().await.unwrap(), "{since}");
    // Those that were written since say how long they wait.
    told(&store, &url).await;
    let lag = store.event_lag().await.unwrap();
    assert!(lag.unread_since.unwrap() < before && lag.held_by.len() == 1, "{lag:?}");
    session.execute("COMMIT").await.unwrap();
    assert_eq!(store.event_lag().await.unwrap(), EventLag::default());
}

/// A dump pins what vacuum may remove; it has no number, and readers of the log do not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_snapshot_holds_nobody_back() {
    let url = database().await;
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut dump = raw(&url).await;
    dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    dump.execute("SELECT count(*) FROM event").await.unwrap();
    told(&store, &url).await;
    assert_eq!(store.events_after(EventCursor::default(), 100).await.unwrap().len(), 1);
    assert_eq!(store.event_lag().await.unwrap(), EventLag::default());
}

/// What a user who is not a superuser cannot see of others' sessions is told as unknown; the rest is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_privileges_sees_who_but_not_since_when() {
    let (url, key) = (database().await, MasterKey::generate().unwrap());
    drop(opened(&url, &key).await);
    let mut owner = raw(&url).await;
    for step in [
        "CREATE ROLE plain LOGIN",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO plain",
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO plain",
    ] {
        owner.execute(step).await.unwrap();
    }
    let url_of_plain = url.replace("holdfast@", "plain@");
    let store = opened(&url_of_plain, &key).await;
    let mut session = another().await;
    session.execute("BEGIN").await.unwrap();
    session.execute("SELECT pg_current_xact_id()").await.unwrap();
    told(&store, &url).await;
    assert_eq!(unread(&store).await, 1);
    let holder = store.event_lag().await.unwrap().held_by.remove(0);
    assert_eq!(
        (holder.database.as_deref(), holder.user.as_deref()),
        (Some("test_1"), Some("holdfast"))
    );
    assert_eq!((&holder.state, holder.since), (&None, None));
    let grant = AssertSqlSafe("GRANT pg_read_all_stats TO plain".to_owned());
    owner.execute(grant).await.unwrap();
    assert!(store.event_lag().await.unwrap().held_by.remove(0).since.is_some());
}

async fn what_is_committed_can_be_read(store: SharedStore) {
    add(&store, "shop.example.com").await;
    assert_eq!(store.event_lag().await.unwrap(), EventLag::default());
}
