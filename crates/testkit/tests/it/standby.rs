//! A standby takes over with everything that was committed; a proxy and a pooler lead to it.

use holdfast_testkit::{Durability, PgBouncer, PoolMode, Postgres, Proxy};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

#[tokio::test]
async fn a_promoted_standby_has_every_commit() {
    let primary = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = primary.database().await.unwrap();
    let standby = primary.synchronous_standby().await.unwrap();
    let proxy = Proxy::before(primary.port()).await.unwrap();
    let mut session = PgConnection::connect(&proxy.lead(&url)).await.unwrap();
    session.execute("CREATE TABLE thing ()").await.unwrap();
    proxy.lead_to(standby.port());
    session.execute("SELECT 1").await.unwrap_err();
    let mut session = PgConnection::connect(&proxy.lead(&url)).await.unwrap();
    session.execute("SELECT FROM thing").await.unwrap();
    let refused = session.execute("CREATE TABLE other ()").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "25006");
    primary.process().kill().await.unwrap();
    standby.promote().await.unwrap();
    session.execute("CREATE TABLE other ()").await.unwrap();
}

#[tokio::test]
async fn a_pooler_shares_or_keeps_server_processes() {
    let server = Postgres::shared().await.unwrap();
    let url = server.database().await.unwrap();
    for (mode, shared) in [(PoolMode::Session, false), (PoolMode::Transaction, true)] {
        let pooler = PgBouncer::before(server.port(), mode, 5, "").await.unwrap();
        let mut processes = Vec::new();
        let options: PgConnectOptions = pooler.lead(&url).parse().unwrap();
        let options = options.extra_float_digits(None);
        let mut sessions = Vec::new();
        for _ in 0..2 {
            let mut session = PgConnection::connect_with(&options).await.unwrap();
            let row = session.fetch_one("SELECT pg_backend_pid()").await.unwrap();
            processes.push(row.get::<i32, _>(0));
            sessions.push(session);
        }
        assert_eq!(processes[0] == processes[1], shared, "{mode}: {processes:?}");
    }
}
