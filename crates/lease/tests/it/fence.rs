//! Fencing at its three depths, on real servers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_lease::fence::postgres::{guard, guard_registered};
use holdfast_lease::fence::{Registered, tokio_postgres as guard_by_tokio};
use holdfast_lease::request::{Acquire, Acquired, Force};
use holdfast_lease::row::{Row, StoreTime};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::{Error, Holder, Incarnation, Name, Priority, Store, Term, Token};
use holdfast_testkit::{Faketime, Postgres, Redis, eventually};
use sqlx::{Connection as _, PgConnection};

const LIMIT: Duration = Duration::from_secs(5);

async fn database() -> String {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    PostgresStore::new(&url, LIMIT).unwrap().apply_schema().await.unwrap();
    url
}

fn request(name: &Name, incarnation: Incarnation, ttl: Duration) -> Acquire {
    Acquire {
        name: name.clone(),
        holder: Holder::unique(),
        incarnation,
        priority: Priority(0),
        ttl,
        above: Term::NONE,
        unchanged: None,
        beacon: false,
        not_after: StoreTime::from_micros(i64::MAX),
    }
}

async fn acquire(store: &mut impl Store, request: &Acquire) -> (Token, Row) {
    match store.acquire(request).await.unwrap().answer {
        Acquired::Granted(row) => {
            let (name, incarnation) = (request.name.clone(), request.incarnation);
            (Token { name, term: row.term, incarnation }, row)
        }
        other => panic!("{other:?}"),
    }
}

/// Acquires a lease as soon as its holder's time is up.
async fn take_over(store: &mut PostgresStore, name: &Name) -> Token {
    let request = request(name, Incarnation::random(), LIMIT);
    eventually(LIMIT * 6, "the lease to expire", async || {
        match store.acquire(&request).await.unwrap().answer {
            Acquired::Granted(row) => {
                Ok(Token { name: name.clone(), term: row.term, incarnation: request.incarnation })
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_guarded_transaction_is_refused_after_a_forced_release() {
    let url = database().await;
    let mut store = PostgresStore::new(&url, LIMIT).unwrap();
    let name = Name::new("sweep").unwrap();
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), LIMIT)).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    guard(&mut connection, &token, LIMIT).await.unwrap().commit().await.unwrap();
    store.force(&Force { name, note: "test".to_owned() }).await.unwrap();
    let refused = guard(&mut connection, &token, LIMIT).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })));
}

#[tokio::test]
async fn the_guard_works_for_tokio_postgres_too() {
    let url = database().await;
    let mut store = PostgresStore::new(&url, LIMIT).unwrap();
    let name = Name::new("sweep").unwrap();
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), LIMIT)).await;
    let (mut client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = client.transaction().await.unwrap();
    guard_by_tokio::guard(&transaction, &token, LIMIT).await.unwrap();
    transaction.commit().await.unwrap();
    let stranger = Token { incarnation: Incarnation::random(), ..token };
    let transaction = client.transaction().await.unwrap();
    let refused = guard_by_tokio::guard(&transaction, &stranger, LIMIT).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })));
}

#[tokio::test]
async fn sixteen_overlapping_guards_of_a_lost_holder_do_not_hold_up_the_takeover() {
    let url = database().await;
    let mut store = PostgresStore::new(&url, LIMIT).unwrap();
    let name = Name::new("sweep").unwrap();
    let ttl = Duration::from_millis(900);
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), ttl)).await;
    let mut guards = Vec::new();
    for index in 0..16_u8 {
        let (url, token) = (url.clone(), token.clone());
        guards.push(tokio::spawn(async move {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let mut committed = 0;
            while let Ok(mut open) = guard(&mut connection, &token, ttl / 3).await {
                // Of different lengths, so that there is never a moment without one.
                let work = sqlx::query("SELECT pg_sleep(0.1 + $1 * 0.01)").bind(f64::from(index));
                let worked = work.execute(&mut *open).await.is_ok();
                committed += u32::from(worked && open.commit().await.is_ok());
            }
            committed
        }));
    }
    // Refused until it has expired; then granted within the time limit of one statement, or not at all.
    let newer = take_over(&mut store, &name).await;
    assert_eq!(newer.term, token.term.next());
    let mut committed = 0;
    for guard in guards {
        committed += guard.await.unwrap();
    }
    assert!(committed >= 16, "the guards did not overlap: {committed}");
}

#[tokio::test]
async fn a_paused_guard_is_ended_by_the_server() {
    let url = database().await;
    let mut store = PostgresStore::new(&url, LIMIT).unwrap();
    let name = Name::new("sweep").unwrap();
    let ttl = Duration::from_millis(300);
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), ttl)).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let open = guard(&mut connection, &token, ttl / 3).await.unwrap();
    take_over(&mut store, &name).await;
    assert!(open.commit().await.is_err(), "a paused write was committed after the takeover");
}

#[tokio::test]
async fn a_clock_stepped_forward_ends_the_right_to_write_at_once() {
    let clock = Faketime::new().unwrap();
    let server = Postgres::start_by(&clock).await.unwrap();
    let url = server.database().await.unwrap();
    let mut store = PostgresStore::new(&url, LIMIT).unwrap();
    store.apply_schema().await.unwrap();
    let name = Name::new("sweep").unwrap();
    let ttl = Duration::from_secs(600);
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), ttl)).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    guard(&mut connection, &token, LIMIT).await.unwrap().commit().await.unwrap();
    clock.step(3_600).unwrap();
    let refused = guard(&mut connection, &token, LIMIT).await.err();
    assert!(matches!(refused, Some(Error::Fenced { .. })));
    let newer = take_over(&mut store, &name).await;
    guard(&mut connection, &newer, LIMIT).await.unwrap().commit().await.unwrap();
    // Set right again, the old term stays over.
    clock.step(0).unwrap();
    let refused = guard(&mut connection, &token, LIMIT).await.err();
    assert!(matches!(refused, Some(Error::Fenced { .. })));
}

/// The guard is opened while the server's clock is right. One opened while it runs ahead would not be ended by a server under
/// libfaketime, and by no other: in the signal handler that ends it, libfaketime shows the right time, and the limit, which was
/// reckoned by the clock that runs ahead, seems to lie an hour away.
#[tokio::test]
async fn a_paused_guard_is_ended_by_the_server_though_its_clock_is_stepped_forward() {
    let clock = Faketime::new().unwrap();
    let server = Postgres::start_by(&clock).await.unwrap();
    let url = server.database().await.unwrap();
    let mut store = PostgresStore::new(&url, LIMIT * 6).unwrap();
    store.apply_schema().await.unwrap();
    let name = Name::new("sweep").unwrap();
    let ttl = Duration::from_secs(600);
    let (token, _) = acquire(&mut store, &request(&name, Incarnation::random(), ttl)).await;
    let mut paused = PgConnection::connect(&url).await.unwrap();
    let mut open = guard(&mut paused, &token, Duration::from_secs(2)).await.unwrap();
    let written = sqlx::query("CREATE TABLE written_late (id int)").execute(&mut *open).await;
    written.unwrap();
    clock.step(3_600).unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let refused = guard(&mut connection, &token, LIMIT).await.err();
    assert!(matches!(refused, Some(Error::Fenced { .. })), "the old term is let in: {refused:?}");
    let newer = take_over(&mut store, &name).await;
    assert_eq!(newer.term, token.term.next());
    assert!(open.commit().await.is_err(), "a paused write was committed after the takeover");
    let late = "SELECT count(*) FROM pg_class WHERE relname = 'written_late'";
    let late: i64 = sqlx::query_scalar(late).fetch_one(&mut connection).await.unwrap();
    assert_eq!(late, 0);
    guard(&mut connection, &newer, LIMIT).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_term_lost_by_redis_is_raised_above_what_was_registered() {
    let (url, redis) = (database().await, Redis::start().await.unwrap());
    let store = || RedisStore::new(RedisAddress::new(redis.url()), "lease:", LIMIT).unwrap();
    let mut store = Registered::new(store(), &url, LIMIT).unwrap();
    let raised = store.raised();
    let name = Name::new("sweep").unwrap();
    let (ann, bob) = (Incarnation::random(), Incarnation::random());
    let above = Acquire { above: Term::new(6), ..request(&name, ann, LIMIT) };
    let (old, _) = acquire(&mut store, &above).await;
    assert_eq!(old.term, Term::new(7));
    let mut connection = PgConnection::connect(&url).await.unwrap();
    guard_registered(&mut connection, &old, LIMIT).await.unwrap().commit().await.unwrap();
    redis.ask(&["FLUSHALL"]).await.unwrap();
    let (new, _) = acquire(&mut store, &request(&name, bob, LIMIT)).await;
    assert_eq!(new.term, Term::new(8));
    assert_eq!(raised.load(Ordering::Relaxed), 1);
    let refused = guard_registered(&mut connection, &old, LIMIT).await.err();
    assert!(matches!(refused, Some(Error::Fenced { .. })));
    guard_registered(&mut connection, &new, LIMIT).await.unwrap().commit().await.unwrap();
}
