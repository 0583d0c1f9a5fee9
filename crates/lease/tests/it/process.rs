//! Real processes, really killed, paused and cut off from their store. A fenced counter must end exactly right each time.
//!
//! The children are this test binary itself, told by the environment to be one.

use std::process::Command;
use std::time::Duration;

use holdfast_lease::fence::postgres::guard;
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::{Elector, Name, Options, Token, Wish};
use holdfast_testkit::{Durability, Postgres, Process, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection};

const SOON: Duration = Duration::from_secs(30);
const DATABASE: &str = "HOLDFAST_LEASE_TEST_DATABASE";

fn options() -> Options {
    Options::with_lease(Duration::from_millis(1_500), Duration::from_millis(500))
}

#[expect(clippy::disallowed_methods, reason = "how a test tells its child that it is one")]
fn told() -> Option<String> {
    std::env::var(DATABASE).ok()
}

/// Not a test by itself: what the children of the tests below run.
#[tokio::test]
async fn child() {
    let Some(url) = told() else { return };
    let options = options();
    let store = PostgresStore::new(&url, options.request_timeout).unwrap();
    let elector = Elector::start(store, &options).unwrap();
    let lease = elector.contend(&Name::new("counter").unwrap(), Wish::default());
    lease
        .run_while_leader(|work| {
            let (url, token) = (url.clone(), work.token().clone());
            async move {
                println!("elected {}", token.term);
                // Not supervised: it writes until it is refused, however late.
                tokio::spawn(count(url, token));
                work.cancelled().await;
            }
        })
        .await;
}

/// Counts, reading and writing apart: right only if nobody else does in between.
async fn count(url: String, token: Token) {
    loop {
        match count_once(&url, &token).await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(holdfast_lease::Error::Fenced { term, .. }) => return println!("refused {term}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn count_once(url: &str, token: &Token) -> Result<(), holdfast_lease::Error> {
    let failed = |error| holdfast_lease::StoreError::new("counting", error);
    let mut connection = PgConnection::connect(url).await.map_err(failed)?;
    let mut transaction = guard(&mut connection, token, Duration::from_millis(500)).await?;
    let value: i64 = sqlx::query_scalar("SELECT value FROM counter")
        .fetch_one(&mut *transaction)
        .await
        .map_err(failed)?;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let written = sqlx::query("UPDATE counter SET value = $1").bind(value + 1);
    written.execute(&mut *transaction).await.map_err(failed)?;
    let logged = sqlx::query("INSERT INTO written (term) VALUES ($1)").bind(token.term.number());
    logged.execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(())
}

struct Cluster {
    url: String,
    children: Vec<Process>,
}

impl Cluster {
    async fn start(postgres: &Postgres, environment: &[(&str, &str)]) -> Self {
        let url = postgres.database().await.unwrap();
        PostgresStore::new(&url, Duration::from_secs(5)).unwrap().apply_schema().await.unwrap();
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let tables = "CREATE TABLE counter (value bigint NOT NULL); INSERT INTO counter VALUES (0); \
                      CREATE TABLE written (id bigint GENERATED ALWAYS AS IDENTITY, term bigint NOT NULL)";
        connection.execute(tables).await.unwrap();
        let children = (0..3).map(|index| Self::child(&url, index, environment)).collect();
        Self { url, children }
    }

    fn child(url: &str, index: usize, environment: &[(&str, &str)]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process::child", "--exact", "--nocapture"]).env(DATABASE, url);
        // One of them lives in another time.
        if index == 0 {
            command.envs(environment.iter().copied());
        }
        Process::spawn(&format!("child {index}"), &command).unwrap()
    }

    /// The term in which something was last written.
    async fn term(&self) -> Result<i64, String> {
        let told = |error: sqlx::Error| error.to_string();
        let mut connection = PgConnection::connect(&self.url).await.map_err(told)?;
        let term = sqlx::query_scalar("SELECT coalesce(max(term), 0) FROM written");
        term.fetch_one(&mut connection).await.map_err(told)
    }

    async fn written_above(&self, term: i64) -> i64 {
        eventually(SOON, "a write in a newer term", async || match self.term().await {
            Ok(newer) if newer > term => Ok(newer),
            other => Err(format!("{other:?}")),
        })
        .await
    }

    fn leader(&self, term: i64) -> usize {
        let line = format!("elected {term}");
        let elected = |child: &Process| child.log().lines().any(|logged| logged == line);
        self.children.iter().position(elected).unwrap()
    }

    async fn replace(&mut self, index: usize) {
        self.children[index] = Self::child(&self.url, index, &[]);
    }

    /// What was counted is what was written, and terms never fell.
    async fn check(&self) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let (value, rows, fallen): (i64, i64, i64) = sqlx::query_as(
            "SELECT (SELECT value FROM counter), count(*), count(*) FILTER (WHERE term < highest) \
             FROM (SELECT term, max(term) OVER (ORDER BY id) AS highest FROM written) AS w",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        assert!(rows > 0, "nothing was written");
        assert_eq!(value, rows, "a write was lost");
        assert_eq!(fallen, 0, "a write under an old term came after a newer one");
    }
}

#[tokio::test]
async fn a_killed_leader_is_followed_and_a_paused_one_is_refused_when_it_wakes() {
    let postgres = Postgres::shared().await.unwrap();
    let mut cluster = Cluster::start(postgres, &[]).await;
    let mut term = cluster.written_above(0).await;
    for _ in 0..2 {
        let leader = cluster.leader(term);
        cluster.children[leader].kill().await.unwrap();
        term = cluster.written_above(term).await;
        cluster.replace(leader).await;
    }
    let paused = cluster.leader(term);
    cluster.children[paused].pause().unwrap();
    let newer = cluster.written_above(term).await;
    cluster.children[paused].resume().unwrap();
    let refused = format!("refused {term}");
    let line = cluster.children[paused].wait_for_line(SOON, |line| line == refused).await;
    line.unwrap();
    assert_eq!(cluster.term().await.unwrap(), newer, "the sleeper wrote");
    cluster.check().await;
}

#[tokio::test]
async fn a_restarted_postgres_finds_its_leader_again() {
    let mut postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let cluster = Cluster::start(&postgres, &[]).await;
    cluster.written_above(0).await;
    postgres.restart().await.unwrap();
    let before = rows(&cluster).await;
    eventually(SOON, "writes after the restart", async || match rows(&cluster).await {
        after if after > before => Ok(()),
        same => Err(same),
    })
    .await;
    cluster.check().await;
}

async fn rows(cluster: &Cluster) -> i64 {
    let mut connection = PgConnection::connect(&cluster.url).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM written").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn a_client_whose_clock_was_stepped_is_like_any_other() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    assert!(std::path::Path::new(library).exists(), "libfaketime is missing: ./dev setup");
    let postgres = Postgres::shared().await.unwrap();
    let environment = [("LD_PRELOAD", library), ("FAKETIME", "+1h"), ("DONT_FAKE_MONOTONIC", "1")];
    let cluster = Cluster::start(postgres, &environment).await;
    let mut term = cluster.written_above(0).await;
    // Only the one in another time is left.
    for index in [1, 2] {
        cluster.children[index].kill().await.unwrap();
    }
    if cluster.children[0].log().lines().all(|line| line != format!("elected {term}")) {
        term = cluster.written_above(term).await;
    }
    assert_eq!(cluster.leader(term), 0);
    cluster.check().await;
}
