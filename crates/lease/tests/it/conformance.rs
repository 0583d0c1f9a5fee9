//! The conformance suite on the stores; on Redis in its several guises in `redis.rs`.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_lease::conformance::{Harness, OpenGuard, run};
use holdfast_lease::identity::{Incarnation, Name, Term};
use holdfast_lease::store::postgres::PostgresStore;
use holdfast_lease::store::sqlite::SqliteStore;
use holdfast_lease::store::{MemoryStore, Store};
use holdfast_testkit::{Postgres, Scratch};
use sqlx::{Connection as _, PgConnection};

const LIMIT: Duration = Duration::from_secs(10);

async fn check(harness: &dyn Harness) {
    let failures = run(harness).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

struct InMemory(MemoryStore);

#[async_trait]
impl Harness for InMemory {
    async fn store(&self) -> Box<dyn Store> {
        Box::new(self.0.clone())
    }
}

#[tokio::test]
async fn memory_conforms() {
    check(&InMemory(MemoryStore::new())).await;
}

struct InPostgres(String);

#[async_trait]
impl Harness for InPostgres {
    async fn store(&self) -> Box<dyn Store> {
        Box::new(PostgresStore::new(&self.0, LIMIT).unwrap())
    }

    async fn guard(
        &self,
        name: &Name,
        incarnation: Incarnation,
        term: Term,
    ) -> Option<Box<dyn OpenGuard>> {
        let mut connection = PgConnection::connect(&self.0).await.unwrap();
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        let held = sqlx::query(
            "SELECT FROM lease WHERE name = $1 AND term = $2 AND incarnation = $3 \
             AND expires_at > clock_timestamp() FOR KEY SHARE",
        );
        let held = held.bind(name.as_str()).bind(term.number()).bind(incarnation.as_uuid());
        let held = held.fetch_optional(&mut connection).await.unwrap();
        held.map(|_| Box::new(OpenTransaction(connection)) as Box<dyn OpenGuard>)
    }
}

struct OpenTransaction(PgConnection);

#[async_trait]
impl OpenGuard for OpenTransaction {
    async fn commit(mut self: Box<Self>) {
        sqlx::query("COMMIT").execute(&mut self.0).await.unwrap();
    }
}

#[tokio::test]
async fn postgres_conforms() {
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    PostgresStore::new(&url, LIMIT).unwrap().apply_schema().await.unwrap();
    check(&InPostgres(url)).await;
}

struct InSqlite(PathBuf);

#[async_trait]
impl Harness for InSqlite {
    async fn store(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::new(&self.0, LIMIT))
    }
}

#[tokio::test]
async fn sqlite_conforms() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.path().join("leases.db");
    SqliteStore::new(&file, LIMIT).apply_schema().await.unwrap();
    check(&InSqlite(file)).await;
}
