//! `holdfast ca …` against a real control plane: what is told of a CA, and a pause that a person sets and lifts.

use std::time::Duration;

use holdfast_model::Timestamp;
use holdfast_testkit::eventually;
use serde_json::Value;

use crate::{
    kit::{SOON, text},
    replica::{Database, Network, Replica},
};

/// The host of the network's directory.
const CA: &str = "127.0.0.1";

/// What the command wrote, with these words in it.
#[track_caller]
fn told<const N: usize>(replica: &Replica, command: [&str; N], words: &[&str]) -> String {
    let told = replica.run(command).done().stdout;
    for word in words {
        assert!(told.contains(word), "no `{word}` in: {told}");
    }
    told
}

/// The one pause that there is.
fn pause(replica: &Replica) -> Value {
    let shown = replica.run(["ca", "show", CA, "--output", "json"]).done().json();
    let pauses = shown["pauses"].as_array().unwrap();
    assert_eq!(pauses.len(), 1, "{shown:#}");
    pauses[0].clone()
}

/// How long a pause is from its beginning to its end.
fn length(pause: &Value) -> Duration {
    let at = |pointer| Timestamp::parse(text(pause, pointer)).unwrap();
    at("/until").since(at("/since"))
}

async fn waits_for_a_person(replica: &Replica, name: &str) {
    eventually(SOON, "to be held by the pause", async || {
        let told = replica.run(["domain", "explain", name, "--output", "json"]).done().json();
        if told["cause"] == "ca-paused" { Ok(()) } else { Err(told) }
    })
    .await;
    let shown = replica.run(["domain", "show", name, "--output", "json"]).done().json();
    assert_eq!(text(&shown, "/state"), "AcmeOrdering");
}

#[tokio::test]
async fn a_pause_holds_new_domains_over_a_restart_until_it_is_resumed() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.run(["domain", "add", "first.test", "--wait"]).done();
    let listed = told(&replica, ["ca", "list"], &["NAME", "PAUSED", CA, "yes", "ok"]);
    assert!(!listed.contains("by admin"), "{listed}");
    replica.run(["ca", "show", "nobody.test"]).refused(1, &["nobody.test"]);

    let words = ["account by admin since", "ends in ", "by-hand"];
    told(&replica, ["ca", "pause", CA, "--for", "2h"], &words);
    told(&replica, ["ca", "list"], &["by admin, ends in "]);
    let before = pause(&replica);
    assert_eq!(length(&before), Duration::from_secs(7_200));
    replica.run(["domain", "add", "shop.test"]).done();
    waits_for_a_person(&replica, "shop.test").await;

    replica.end(SOON).await;
    replica.begin().await;
    told(&replica, ["ca", "show", CA], &words);
    assert_eq!(pause(&replica), before);
    // Once this one is held, the other would have been taken.
    replica.run(["domain", "add", "later.test"]).done();
    waits_for_a_person(&replica, "later.test").await;
    waits_for_a_person(&replica, "shop.test").await;
    // One without an end takes the place of one with an end.
    told(&replica, ["ca", "pause", CA], &["until it is resumed"]);
    assert_eq!(pause(&replica)["until"], Value::Null);

    let resumed = told(&replica, ["ca", "resume", CA], &["health", "ok"]);
    assert!(!resumed.contains("paused"), "{resumed}");
    for name in ["shop.test", "later.test"] {
        eventually(SOON, "to go on", async || {
            let shown = replica.run(["domain", "show", name]).done().stdout;
            if shown.contains("Active") { Ok(()) } else { Err(shown) }
        })
        .await;
    }
}
