//! `holdfast doctor`: every finding with its fix.

use holdfast_testkit::{eventually, free_port};
use serde_json::Value;

use crate::{
    kit::{Ended, SOON, Up},
    replica::{Database, Network, Replica},
};

fn findings(ended: &Ended) -> Vec<(String, String)> {
    let items = ended.json().pointer("/items").and_then(Value::as_array).cloned().unwrap();
    let of = |item: &Value, name: &str| {
        item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for item in &items {
        assert!(of(item, "verdict") == "good" || !of(item, "fix").is_empty(), "{item}");
    }
    items.iter().map(|item| (of(item, "what"), of(item, "verdict"))).collect()
}

fn wrong(ended: &Ended) -> Vec<String> {
    let wrong = findings(ended).into_iter().filter(|(_, verdict)| verdict == "wrong");
    wrong.map(|(what, _)| what).collect()
}

#[tokio::test]
async fn an_up_in_good_order_has_nothing_wrong() {
    let up = Up::start().await;
    // The edge makes itself known, and the leadership is won, a moment after the start.
    eventually(SOON, "everything to be good", async || {
        let seen = findings(&up.run(["doctor", "--output", "json"]));
        let good = |what: &str| seen.contains(&(what.to_owned(), "good".to_owned()));
        let all = ["server", "database", "leases", "leader", "edge", "ca", "disk", "clock"];
        match all.into_iter().find(|what| !good(what)) {
            None => Ok(()),
            Some(what) => Err(format!("{what}: {seen:?}")),
        }
    })
    .await;
    up.run(["doctor"]).done();
}

#[tokio::test]
async fn a_configuration_is_looked_at_before_the_first_start_and_after() {
    for database in [Database::Sqlite, Database::Postgres] {
        let network = Network::start().await;
        let mut replica = Replica::prepare(&network, database, "").await;
        replica.with_config(["doctor"]).done();
        assert!(!replica.scratch.path().join("master.key").exists(), "it changes nothing");
        replica.begin().await;
        let ended = replica.with_config(["doctor", "--output", "json"]).done();
        assert_eq!(wrong(&ended), Vec::<String>::new(), "{ended:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_named_with_its_fix() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let nobody = free_port().unwrap();
    let look = |variable: &str, value: &str| {
        let mut command = crate::kit::program();
        command.args([
            "doctor",
            "--output",
            "json",
            "--config",
            &crate::kit::word(&replica.config()),
        ]);
        Ended::of(command.env(variable, value)).refused(1, &["wrong"])
    };
    assert_eq!(
        wrong(&look("HOLDFAST__DATABASE__URL", &format!("postgres://x@127.0.0.1:{nobody}/x"))),
        ["database"]
    );
    assert_eq!(
        wrong(&look("HOLDFAST__ACME__DIRECTORY", &format!("https://127.0.0.1:{nobody}/directory"))),
        ["ca"]
    );
    assert_eq!(wrong(&look("HOLDFAST__ACME__PROFILE", "eternal")), ["ca profile"]);
    assert_eq!(
        wrong(&look("HOLDFAST__DNS__RESOLVERS", &format!("127.0.0.1:{nobody}"))),
        ["dns resolver"]
    );
    network.run(["dns", "set", "edge.nowhere.test", "NONE", "-"]).done();
    assert_eq!(wrong(&look("HOLDFAST__DNS__TARGETS", "edge.nowhere.test")), ["dns target"]);
    assert_eq!(
        wrong(&look("HOLDFAST__SERVER__LISTEN", &format!("127.0.0.1:{}", network.ca))),
        ["port api"]
    );
    assert_eq!(
        wrong(&look("HOLDFAST__SECURITY__MASTER_KEY_FILE", &crate::kit::word(&replica.config()))),
        ["master key"]
    );
}
