//! Beacons on real PostgreSQL: a killed process is followed long before its lease expires, and nothing else passes for a death.
//!
//! The children are this test binary itself, told by the environment to be one.

use std::process::Command;
use std::time::Duration;

use holdfast_lease::request::{Acquire, Acquired};
use holdfast_lease::row::{Change, Row, StoreTime};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{
    Elector, Error, FullyGuarded, Happening, Health, Holder, Incarnation, Leadership, Loss,
    Options, Priority, Standing, Store, Term, Wish,
};
use holdfast_testkit::{Durability, Postgres, Process, Proxy, eventually};

use crate::ground::{Ground, SOON, elector, name, until};

/// Expires long after any test has ended.
const LONG: Duration = Duration::from_secs(300);

/// What a child is told: the database, and how long a lease lasts in milliseconds.
const DATABASE: &str = "HOLDFAST_LEASE_TEST_BEACON";
const LASTS: &str = "HOLDFAST_LEASE_TEST_BEACON_LASTS";
/// Whether it is the one to lead.
const FIRST: &str = "HOLDFAST_LEASE_TEST_BEACON_FIRST";

#[expect(clippy::disallowed_methods, reason = "how a test tells its child that it is one")]
fn told(what: &str) -> Option<String> {
    std::env::var(what).ok()
}

fn options(lasts: Duration) -> Options {
    let request_timeout = Duration::from_secs(10).min(lasts / 10);
    // Whoever let go contends again soon.
    let reservation = Duration::from_millis(100);
    Options { request_timeout, reservation, ..Options::with_lease(lasts, Duration::from_secs(1)) }
}

/// Not a test by itself: what the children of the tests below run.
#[tokio::test]
async fn child() {
    let (Some(url), Some(lasts)) = (told(DATABASE), told(LASTS)) else { return };
    let options = options(Duration::from_millis(lasts.parse().unwrap()));
    let store = PostgresStore::new(&url, options.request_timeout).unwrap();
    let elector = Elector::start(store, &options).unwrap();
    let mut events = elector.events();
    let lease = elector.contend_with_beacon(&name("sweep"), Wish::default(), FullyGuarded).unwrap();
    if told(FIRST).is_some() {
        held_by_beacon(&elector, &lease, &Ground::Postgres(url)).await;
        println!("leading");
    }
    let mut standing = lease.watch();
    tokio::spawn(async move {
        standing.wait_for(|standing| matches!(standing, Standing::Following(_))).await.unwrap();
        println!("following");
    });
    while let Some(event) = events.next().await {
        if event.happening == Happening::Elected {
            println!("elected {}", event.term);
        }
    }
}

/// Waits until the lease is held with a beacon: on a busy machine the first term may have been won in the dark.
async fn held_by_beacon(elector: &Elector, lease: &Leadership, ground: &Ground) {
    loop {
        let term = lease.elected().await.unwrap();
        let row = ground.row(lease.name(), "an owner", |row| row.owner.is_some()).await;
        if row.beacon {
            return;
        }
        until("a lit beacon", || elector.health() == Health::Healthy).await;
        lease.step_down(None);
        until("another term", || lease.term().is_some_and(|newer| newer > term)).await;
    }
}

struct Crew {
    ground: Ground,
    children: Vec<Process>,
    /// The term in which the first of them leads.
    term: Term,
}

impl Crew {
    /// Two processes: the first leads, the second has seen it renew.
    async fn start(lasts: Duration) -> Self {
        let ground = Ground::postgres().await;
        let Ground::Postgres(url) = &ground else { panic!("not PostgreSQL") };
        let child = |index: usize| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["beacon::child", "--exact", "--nocapture"]);
            command.env(DATABASE, url).env(LASTS, lasts.as_millis().to_string());
            if index == 0 {
                command.env(FIRST, "yes");
            }
            Process::spawn(&format!("child {index}"), &command).unwrap()
        };
        let leader = child(0);
        leader.wait_for_line(SOON, |line| line == "leading").await.unwrap();
        let follower = child(1);
        follower.wait_for_line(SOON, |line| line == "following").await.unwrap();
        let seen = ground.row(&name("sweep"), "a beacon in the row", |row| row.beacon).await;
        let later = |row: &Row| row.beat > seen.beat + 1;
        ground.row(&name("sweep"), "two renewals", later).await;
        Self { ground, children: vec![leader, follower], term: seen.term }
    }

    /// Why the lease changed hands, once it has.
    async fn followed(&self) -> Change {
        let elected = format!("elected {}", self.term.next());
        self.children[1].wait_for_line(SOON, |line| line == elected).await.unwrap();
        self.ground.history(&name("sweep")).await[0].change
    }
}

#[tokio::test]
async fn a_killed_holder_is_followed_long_before_its_lease_expires() {
    let crew = Crew::start(LONG).await;
    crew.children[0].kill().await.unwrap();
    assert_eq!(crew.followed().await, Change::BeaconGone);
}

#[tokio::test]
async fn a_paused_holder_keeps_its_lease_until_it_expires() {
    let crew = Crew::start(Duration::from_secs(12)).await;
    crew.children[0].pause().unwrap();
    let why = crew.followed().await;
    assert!(matches!(why, Change::Expired | Change::Unchanged), "{why:?}");
}

fn request(who: &str) -> Acquire {
    Acquire {
        name: name("sweep"),
        holder: Holder::new(who).unwrap(),
        incarnation: Incarnation::random(),
        priority: Priority(0),
        ttl: LONG,
        above: Term::NONE,
        unchanged: None,
        beacon: true,
        not_after: StoreTime::from_micros(i64::MAX / 4),
    }
}

#[tokio::test]
async fn a_restarted_server_is_nobodys_death() {
    let mut postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = postgres.database().await.unwrap();
    let (mut ann, mut bob) = (store(&url), store(&url));
    ann.apply_schema().await.unwrap();
    let (mut lamp, mut other) = (ann.beacon().unwrap(), bob.beacon().unwrap());
    lamp.light().await.unwrap();
    other.light().await.unwrap();
    bob.look(&[]).await.unwrap();
    let granted = ann.acquire(&request("ann")).await.unwrap().answer;
    assert!(matches!(&granted, Acquired::Granted(row) if row.beacon), "{granted:?}");
    postgres.restart().await.unwrap();
    lamp.ended().await;
    other.ended().await;
    // Whoever comes back sees no lock, and must not take that for a death.
    eventually(SOON, "a new beacon", async || other.light().await).await;
    let looked = eventually(SOON, "a look", async || bob.look(&[name("sweep")]).await).await;
    assert!(!looked.answer[0].1, "a restart counts as a death");
    let refused = bob.acquire(&request("bob")).await.unwrap().answer;
    assert!(matches!(refused, Acquired::Refused(Some(_))), "{refused:?}");
}

fn store(url: &str) -> PostgresStore {
    PostgresStore::new(url, Duration::from_secs(10)).unwrap()
}

#[tokio::test]
async fn a_holder_whose_connection_is_cut_is_lost_at_once() {
    let postgres = Postgres::shared().await.unwrap();
    let url = postgres.database().await.unwrap();
    store(&url).apply_schema().await.unwrap();
    let wire = Proxy::before(postgres.port()).await.unwrap();
    let options = options(LONG);
    let ann = elector(Box::new(store(&wire.lead(&url))), "ann", &options);
    let mut events = ann.events();
    let sweep = name("sweep");
    let lease = ann.contend_with_beacon(&sweep, Wish::default(), FullyGuarded).unwrap();
    let ground = Ground::Postgres(url);
    held_by_beacon(&ann, &lease, &ground).await;
    wire.cut();
    let lost = async {
        loop {
            match events.next().await.unwrap().happening {
                Happening::Lost(loss) => return loss,
                _ => continue,
            }
        }
    };
    let loss = tokio::time::timeout(SOON, lost).await.unwrap();
    assert_eq!(loss, Loss::BeaconLost);
}

#[tokio::test]
async fn a_store_without_beacons_says_so() {
    let ann = Ground::memory().await.elector("ann", &Options::default());
    let asked = ann.contend_with_beacon(&name("sweep"), Wish::default(), FullyGuarded);
    assert!(matches!(asked, Err(Error::NoBeacon)));
}

#[tokio::test]
async fn nobody_waits_for_a_lock() {
    let crew = Crew::start(LONG).await;
    let Ground::Postgres(url) = &crew.ground else { panic!("not PostgreSQL") };
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap();
    for _ in 0..50 {
        let waiting =
            sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_locks WHERE NOT granted");
        assert_eq!(waiting.fetch_one(&mut connection).await.unwrap(), 0);
    }
}
