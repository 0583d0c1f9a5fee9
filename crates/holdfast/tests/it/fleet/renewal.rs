//! Renewals go on whatever happens to whom, and no visitor ever meets a certificate that is over.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use holdfast_testkit::{eventually, pace};
use http::Method;
use serde_json::json;

use super::{
    judge,
    member::{Fleet, Plan},
    names,
};
use crate::kit::{Ended, word};

/// Certificates that live for a minute; one replica is the edge and lives, two work and are killed in turn.
#[tokio::test]
async fn renewals_survive_those_who_make_them() {
    let plan = Plan {
        roles: &["api", "worker", "worker"],
        balanced: |role| role == "api",
        environment: Box::new(|role, network| {
            let mut more = vec![
                ("HOLDFAST__ACME__PROFILE", "seconds".to_owned()),
                ("HOLDFAST__EDGE__MODE", "agents".to_owned()),
            ];
            if role == "api" {
                more.push(("HOLDFAST__EDGE__MODE", "builtin".to_owned()));
                more.push(("HOLDFAST__EDGE__HTTPS", format!("127.0.0.1:{}", network.tls)));
            }
            more
        }),
        ..Plan::default()
    };
    let mut fleet = Fleet::start(plan).await;
    let names = names(50);
    judge::add(&fleet, &names).await;
    judge::all_active(&fleet, &names).await;
    let over = AtomicBool::new(false);
    let look = visit(&names, fleet.network.tls, word(&fleet.network.root()), &over);
    let strike = async {
        for blow in 0.. {
            let at = 1 + blow % 2;
            fleet.members[at].kill().await;
            fleet.begin(at).await;
            // The first certificate, and three after it.
            if fleet.finalized().await.values().filter(|times| **times >= 4).count() == names.len()
            {
                break;
            }
            pace(Duration::from_secs(2)).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let (visits, ()) = tokio::join!(look, strike);
    println!("{visits} visits, each to a valid certificate");
    judge::all_active(&fleet, &names).await;
    judge::gapless(&fleet, &names).await;
}

/// Goes round all names, and verifies each certificate as a browser would; gives how many visits it made.
async fn visit(names: &[String], port: u16, root: String, over: &AtomicBool) -> u64 {
    let visits = AtomicU64::new(0);
    while !over.load(Ordering::Relaxed) {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--fail-early", "--max-time", "30"]);
        curl.args(["--output", "/dev/null", "--cacert", &root]);
        for name in names {
            curl.args(["--resolve", &format!("{name}:{port}:127.0.0.1")]);
            curl.args(["--output", "/dev/null", &format!("https://{name}:{port}/")]);
        }
        tokio::task::spawn_blocking(move || Ended::of(&mut curl).done()).await.unwrap();
        visits.fetch_add(u64::try_from(names.len()).unwrap(), Ordering::Relaxed);
    }
    visits.into_inner()
}

/// A CA that must revoke moves its windows into the past: everything is replaced, and nobody has to ask for it.
#[tokio::test]
async fn windows_in_the_past_mean_now() {
    let fleet = Fleet::start(Plan::default()).await;
    let names = names(100);
    judge::add(&fleet, &names).await;
    judge::all_active(&fleet, &names).await;
    let past = json!({"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"});
    fleet.ask_ca(Method::PUT, "/dev/ari/*", Some(&past)).await;
    // Fifty days later each is asked about.
    fleet.sql(
        "UPDATE certificate SET not_before = not_before - interval '50 days', not_after = not_after - interval '50 days';
         UPDATE domain SET due_at = clock_timestamp() WHERE state = 'Active'",
    );
    let begun = Instant::now();
    eventually(Duration::from_secs(60), "all to be replaced", async || {
        let finalized = fleet.finalized().await;
        let replaced = finalized.values().filter(|times| **times == 2).count();
        if replaced == names.len() { Ok(()) } else { Err(format!("{replaced}: {finalized:?}")) }
    })
    .await;
    println!("{} certificates replaced in {:?}", names.len(), begun.elapsed());
    judge::all_active(&fleet, &names).await;
    judge::finalized_at_most(&fleet, 2).await;
    judge::gapless(&fleet, &names).await;
    judge::nothing_left(&fleet).await;
}
