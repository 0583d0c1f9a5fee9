//! What the children run: this test binary itself, told by the environment to be one.
//!
//! A child contends for one lease, and counts in a database while it leads. Nothing stops the counting but a refusal: its
//! writes come however late. It says what it sees, one line each.

use std::time::{Duration, SystemTime};

use holdfast_lease::clock::{BootClock, Clock as _, Moment};
use holdfast_lease::fence::Registered;
use holdfast_lease::fence::postgres::{guard, guard_registered};
use holdfast_lease::store::Store;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::{
    Elector, Error, Holder, Leadership, Name, Options, StoreError, Term, Token, Wish,
};

use sqlx::{Connection as _, PgConnection};

/// Where the leases are; PostgreSQL or Redis by its scheme.
pub(super) const LEASES: &str = "HOLDFAST_LEASE_TEST_LEASES";
/// Where it counts.
pub(super) const DATABASE: &str = "HOLDFAST_LEASE_TEST_DATABASE";
/// How long a lease lasts, in milliseconds.
pub(super) const LASTS: &str = "HOLDFAST_LEASE_TEST_LASTS";

#[expect(clippy::disallowed_methods, reason = "how a test tells its child that it is one")]
fn told(what: &str) -> Option<String> {
    std::env::var(what).ok()
}

#[derive(Clone)]
struct Task {
    leases: String,
    database: String,
    options: Options,
}

impl Task {
    fn told() -> Option<Self> {
        let (leases, database) = (told(LEASES)?, told(DATABASE)?);
        let lasts = Duration::from_millis(told(LASTS)?.parse().unwrap());
        Some(Self { leases, database, options: Options::with_lease(lasts, lasts / 3) })
    }

    fn in_redis(&self) -> bool {
        self.leases.starts_with("redis")
    }

    fn store(&self) -> Box<dyn Store> {
        let limit = self.options.request_timeout;
        if !self.in_redis() {
            return Box::new(PostgresStore::new(&self.leases, limit).unwrap());
        }
        let address = RedisAddress { weak_store: true, ..RedisAddress::new(&self.leases) };
        let store = RedisStore::new(address, &self.options.key_prefix, limit).unwrap();
        Box::new(Registered::new(store, &self.database, limit).unwrap())
    }
}

/// Not a test by itself: what the children of the tests beside this run.
#[tokio::test]
async fn child() {
    let Some(task) = Task::told() else { return };
    tokio::spawn(watch_the_clock());
    let holder = Holder::unique();
    let clock = std::sync::Arc::new(BootClock);
    let elector = Elector::start_as(task.store(), &task.options, holder, clock).unwrap();
    let lease = elector.contend(&Name::new("counter").unwrap(), Wish::default());
    tokio::spawn(watch_belief(lease.clone()));
    lease
        .run_while_leader(|work| {
            let (task, lease, token) = (task.clone(), lease.clone(), work.token().clone());
            async move {
                println!("elected {}", token.term);
                // Not supervised: it writes until it is refused, however late.
                tokio::spawn(count(task, lease, token));
                work.cancelled().await;
            }
        })
        .await;
}

/// Counts, reading and writing apart: right only if nobody else does in between.
async fn count(task: Task, lease: Leadership, token: Token) {
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        if let Err(Error::Fenced { term, .. }) = count_once(&task, &token).await {
            println!("refused {term}");
            // Refused while it leads: the store's clock was stepped, and the next renewal mends that.
            if lease.term() != Some(term) {
                return;
            }
        }
    }
}

async fn count_once(task: &Task, token: &Token) -> Result<(), Error> {
    let failed = |error| StoreError::new("counting", error);
    let mut connection = PgConnection::connect(&task.database).await.map_err(failed)?;
    let limit = task.options.lease_duration / 3;
    let mut transaction = if task.in_redis() {
        guard_registered(&mut connection, token, limit).await?
    } else {
        guard(&mut connection, token, limit).await?
    };
    let value: i64 = sqlx::query_scalar("SELECT value FROM counter")
        .fetch_one(&mut *transaction)
        .await
        .map_err(failed)?;
    let written = sqlx::query("UPDATE counter SET value = $1").bind(value + 1);
    written.execute(&mut *transaction).await.map_err(failed)?;
    let logged = sqlx::query("INSERT INTO written (term) VALUES ($1)").bind(token.term.number());
    logged.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(())
}

/// Says from when and until when this process believed that it leads, on the clock that all processes of a machine share. What is
/// said lies within what was believed: two that overlap are two leaders.
async fn watch_belief(lease: Leadership) {
    let mut led: Option<(Term, Moment)> = None;
    let mut pace = tokio::time::interval(Duration::from_millis(2));
    loop {
        pace.tick().await;
        let before = BootClock.now();
        let term = lease.term();
        let after = BootClock.now();
        if let Some((old, last)) = led.filter(|(old, _)| Some(*old) != term) {
            println!("led {old} until {}", last.as_nanos());
        }
        if let Some(term) = term
            && led.is_none_or(|(old, _)| old != term)
        {
            println!("leads {term} from {}", after.as_nanos());
        }
        led = term.map(|term| (term, before));
    }
}

/// Says when the wall clock was stepped, in seconds.
async fn watch_the_clock() {
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let mut offset = wall_less_boot();
    loop {
        pace.tick().await;
        let now = wall_less_boot();
        if (now - offset).abs() > 60 {
            println!("clock stepped by {}", now - offset);
            offset = now;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the very clock that the test steps")]
fn wall_less_boot() -> i64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let boot = BootClock.now().as_nanos() / 1_000_000_000;
    wall.cast_signed() - boot.cast_signed()
}
