//! What must be true of a fleet when everything has come to rest.

use std::time::Duration;

use holdfast_testkit::eventually;
use http::Method;
use serde_json::{Value, json};

use super::member::Fleet;
use crate::cluster::LEASES;

/// Longest time for all domains to become Active once nothing is done to the fleet any more.
const REST: Duration = Duration::from_secs(120);

/// Adds all of them, through whichever replica answers; what was refused or lost is asked for again.
pub(crate) async fn add(fleet: &Fleet, names: &[String]) {
    for names in names.chunks(100) {
        let items: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "orchestration_id": name})).collect();
        let answer =
            fleet.insist(Method::POST, "/v1/domains:batch", Some(&json!({"items": items}))).await;
        let results = answer["items"].as_array().or_else(|| answer["results"].as_array()).unwrap();
        assert_eq!(results.len(), names.len(), "{answer}");
    }
}

/// Waits until all are Active; a failure is not waited for, but tried again, as a person would.
pub(crate) async fn all_active(fleet: &Fleet, names: &[String]) {
    eventually(REST, "all domains to be Active", async || {
        let mut open = Vec::new();
        for domain in domains(fleet).await {
            let state = domain["state"].as_str().unwrap().to_owned();
            if state.ends_with("Failed") {
                let path = format!("/v1/domains/{}/retry", domain["name"].as_str().unwrap());
                fleet.insist(Method::POST, &path, None).await;
            }
            if state == "Active" {
                continue;
            }
            open.push(format!("{} is {state}: {}", domain["name"], domain["last_error"]));
        }
        if open.is_empty() { Ok(()) } else { Err(open.join("\n")) }
    })
    .await;
    assert_eq!(domains(fleet).await.len(), names.len());
}

/// Waits until so many are Active, and no more work is done than that takes.
pub(crate) async fn active_at_least(fleet: &Fleet, count: u64) {
    eventually(REST, "the first domains to be Active", async || {
        let active = fleet.count("SELECT count(*) FROM domain WHERE state = 'Active'");
        if active >= count { Ok(()) } else { Err(format!("{active} of {count}")) }
    })
    .await;
}

/// The leadership and every lease for lasting work are held; others are taken for one operation at a time.
pub(crate) async fn somebody_leads(fleet: &Fleet) {
    eventually(REST, "holders of all leases", async || {
        let leases = fleet.insist(Method::GET, "/v1/leases", None).await;
        let items = leases["items"].as_array().unwrap();
        let held = |name: &&str| {
            items.iter().any(|lease| lease["name"] == **name && lease["held"] == true)
        };
        if LEASES.iter().all(held) { Ok(()) } else { Err(leases.to_string()) }
    })
    .await;
}

/// All domains there are.
pub(crate) async fn domains(fleet: &Fleet) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/domains?limit=1000{cursor}");
        let page = fleet.insist(Method::GET, &path, None).await;
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// The CA saw at most so many finalized orders of each name, and none finalized twice.
pub(crate) async fn finalized_at_most(fleet: &Fleet, most: u64) {
    let by_name = fleet.finalized().await;
    let over: Vec<_> = by_name.iter().filter(|(_, times)| **times > most).collect();
    assert!(over.is_empty(), "more than {most} finalized orders: {over:?}");
}

/// Every history has no gap, and every step one author.
pub(crate) async fn gapless(fleet: &Fleet, names: &[String]) {
    for name in names {
        let path = format!("/v1/domains/{name}/history?limit=1000");
        let history = fleet.insist(Method::GET, &path, None).await;
        let mut at = Value::Null;
        for row in history["items"].as_array().unwrap() {
            assert_eq!(row["from"], at, "a gap in the history of {name}: {history:#}");
            assert!(row["instance"].as_str().is_some_and(|author| !author.is_empty()), "{row}");
            at = row["to"].clone();
        }
        assert_eq!(at, "Active", "{name}");
    }
}

/// No claim, no challenge and no order is left over; there is one token and one account.
pub(crate) async fn nothing_left(fleet: &Fleet) {
    eventually(REST, "claims, challenges and orders to be gone", async || {
        let left = fleet.count(
            "SELECT (SELECT count(*) FROM domain WHERE claimed_until > clock_timestamp())
                  + (SELECT count(*) FROM challenge)
                  + (SELECT count(*) FROM acme_order WHERE ended_at IS NULL)",
        );
        if left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    assert_eq!(fleet.count("SELECT count(*) FROM token"), 1, "admin tokens");
    assert_eq!(fleet.count("SELECT count(*) FROM acme_account"), 1, "accounts");
}
