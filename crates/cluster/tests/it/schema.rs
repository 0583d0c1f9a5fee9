//! The store ships the tables of leases in its own migrations: they are those the lease crate means.

use holdfast_lease::store::{postgres, sqlite};
use holdfast_testkit::Postgres;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection,
};

async fn columns(connection: &mut PgConnection) -> Vec<String> {
    let rows = connection
        .fetch_all(
            "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable AS line
             FROM information_schema.columns WHERE table_name LIKE 'lease%'
             UNION ALL SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'lease%' ORDER BY 1",
        )
        .await
        .unwrap();
    rows.iter().map(|row| row.try_get("line").unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let server = Postgres::shared().await.unwrap();
    let (ours, theirs) = (server.database().await.unwrap(), server.database().await.unwrap());
    holdfast_store::migrate(&ours).await.unwrap();
    let mut ours = PgConnection::connect(&ours).await.unwrap();
    let mut theirs = PgConnection::connect(&theirs).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(postgres::SCHEMA)).execute(&mut theirs).await.unwrap();
    assert_eq!(columns(&mut ours).await, columns(&mut theirs).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite() {
    let scratch = holdfast_testkit::Scratch::new().unwrap();
    let file = scratch.path().join("holdfast.db");
    holdfast_store::migrate(&format!("sqlite:{}", file.display())).await.unwrap();
    let url = format!("sqlite:{}", file.display());
    let mut ours = SqliteConnection::connect(&url).await.unwrap();
    let mut theirs = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sqlite::SCHEMA)).execute(&mut theirs).await.unwrap();
    let mut told = Vec::new();
    for connection in [&mut ours, &mut theirs] {
        let query = "SELECT sql FROM sqlite_master WHERE tbl_name LIKE 'lease%' AND sql IS NOT NULL ORDER BY name";
        let rows = connection.fetch_all(query).await.unwrap();
        told.push(rows.iter().map(|row| row.try_get("sql").unwrap()).collect::<Vec<String>>());
    }
    assert_eq!(told[0], told[1]);
}
