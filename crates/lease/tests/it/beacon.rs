//! Beacons on real PostgreSQL: a killed process is followed long before its lease expires, and nothing else passes for a death.
//!
//! The children are this test binary itself, told by the environment to be one.

use std::process::Command;
use std::time::Duration;

use holdfast_lease::row::{Change, Row};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{
    Elector, Error, FullyGuarded, Happening, Leadership, Loss, Options, Standing, Term, Wish,
};
use holdfast_testkit::{Durability, Postgres, Process, Proxy};

use crate::ground::{Ground, SOON, elector, name};

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
        held_by_beacon(&lease, &Ground::Postgres(url)).await;
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

/// Waits until the lease is held with a beacon: one won before it was lit has it noted.
async fn held_by_beacon(lease: &Leadership, ground: &Ground) -> Row {
    lease.elected().await.unwrap();
    ground.row(lease.name(), "a beacon in the row", |row| row.owner.is_some() && row.beacon).await
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
        Self::start_on(Ground::postgres().await, lasts).await
    }

    async fn start_on(ground: Ground, lasts: Duration) -> Self {
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
        ground.renewed(&name("sweep"), 2).await;
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

#[tokio::test]
async fn a_restarted_server_is_nobodys_death() {
    let mut postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = postgres.database().await.unwrap();
    store(&url).apply_schema().await.unwrap();
    let crew = Crew::start_on(Ground::Postgres(url), Duration::from_secs(15)).await;
    // Paused, it cannot light its beacon again, nor let go of its lease because it lost it: all there is to see is that it is gone.
    crew.children[0].pause().unwrap();
    postgres.restart().await.unwrap();
    let why = crew.followed().await;
    assert!(matches!(why, Change::Expired | Change::Unchanged), "{why:?}");
}

#[tokio::test]
async fn a_term_won_before_the_beacon_was_lit_has_it_noted() {
    let ground = Ground::postgres().await;
    let ann = ground.elector("ann", &options(LONG));
    let dark = ann.contend(&name("sweep"), Wish::default());
    let term = dark.elected().await.unwrap();
    let lit = ann.contend_with_beacon(&name("sweep"), Wish::default(), FullyGuarded).unwrap();
    assert_eq!(held_by_beacon(&lit, &ground).await.term, term);
    assert_eq!((dark.term(), lit.term()), (Some(term), Some(term)));
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
    held_by_beacon(&lease, &ground).await;
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
