//! One address for the database, which leads to a standby for a while, as during a failover.

use std::time::Duration;

use holdfast_testkit::{Durability, Postgres, Proxy, eventually, pace};
use http::Method;
use serde_json::json;

use super::{LEASES, group::Group};
use crate::kit::{Ended, SOON, program, word};

/// Waits until readiness is answered by this status, and with this word.
async fn until_ready(group: &Group, at: usize, wanted: u16, word: &str) {
    eventually(2 * SOON, &format!("readiness {wanted} of r{at}"), async || {
        let (status, body) = group.ask(at, Method::GET, "/health/ready", None).await?;
        match status.as_u16() == wanted && body.to_string().contains(word) {
            true => Ok(()),
            false => Err(format!("{status} {body}")),
        }
    })
    .await;
}

#[tokio::test]
async fn an_address_that_led_to_a_standby_is_used_again() {
    let primary = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = primary.database().await.unwrap();
    let standby = primary.synchronous_standby().await.unwrap();
    let proxy = Proxy::before(primary.port()).await.unwrap();
    let group = Group::start_on(proxy.lead(&url), 3, 6, "").await;
    for at in 0..3 {
        group.crowd(at).await;
    }
    let (_, term) = group.holder(0, "holdfast", 0).await;

    proxy.lead_to(standby.port());
    for at in 0..3 {
        until_ready(&group, at, 503, "standby").await;
        let add = json!({ "name": format!("early-{at}.example.com") });
        let (status, _) = group.ask(at, Method::POST, "/v1/domains", Some(&add)).await.unwrap();
        assert_eq!(status.as_u16(), 503);
    }
    let config = word(&group.config());
    // The proxy runs on this thread, so nothing may block it.
    let doctor = move || Ended::of(program().args(["doctor", "--config", &config]));
    let doctor = tokio::task::spawn_blocking(doctor).await.unwrap();
    assert!(doctor.stdout.contains("standby"), "{doctor:?}");
    // Longer than a lease: every session has been tried there.
    pace(Duration::from_secs(6)).await;

    // Nobody closes what is open to the standby: whoever is still connected there has to leave by itself.
    proxy.lead_new_to(primary.port());
    for at in 0..3 {
        until_ready(&group, at, 200, "").await;
        let add = json!({ "name": format!("late-{at}.example.com") });
        eventually(SOON, "a write", async || {
            match group.ask(at, Method::POST, "/v1/domains", Some(&add)).await? {
                (status, _) if status.as_u16() == 201 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        for lease in LEASES {
            group.holder(at, lease, if lease == "holdfast" { term - 1 } else { 0 }).await;
        }
    }
}

/// A server that is made read-only while sessions are open, as some managed services do when a disk is nearly full.
#[tokio::test]
async fn a_server_that_becomes_read_only_is_noticed_and_used_again() {
    let server = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = server.database().await.unwrap();
    let group = Group::start_on(url, 1, 6, "").await;
    group.crowd(0).await;
    server.set_read_only(true).await.unwrap();
    until_ready(&group, 0, 503, "read-only").await;
    server.set_read_only(false).await.unwrap();
    until_ready(&group, 0, 200, "").await;
    let add = json!({ "name": "late.example.com" });
    eventually(SOON, "a write", async || {
        match group.ask(0, Method::POST, "/v1/domains", Some(&add)).await? {
            (status, _) if status.as_u16() == 201 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    group.holder(0, "holdfast", 0).await;
}
