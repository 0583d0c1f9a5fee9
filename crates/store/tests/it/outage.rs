//! A PostgreSQL that cannot be used says why: whoever asks whether it can be written is told, whatever call met it.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use holdfast_store::{MasterKey, NewWebhook, Outage, Secret, SharedStore};
use holdfast_testkit::{Durability, Postgres, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::kit::*;

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
    let mut other = PgConnection::connect(&url).await.unwrap();
    other.execute("BEGIN").await.unwrap();
    other.execute("LOCK TABLE setting IN EXCLUSIVE MODE").await.unwrap();
    assert_eq!(outage(&store).await, Some(Outage::Locked));
    other.execute("ROLLBACK").await.unwrap();
    well_again(&store).await;
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
