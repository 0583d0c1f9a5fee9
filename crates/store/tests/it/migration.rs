//! A migration that cannot go on says why: a lock held elsewhere, a role that may not. And what the release before has prepared stays good.

use std::{fs, path::Path, time::Duration};

use holdfast_store::{Error, migrate, missing_rights, tell_waits};
use sqlx::{AssertSqlSafe, Executor as _};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::postgres::{database, number, raw};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_held_elsewhere_is_told_with_its_holder() {
    let url = database().await;
    let mut holder = raw(&url).await;
    holder.execute("SET application_name = 'psql of somebody'").await.unwrap();
    let pid = number(&mut holder, "SELECT pg_backend_pid()::bigint").await;
    holder.execute("SELECT pg_advisory_lock(x'686f6c6466617374'::bigint)").await.unwrap();
    let (sender, mut told) = watch::channel(None::<String>);
    let ours = url.clone();
    let migrating = tokio::spawn(async move { tell_waits(sender, migrate(&ours)).await });
    let said = timeout(SOON, told.wait_for(Option::is_some)).await.unwrap().unwrap().clone();
    let said = said.unwrap();
    for part in [&*format!("pid {pid} "), "psql of somebody", "since", "pg_terminate_backend"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    holder.execute("SELECT pg_advisory_unlock_all()").await.unwrap();
    timeout(SOON, migrating).await.unwrap().unwrap().unwrap();
    assert_eq!(*told.borrow(), None, "the wait is over");
}

/// A role without rights of its own in the database of a URL; the URL as that role.
async fn stranger(url: &str) -> (String, String) {
    let role = format!("r{}", uuid::Uuid::new_v4().simple());
    let mut owner = raw(url).await;
    let make = format!(
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE {role} LOGIN PASSWORD 'hush'"
    );
    owner.execute(AssertSqlSafe(make)).await.unwrap();
    let (head, tail) = url.split_once("://").unwrap();
    let host = tail.split_once('@').map_or(tail, |(_, host)| host);
    (format!("{head}://{role}:hush@{host}"), role)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_create_is_named() {
    let url = database().await;
    let (theirs, role) = stranger(&url).await;
    let refused = migrate(&theirs).await.unwrap_err();
    assert!(matches!(&refused, Error::NoRights(rights) if !rights.may_create), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains(&role) && said.contains("CREATE ON SCHEMA public"), "{said}");
    assert_eq!(missing_rights(&url).await.unwrap(), None);
    migrate(&url).await.unwrap();
    let rights = missing_rights(&theirs).await.unwrap().unwrap();
    assert!(rights.foreign.iter().any(|(table, _)| table == "domain"), "{rights}");
    let mut owner = raw(&url).await;
    let grant = format!("GRANT CREATE ON SCHEMA public TO {role}");
    owner.execute(AssertSqlSafe(grant)).await.unwrap();
    let rights = missing_rights(&theirs).await.unwrap().unwrap();
    assert!(rights.may_create && !rights.foreign.is_empty(), "{rights}");
}

/// The newest step of the release before.
const RELEASED: i64 = 27;

/// Tables that grew although the release before knows them: all its statements name the columns that they give.
const NAMED_BY_COLUMN: [&str; 3] = ["acme_account", "acme_order", "domain"];

/// The schema as the release before left it.
async fn released(url: &str) {
    let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let mut connection = raw(url).await;
    let book = "CREATE TABLE holdfast_migration (version bigint PRIMARY KEY, name text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";
    connection.execute(book).await.unwrap();
    let mut files: Vec<_> = fs::read_dir(steps).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let (version, name) = name.split_once('_').unwrap();
        let version: i64 = version.parse().unwrap();
        if version <= RELEASED {
            let step = fs::read_to_string(&file).unwrap();
            let keep = format!("INSERT INTO holdfast_migration VALUES ({version}, '{name}')");
            connection.execute(AssertSqlSafe(step)).await.unwrap();
            connection.execute(AssertSqlSafe(keep)).await.unwrap();
        }
    }
}

/// Replicas of the release before go on with the statements that they prepared: PostgreSQL refuses one whose result has another column.
#[tokio::test(flavor = "multi_thread")]
async fn no_table_that_the_release_before_reads_whole_gets_another_column() {
    let url = database().await;
    released(&url).await;
    let mut before = raw(&url).await;
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut before).await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    for table in &tables {
        let prepare = format!("PREPARE whole_{table} AS SELECT * FROM {table} LIMIT 1");
        before.execute(AssertSqlSafe(prepare)).await.unwrap();
        let run = format!("EXECUTE whole_{table}");
        before.execute(AssertSqlSafe(run)).await.unwrap();
    }
    migrate(&url).await.unwrap();
    let mut refused = Vec::new();
    for table in tables.iter().filter(|table| !NAMED_BY_COLUMN.contains(&table.as_str())) {
        let again = before.execute(AssertSqlSafe(format!("EXECUTE whole_{table}"))).await;
        refused.extend(again.err().map(|error| format!("{table}: {error}")));
    }
    assert!(refused.is_empty(), "{refused:?}");
}
