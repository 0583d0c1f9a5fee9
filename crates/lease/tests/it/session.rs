//! Sessions with PostgreSQL after failovers and behind poolers: with a server that takes writes, or none.

use std::time::Duration;

use holdfast_lease::session::{Fault, Hosts};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{Happening, Store as _, Wish};
use holdfast_testkit::{Durability, PgBouncer, PoolMode, Postgres, Proxy, eventually, free_port};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use crate::ground::{SOON, elector, name, quick};

async fn port(session: &mut PgConnection) -> u16 {
    let row = session.fetch_one("SELECT current_setting('port')::int").await.unwrap();
    u16::try_from(row.get::<i32, _>(0)).unwrap()
}

/// Everything an operator is told.
async fn refusal(hosts: &Hosts) -> String {
    hosts.connect().await.err().unwrap().to_string()
}

#[tokio::test]
async fn the_host_that_takes_writes_is_used_and_every_other_named() {
    let primary = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = primary.database().await.unwrap();
    let standby = primary.synchronous_standby().await.unwrap();
    let (nobody, first, second) = (free_port().unwrap(), standby.port(), primary.port());
    let places = format!("127.0.0.1:{nobody},127.0.0.1:{first},127.0.0.1:{second}");
    let url = url.replace(&format!("127.0.0.1:{second}"), &places);
    let hosts = Hosts::parse(&url.replace("holdfast@", "holdfast:s3cr3t@")).unwrap();
    assert_eq!(port(&mut hosts.connect().await.unwrap()).await, second);

    primary.process().kill().await.unwrap();
    let said = refusal(&hosts).await;
    for part in [
        "no host takes writes",
        &format!("127.0.0.1:{nobody}: "),
        &format!("127.0.0.1:{first}: it is a standby"),
        &format!("127.0.0.1:{second}: "),
        "refused",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(!said.contains("s3cr3t"), "{said}");

    standby.promote().await.unwrap();
    assert_eq!(port(&mut hosts.connect().await.unwrap()).await, first);
}

#[tokio::test]
async fn a_host_that_is_silent_costs_little_and_once() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    let proxy = Proxy::before(server.port()).await.unwrap();
    proxy.hold(holdfast_testkit::Way::ToClient);
    let place = format!("127.0.0.1:{}", server.port());
    let url = url.replace(&place, &format!("{},{place}", proxy.address()));
    let hosts = Hosts::parse(&url).unwrap();
    // Given up half-way, as by a request with a limit of its own: the next one begins with the other host.
    let hurried = tokio::time::timeout(Duration::from_millis(100), hosts.connect()).await;
    assert!(hurried.is_err());
    proxy.refuse().await;
    assert_eq!(port(&mut hosts.connect().await.unwrap()).await, server.port());
}

#[tokio::test]
async fn settings_are_in_force_and_the_server_is_read_only_or_not() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let hosts = Hosts::parse(&url).unwrap().with_settings([("statement_timeout", "2000ms")]);
    let mut session = hosts.connect().await.unwrap();
    let row = session.fetch_one("SHOW statement_timeout").await.unwrap();
    assert_eq!(row.get::<String, _>(0), "2s");
    server.set_read_only(true).await.unwrap();
    let refused = hosts.connect().await.err().unwrap();
    assert!(refused.takes_no_writes(), "{refused}");
    assert!(matches!(refused.faults().next(), Some((_, Fault::ReadOnly))), "{refused}");
    server.set_read_only(false).await.unwrap();
    hosts.connect().await.unwrap();
}

/// The server process that leases are written by; the one that listens never mentions a term.
const WRITER: &str = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast-lease' AND query LIKE '%term%'";

async fn writer(url: &str) -> i32 {
    let mut session = PgConnection::connect(url).await.unwrap();
    session.fetch_one(WRITER).await.unwrap().get(0)
}

/// A session that was good when it began says 25006 later: it is given up, and not used again when its server takes writes again.
#[tokio::test]
async fn a_lease_store_leaves_a_server_that_takes_no_writes() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let lease = name("sweep");
    PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
    let store = PostgresStore::new(&url, quick().request_timeout).unwrap();
    let elector = elector(Box::new(store), "one", &quick());
    let mut events = elector.events();
    let leadership = elector.contend(&lease, Wish::default());
    leadership.elected().await.unwrap();
    let before = writer(&url).await;
    assert_ne!(before, 0);
    server.set_read_only(true).await.unwrap();
    let lost = async {
        while let Some(event) = events.next().await {
            if matches!(event.happening, Happening::Lost(_)) {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, lost).await.unwrap();
    server.set_read_only(false).await.unwrap();
    tokio::time::timeout(SOON, leadership.elected()).await.unwrap().unwrap();
    let after = writer(&url).await;
    assert!(after != 0 && after != before, "{before} {after}");
}

/// They write nothing, so nothing refuses them: they have to ask.
#[tokio::test]
async fn who_listens_or_keeps_a_beacon_leaves_a_server_that_takes_no_writes() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let store = PostgresStore::new(&url, SOON).unwrap();
    let (mut listener, mut beacon) = (store.listener().unwrap(), store.beacon().unwrap());
    listener.connect().await.unwrap();
    beacon.light().await.unwrap();
    listener.check().await.unwrap();
    beacon.check().await.unwrap();
    server.set_read_only(true).await.unwrap();
    eventually(SOON, "the listener to leave", async || match listener.check().await {
        Ok(()) => Err("it stays"),
        Err(_) => Ok(()),
    })
    .await;
    eventually(SOON, "the beacon to go out", async || match beacon.check().await {
        Ok(()) => Err("it is lit"),
        Err(_) => Ok(()),
    })
    .await;
    // What is out stays out.
    server.set_read_only(false).await.unwrap();
    beacon.check().await.unwrap_err();
}

#[tokio::test]
async fn a_session_of_the_lease_store_ends_with_its_life() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
    let looks = async |store: PostgresStore| {
        let mut store = store;
        let mut seen = Vec::new();
        for _ in 0..2 {
            store.look(&[name("any")]).await.unwrap();
            let mut session = Hosts::parse(&url).unwrap().connect().await.unwrap();
            let row = session
                .fetch_one(
                    "SELECT coalesce(max(pid), 0) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'holdfast-lease'",
                )
                .await
                .unwrap();
            seen.push(row.get::<i32, _>(0));
        }
        seen
    };
    let kept = looks(PostgresStore::new(&url, SOON).unwrap()).await;
    assert_eq!(kept[0], kept[1]);
    let brief = PostgresStore::new(&url, SOON).unwrap().with_longest_life(Duration::ZERO);
    let renewed = looks(brief).await;
    assert_ne!(renewed[0], renewed[1]);
}

#[tokio::test]
async fn poolers_that_share_server_processes_are_refused() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    for (mode, size, settings) in [
        (PoolMode::Transaction, 1, ""),
        (PoolMode::Transaction, 20, ""),
        (PoolMode::Transaction, 20, "server_round_robin = 1\nmin_pool_size = 5"),
        (PoolMode::Transaction, 20, "server_round_robin = 1\nmin_pool_size = 2"),
        (PoolMode::Statement, 20, ""),
    ] {
        let pooler = PgBouncer::before(server.port(), mode, size, settings).await.unwrap();
        let hosts = Hosts::parse(&pooler.lead(&url)).unwrap();
        let said = refusal(&hosts).await;
        assert!(said.contains("transaction or statement mode"), "{mode} {size} {settings}: {said}");
        assert!(said.contains("pool_mode to session"), "{said}");
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_keeps_settings_and_wake_ups() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    let pooler = PgBouncer::before(server.port(), PoolMode::Session, 20, "").await.unwrap();
    let url = pooler.lead(&url);
    let hosts = Hosts::parse(&url).unwrap().with_settings([("enable_seqscan", "off")]);
    let mut session = hosts.connect().await.unwrap();
    let row = session.fetch_one("SHOW enable_seqscan").await.unwrap();
    assert_eq!(row.get::<String, _>(0), "off");
    PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
    let mut listener = PostgresStore::new(&url, SOON).unwrap().listener().unwrap();
    listener.connect().await.unwrap();
    listener.check().await.unwrap();
    session.execute("NOTIFY holdfast_lease, 'sweep'").await.unwrap();
    assert_eq!(listener.next().await.unwrap(), name("sweep"));
}

#[tokio::test]
async fn a_pooler_that_is_full_is_named() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    let settings = "query_wait_timeout = 1";
    let pooler = PgBouncer::before(server.port(), PoolMode::Session, 1, settings).await.unwrap();
    let hosts = Hosts::parse(&pooler.lead(&url)).unwrap();
    let kept = hosts.connect().await.unwrap();
    let said = refusal(&hosts).await;
    assert!(said.contains("no server connection left"), "{said}");
    drop(kept);
    eventually(SOON, "a free server connection", async || hosts.connect().await).await;
}

/// Requests that wait for a lost synchronous standby are given up, and so are their sessions.
#[tokio::test]
async fn a_lease_store_leaves_no_sessions_behind_that_wait_for_a_standby() {
    const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'holdfast-lease' AND wait_event = 'SyncRep'";
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
    let mut standby = server.synchronous_standby().await.unwrap();
    let store = PostgresStore::new(&url, quick().request_timeout).unwrap();
    let elector = elector(Box::new(store), "one", &quick());
    let leadership = elector.contend(&name("sweep"), Wish::default());
    leadership.elected().await.unwrap();
    standby.crash().await.unwrap();
    let mut watch = PgConnection::connect(&url).await.unwrap();
    let mut most = 0;
    let began = tokio::time::Instant::now();
    while began.elapsed() < 20 * quick().request_timeout {
        let waiting: i64 = watch.fetch_one(WAITING).await.unwrap().get(0);
        most = most.max(waiting);
        holdfast_testkit::pace(quick().request_timeout / 4).await;
    }
    assert!((1..=3).contains(&most), "{most} sessions wait at once");
    standby.restart().await.unwrap();
    tokio::time::timeout(SOON, leadership.elected()).await.unwrap().unwrap();
}
