//! Replicas: identity, age, death.

use std::time::Duration;

use holdfast_cluster::{Cluster, Error, Role, Settings};
use holdfast_store::{NewAccount, NewReplica, OrderLimits, Secret};
use holdfast_testkit::eventually;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use uuid::Uuid;

use crate::kit::{Place, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_of_the_same_name_ends_the_first() {
    let place = Place::on_postgres().await;
    let first = place.join("pod-0").await;
    first.leads().await;
    let second = place.join("pod-0").await;
    let ended = first.broken().await;
    assert!(matches!(&ended, Error::IdentityTaken(name) if name == "pod-0"), "{ended:?}");
    second.leads().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_pruned_alive_registers_again() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    one.store.prune_replicas(None, Duration::ZERO).await.unwrap();
    eventually(SOON, "itself again", async || {
        let all = one.cluster.replicas().await.unwrap();
        if all.len() == 1 { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_are_stale_and_then_forgotten() {
    let place = Place::on_postgres().await;
    let one = place.join("one").await;
    let dead = NewReplica {
        instance: "dead".to_owned(),
        incarnation: Uuid::new_v4(),
        url: "http://dead".to_owned(),
        role: "all".to_owned(),
        version: "test".to_owned(),
    };
    one.store.register_replica(&dead, Duration::from_secs(3)).await.unwrap();
    eventually(SOON, "the dead to be stale", async || {
        let all = one.cluster.replicas().await.unwrap();
        let stale = all.iter().any(|replica| replica.instance_id == "dead" && !replica.healthy);
        if stale || all.len() == 1 { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    eventually(SOON, "the dead to be forgotten", async || {
        let all = one.cluster.replicas().await.unwrap();
        if all.len() == 1 { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_a_restart_leads_at_once() {
    let place = Place::on_sqlite();
    let settings = place.settings("up", Role::All).await;
    // One file, one process: the store is opened once, as the next process would.
    let again = Settings {
        store: settings.store.clone(),
        instance: "up".to_owned(),
        url: settings.url.clone(),
        role: Role::All,
        version: settings.version.clone(),
        backend: settings.backend.clone(),
        leadership: settings.leadership.clone(),
        options: settings.options.clone(),
        heartbeat: settings.heartbeat,
        stale: settings.stale,
        prune: settings.prune,
    };
    // As if killed: nothing is handed over.
    let cluster = Cluster::join(settings).await.unwrap();
    eventually(
        SOON,
        "the leadership",
        async || {
            if cluster.is_leader() { Ok(()) } else { Err("not yet") }
        },
    )
    .await;
    let term = cluster.term().unwrap();
    let held = cluster.leases().await.unwrap();
    assert_eq!((held.len(), held[0].held), (1, true));
    // The next process finds the lease of the last one, which nobody let go of.
    let next = Cluster::join(again).await.unwrap();
    eventually(SOON, "the leadership again", async || {
        if next.is_leader() { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert!(next.term().unwrap() > term);
}

/// Two hours ahead while the last replica was there, and right again before the next one came: a budget that far away is honest
/// by itself, and would be waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_right_while_nobody_was_there_is_noticed() {
    let place = Place::on_postgres().await;
    let store = place.store().await;
    let gone = NewReplica {
        instance: "gone".to_owned(),
        incarnation: Uuid::new_v4(),
        url: "http://gone".to_owned(),
        role: "all".to_owned(),
        version: "test".to_owned(),
    };
    store.register_replica(&gone, Duration::from_secs(3)).await.unwrap();
    let account = NewAccount {
        directory: "https://ca.test/directory".to_owned(),
        key: Secret::new(vec![1; 8]),
        email: None,
    };
    store.journal_account(&account).await.unwrap();
    let mut raw = PgConnection::connect(&place.url).await.unwrap();
    for ahead in [
        "UPDATE replica SET beat_at = clock_timestamp()",
        "UPDATE acme_account SET budget_at = clock_timestamp()",
    ] {
        raw.execute(AssertSqlSafe(format!("{ahead} + interval '2 hours'"))).await.unwrap();
    }
    let one = place.join("one").await;
    let limits = OrderLimits { per_3h: 2, in_flight: 1 };
    eventually(SOON, "the budget to be as the orders say", async || {
        let account = store.account(&account.directory, limits).await.unwrap().unwrap();
        if account.orders_left == Some(2) { Ok(()) } else { Err(format!("{account:?}")) }
    })
    .await;
    one.end().await;
}
