//! Health, as the wire between an elector and its store fails and is mended.

use std::time::Duration;

use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::redis::{RedisAddress, RedisStore};
use holdfast_lease::{Elector, Happening, Health, Loss, Standing, Store, Wish};
use holdfast_testkit::{Postgres, Proxy, Redis, Way, eventually};
use sqlx::{Connection as _, PgConnection};

use crate::ground::{SOON, elector, name, quick, until};

/// A store behind a wire.
struct Wired {
    wire: Proxy,
    server: Server,
}

enum Server {
    /// Its URL.
    Postgres(String),
    Redis(Box<Redis>),
}

impl Wired {
    async fn postgres() -> Self {
        let postgres = Postgres::shared().await.unwrap();
        let url = postgres.database().await.unwrap();
        PostgresStore::new(&url, SOON).unwrap().apply_schema().await.unwrap();
        let wire = Proxy::before(postgres.port()).await.unwrap();
        Self { wire, server: Server::Postgres(url) }
    }

    async fn redis() -> Self {
        let redis = Box::new(Redis::start().await.unwrap());
        let wire = Proxy::before(redis.port()).await.unwrap();
        Self { wire, server: Server::Redis(redis) }
    }

    fn store(&self, limit: Duration) -> Box<dyn Store> {
        match &self.server {
            Server::Postgres(url) => {
                Box::new(PostgresStore::new(&self.wire.lead(url), limit).unwrap())
            }
            Server::Redis(redis) => {
                let address = RedisAddress::new(self.wire.lead(&redis.url()));
                Box::new(RedisStore::new(address, "lease:", limit).unwrap())
            }
        }
    }

    fn elector(&self, who: &str) -> Elector {
        elector(self.store(quick().request_timeout), who, &quick())
    }

    /// Ends the connections on which wake-ups are told: how many.
    async fn silence(&self) -> i64 {
        match &self.server {
            Server::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                             WHERE datname = current_database() AND query LIKE 'LISTEN%'";
                sqlx::query_scalar(ended).fetch_one(&mut connection).await.unwrap()
            }
            Server::Redis(redis) => {
                redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap().parse().unwrap()
            }
        }
    }
}

/// Both lose their listeners, and cannot have others: they poll, and that is enough to follow.
async fn deaf(store: Wired) {
    let (ann, bob) = (store.elector("ann"), store.elector("bob"));
    let sweep = name("sweep");
    let first = ann.contend(&sweep, Wish::default());
    first.elected().await.unwrap();
    let second = bob.contend(&sweep, Wish::default());
    let mut standing = second.watch();
    standing.wait_for(|standing| matches!(standing, Standing::Following(_))).await.unwrap();
    let healthy = |elector: &Elector| elector.health() == Health::Healthy;
    until("both to be healthy", || healthy(&ann) && healthy(&bob)).await;
    store.wire.refuse().await;
    assert_eq!(store.silence().await, 2, "both were listening");
    let polling = |elector: &Elector| matches!(elector.health(), Health::Degraded(why) if why.contains("polling"));
    until("both to poll", || polling(&ann) && polling(&bob)).await;
    first.step_down(None);
    tokio::time::timeout(SOON, second.elected()).await.unwrap().unwrap();
    store.wire.resume().await;
    until("both to be healthy again", || healthy(&ann) && healthy(&bob)).await;
}

#[tokio::test]
async fn without_wake_ups_from_postgres_it_is_degraded_and_polls() {
    deaf(Wired::postgres().await).await;
}

#[tokio::test]
async fn without_wake_ups_from_redis_it_is_degraded_and_polls() {
    deaf(Wired::redis().await).await;
}

/// The store falls silent: first late, then lost; and everything is well again when it answers.
async fn silent(store: Wired) {
    let ann = store.elector("ann");
    let mut events = ann.events();
    let lease = ann.contend(&name("sweep"), Wish::default());
    let term = lease.elected().await.unwrap();
    until("health", || ann.health() == Health::Healthy).await;
    store.wire.hold(Way::ToClient);
    eventually(SOON, "a late renewal", async || match ann.health() {
        // It may be seen late; what must not be is that it never comes.
        Health::Degraded(_) | Health::Unhealthy(_) => Ok(()),
        Health::Healthy => Err("healthy"),
    })
    .await;
    let gone =
        || matches!(ann.health(), Health::Unhealthy(why) if why.contains("has not answered"));
    until("the deadline to pass", || gone() && !lease.is_leader()).await;
    store.wire.resume().await;
    until("another term", || lease.term().is_some_and(|newer| newer > term)).await;
    until("health again", || ann.health() == Health::Healthy).await;
    let mut lost = Vec::new();
    while let Some(event) = events.next().await {
        match event.happening {
            Happening::Lost(loss) => lost.push((event.term, loss)),
            Happening::Elected if event.term > term => break,
            _ => {}
        }
    }
    assert_eq!(lost.first(), Some(&(term, Loss::Deadline)));
}

#[tokio::test]
async fn a_postgres_that_does_not_answer_is_unhealthy_past_the_deadline() {
    silent(Wired::postgres().await).await;
}

#[tokio::test]
async fn a_redis_that_does_not_answer_is_unhealthy_past_the_deadline() {
    silent(Wired::redis().await).await;
}
