//! A migration that cannot go on says why: a lock held elsewhere, a role that may not.

use std::time::Duration;

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
