//! A PostgreSQL that cannot be used says why: whoever asks whether it can be written is told, whatever call met it.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use holdfast_store::{
    Error, Hindrance, MasterKey, NewWebhook, OpenTransaction, Outage, Secret, SharedStore,
    TransactionOwner,
};
use holdfast_testkit::{Durability, Postgres, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::{
    kit::*,
    postgres::{number, raw},
};

/// Longer than usual: a server begins, or trouble is told for a while after it has ended.
const LATER: Duration = Duration::from_secs(60);

async fn outage(store: &SharedStore) -> Option<Outage> {
    store.check_writes().await.err().map(|error| error.outage().expect("an outage"))
}

async fn well_again(store: &SharedStore) {
    eventually(LATER, "a database that can be written", async || {
        outage(store).await.map_or(Ok(()), Err)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_postgresql_is_told_and_ends_when_there_is_room() {
    let (server, disk) = Postgres::start_on_small_disk(128 << 10).await.unwrap();
    let url = server.database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    assert_eq!(outage(&store).await, None);
    disk.fill(server.process().pid()).unwrap();
    // What fits into pages that are there is still written; the check must not hide that other things are not.
    let mut n = 0;
    let refused = eventually(LATER, "an addition that is refused", async || {
        n += 1;
        let name = format!("n{n}.example.com");
        store.add(&fresh(&name)).await.err().and_then(|error| error.outage()).ok_or(name)
    })
    .await;
    assert_eq!(refused, Outage::DiskFull);
    assert_eq!(outage(&store).await, Some(Outage::DiskFull));
    disk.free(server.process().pid()).unwrap();
    well_again(&store).await;
    add(&store, "new.example.com").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_what_is_written_is_told_as_such() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut other = reports(&url).await;
    let process = process(&mut other).await;
    other.execute("BEGIN").await.unwrap();
    other.execute("LOCK TABLE setting IN EXCLUSIVE MODE").await.unwrap();
    let holder = holder(store.check_writes().await.unwrap_err());
    assert_eq!(holder.owner, TransactionOwner::Session(process));
    assert_eq!(holder.application.as_deref(), Some("reports"));
    assert_eq!(holder.statement.as_deref(), Some("LOCK TABLE"));
    assert_eq!(holder.state.as_deref(), Some("idle in transaction"));
    assert!(holder.since.is_some());
    other.execute("ROLLBACK").await.unwrap();
    well_again(&store).await;
}

/// The one who is waited for may wait himself; and a write by itself is as good as a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_the_lock_that_a_write_waits_for_is_named() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut holding = reports(&url).await;
    holding.execute("BEGIN").await.unwrap();
    holding.execute("LOCK TABLE webhook IN ROW EXCLUSIVE MODE").await.unwrap();
    let mut between = PgConnection::connect(&url).await.unwrap();
    let between =
        tokio::spawn(async move { between.execute("BEGIN; LOCK TABLE webhook").await.map(drop) });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = 'BEGIN; LOCK TABLE webhook'";
    let mut watch = raw(&url).await;
    eventually(SOON, "the one between to wait", async || match number(&mut watch, waiting).await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    let refused = store.webhooks().await.unwrap_err();
    assert_eq!(refused.outage(), Some(Outage::Locked), "{refused:?}");
    assert!(refused.to_string().contains("pg_terminate_backend"), "{refused}");
    // What can be written says nothing of what cannot.
    store.check_writes().await.unwrap();
    let told = store.shortage().unwrap();
    assert!(told.starts_with("requests fail: it waited for a lock of pid "), "{told}");
    let holder = holder(refused);
    assert_eq!(holder.owner, TransactionOwner::Session(process(&mut holding).await));
    holding.execute("ROLLBACK").await.unwrap();
    between.await.unwrap().unwrap();
    assert!(store.webhooks().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_that_holds_the_lock_is_named() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let store = opened(&url, &MasterKey::generate().unwrap()).await;
    let mut other = reports(&url).await;
    let prepare = "BEGIN; LOCK TABLE setting IN EXCLUSIVE MODE; PREPARE TRANSACTION 'payment-8'";
    other.execute(prepare).await.unwrap();
    let holder = holder(store.check_writes().await.unwrap_err());
    assert_eq!(holder.owner, TransactionOwner::Prepared("payment-8".to_owned()));
    other.execute("ROLLBACK PREPARED 'payment-8'").await.unwrap();
    well_again(&store).await;
}

/// A session of another application.
async fn reports(url: &str) -> PgConnection {
    let mut session = PgConnection::connect(url).await.unwrap();
    session.execute("SET application_name = 'reports'").await.unwrap();
    session
}

async fn process(session: &mut PgConnection) -> i64 {
    number(session, "SELECT pg_backend_pid()::bigint").await
}

fn holder(refused: Error) -> OpenTransaction {
    match refused {
        Error::Hindered { by: Hindrance::Locks(mut holders), .. } if holders.len() == 1 => {
            holders.remove(0)
        }
        other => panic!("{other:?}"),
    }
}

/// Told until another server answers: here the same one with a whole file, as a failover to a standby would bring.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_of_postgresql_is_told_once_it_was_met() {
    let mut server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let key = MasterKey::generate().unwrap();
    let store = opened(&url, &key).await;
    let secret = Secret::from("whsec_x".to_owned());
    let new = NewWebhook { url: "https://a.example.com".to_owned(), events: Vec::new(), secret };
    store.keep_webhook(&new).await.unwrap();
    let mut raw = PgConnection::connect(&url).await.unwrap();
    raw.execute("CHECKPOINT").await.unwrap();
    let path = raw.fetch_one("SELECT pg_relation_filepath('webhook')").await.unwrap();
    let path = server.data_directory().join(path.get::<String, _>(0));
    server.crash().await.unwrap();
    let page = overwrite(&path, &[0xff; 8192]);
    server.restart().await.unwrap();

    well_again(&store).await;
    let met = store.webhooks().await.unwrap_err();
    assert_eq!(met.outage(), Some(Outage::Corrupt), "{met}");
    assert_eq!(outage(&store).await, Some(Outage::Corrupt));
    assert_eq!(outage(&store).await, Some(Outage::Corrupt), "it does not heal");

    server.crash().await.unwrap();
    overwrite(&path, &page);
    server.restart().await.unwrap();
    well_again(&store).await;
    assert_eq!(store.webhooks().await.unwrap().len(), 1);
}

/// The first page becomes this; gives what it was.
fn overwrite(path: &std::path::Path, page: &[u8; 8192]) -> [u8; 8192] {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut before = [0; 8192];
    file.read_exact_at(&mut before, 0).unwrap();
    file.write_all_at(page, 0).unwrap();
    before
}
