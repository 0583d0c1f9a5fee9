//! Crashes seen by whoever has only just come: a killed holder is followed at once, a server that recovers is nobody's death.
//!
//! The children are this test binary itself, told by the environment to be one.

use std::process::Command;
use std::time::Duration;

use holdfast_lease::request::{Acquire, Acquired};
use holdfast_lease::row::{Change, StoreTime};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{
    Elector, FullyGuarded, Happening, Holder, Incarnation, Options, Priority, Standing, Store,
    Term, Wish,
};
use holdfast_testkit::{Durability, Postgres, Process, eventually};
use sqlx::{Connection as _, PgConnection};

use crate::ground::{Ground, SOON, name};

/// Where a child finds its leases.
const DATABASE: &str = "HOLDFAST_LEASE_TEST_CRASH";

#[expect(clippy::disallowed_methods, reason = "how a test tells its child that it is one")]
fn told(what: &str) -> Option<String> {
    std::env::var(what).ok()
}

/// The longest interval that a lease of this length allows: the holder does not renew while the test runs.
fn options() -> Options {
    Options::with_lease(SOON, SOON / 3)
}

/// Not a test by itself: what the children of the test below run.
#[tokio::test]
async fn child() {
    let Some(url) = told(DATABASE) else { return };
    let options = options();
    let store = PostgresStore::new(&url, options.request_timeout).unwrap();
    let elector = Elector::start(store, &options).unwrap();
    let mut events = elector.events();
    let lease = elector.contend_with_beacon(&name("sweep"), Wish::default(), FullyGuarded).unwrap();
    let mut standing = lease.watch();
    tokio::spawn(async move {
        let owned = |standing: &Standing| matches!(standing, Standing::Following(row) if row.owner.is_some());
        standing.wait_for(owned).await.unwrap();
        println!("following");
    });
    while let Some(event) = events.next().await {
        if event.happening == Happening::Elected {
            println!("elected {}", event.term);
        }
    }
}

fn start(who: &str, url: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["crash::child", "--exact", "--nocapture"]).env(DATABASE, url);
    Process::spawn(who, &command).unwrap()
}

/// How it ends does not depend on how long it takes: whoever waits for the lease to expire says so in the history.
#[tokio::test]
async fn a_holder_killed_before_it_renews_is_followed_by_one_who_has_just_come() {
    let ground = Ground::postgres().await;
    let Ground::Postgres(url) = &ground else { panic!("not PostgreSQL") };
    let ann = start("ann", url);
    let held = ground.row(&name("sweep"), "a lit beacon", |row| row.beacon).await;
    let bob = start("bob", url);
    bob.wait_for_line(SOON, |line| line == "following").await.unwrap();
    ann.kill().await.unwrap();
    let next = format!("elected {}", held.term.next());
    bob.wait_for_line(SOON * 2, |line| line == next).await.unwrap();
    assert_eq!(ground.history(&name("sweep")).await[0].change, Change::BeaconGone);
}

fn request(who: &str) -> Acquire {
    Acquire {
        name: name("sweep"),
        holder: Holder::new(who).unwrap(),
        incarnation: Incarnation::random(),
        priority: Priority(0),
        ttl: SOON * 5,
        above: Term::NONE,
        unchanged: None,
        beacon: true,
        not_after: StoreTime::from_micros(i64::MAX / 4),
    }
}

/// Kills a process of the server, which ends all sessions and starts all processes but the first anew.
async fn crash_within(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
    let writer: i32 = sqlx::query_scalar(writer).fetch_one(&mut connection).await.unwrap();
    let killed = Command::new("kill").args(["-KILL", &writer.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[tokio::test]
async fn a_server_that_recovers_from_a_crash_is_nobodys_death() {
    let postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = postgres.database().await.unwrap();
    let store = || PostgresStore::new(&url, Duration::from_secs(10)).unwrap();
    let (mut ann, mut bob) = (store(), store());
    ann.apply_schema().await.unwrap();
    let (mut lamp, mut other) = (ann.beacon().unwrap(), bob.beacon().unwrap());
    lamp.light().await.unwrap();
    let granted = ann.acquire(&request("ann")).await.unwrap().answer;
    assert!(matches!(&granted, Acquired::Granted(row) if row.beacon), "{granted:?}");
    crash_within(&url).await;
    lamp.ended().await;
    // Whoever comes sees no lock, and the same server.
    eventually(SOON, "a beacon", async || other.light().await).await;
    let looked = eventually(SOON, "a look", async || bob.look(&[name("sweep")]).await).await;
    assert!(!looked.answer[0].1, "a recovery counts as a death");
    let refused = bob.acquire(&request("bob")).await.unwrap().answer;
    assert!(matches!(refused, Acquired::Refused(Some(_))), "{refused:?}");
}
