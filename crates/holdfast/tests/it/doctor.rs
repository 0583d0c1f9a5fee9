//! `holdfast doctor`: every finding with its fix.

use holdfast_testkit::{Postgres, eventually, free_port, run_sql};
use serde_json::{Value, json};

use crate::{
    edge,
    kit::{Ended, SOON, Up, word},
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
        command.args(["doctor", "--output", "json", "--config", &word(&replica.config())]);
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
        wrong(&look("HOLDFAST__SECURITY__MASTER_KEY_FILE", &word(&replica.config()))),
        ["master key"]
    );
}

/// What is said of this, with this verdict.
fn said(ended: &Ended, what: &str, verdict: &str) -> Vec<String> {
    let items = ended.json().pointer("/items").and_then(Value::as_array).cloned().unwrap();
    let said = items.iter().filter(|item| item["what"] == what && item["verdict"] == verdict);
    said.map(|item| item["seen"].as_str().unwrap().to_owned()).collect()
}

/// Work needs fewer rights than a migration, so that nothing else tells before the next release.
#[tokio::test]
async fn a_role_that_may_not_change_the_schema_is_named() {
    let network = Network::start().await;
    let owner = Postgres::shared().await.unwrap().database().await.unwrap();
    let make = "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE weak LOGIN PASSWORD 'hush'";
    run_sql(&owner, make).unwrap();
    let (_, place) = owner.split_once('@').unwrap();
    let weak = format!("postgres://weak:hush@{place}");
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let look = |replica: &Replica| {
        let mut command = crate::kit::program();
        command.args(["doctor", "--output", "json", "--config", &word(&replica.config())]);
        Ended::of(command.env("HOLDFAST__DATABASE__URL", &weak))
    };
    let before = look(&replica).refused(1, &["wrong"]);
    assert_eq!(wrong(&before), ["rights"]);
    assert!(said(&before, "rights", "wrong")[0].contains("lacks CREATE on schema public"));

    let text = replica.read("holdfast.toml").replace("sqlite:holdfast.db", &owner);
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO weak";
    run_sql(&owner, grant).unwrap();
    let after = look(&replica).done();
    let told = said(&after, "rights", "doubtful");
    assert!(told.len() == 1 && told[0].contains("it does not own table"), "{after:?}");
    let as_owner = replica.with_config(["doctor", "--output", "json"]).done();
    assert!(!findings(&as_owner).iter().any(|(what, _)| what == "rights"), "{as_owner:?}");
}

/// The CA answers from here; it is a replica that it fails.
#[tokio::test]
async fn how_a_ca_fails_a_replica_is_wrong() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    network.run(["fault", "set", "unavailable", "1"]).done();
    replica.run(["domain", "add", "shop.test"]).done();
    eventually(SOON, "the CA to fail", async || {
        let listed = replica.run(["ca", "list"]).done().stdout;
        if listed.contains("fails") { Ok(()) } else { Err(listed) }
    })
    .await;
    replica.kill().await;
    network.run(["fault", "clear"]).done();
    let ended = replica.with_config(["doctor", "--output", "json"]).refused(1, &["wrong"]);
    assert_eq!(wrong(&ended), ["ca"], "{ended:?}");
    let told = said(&ended, "ca", "wrong");
    assert!(told[0].starts_with("it has failed since "), "{told:?}");
}

/// It is live, but out of order as a whole.
#[tokio::test]
async fn an_edge_that_complains_is_wrong_by_the_database_too() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "[edge]\nmode = \"agents\"").await;
    let token = edge::token(&replica, "fra-1");
    edge::say(&replica, &token, "PUT", "fra-1", &json!({}));
    let error = json!({"code": "edge-disk", "detail": "No space left on device"});
    let report = json!({"up_to": "0.0", "error": error});
    // As an agent does, or else it is not live for long.
    eventually(SOON, "the edge to be wrong", async || {
        let taken = edge::say(&replica, &token, "POST", "fra-1/report", &report);
        assert!(taken.ends_with(" 204"), "{taken}");
        let ended = replica.with_config(["doctor", "--output", "json"]);
        match said(&ended, "edge", "wrong").as_slice() {
            [told] if told == "fra-1 is out of order: No space left on device" => Ok(()),
            _ => Err(format!("{ended:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_built_in_edge_without_http_is_doubtful() {
    let network = Network::start().await;
    let [https, http] = [free_port().unwrap(), free_port().unwrap()];
    for (http, verdict) in [
        (String::new(), "doubtful"),
        (format!("http = \"127.0.0.1:{http}\"\nredirect_port = 443"), "good"),
    ] {
        let edge = format!("[edge]\nmode = \"builtin\"\nhttps = \"127.0.0.1:{https}\"\n{http}");
        let replica = Replica::prepare(&network, Database::Sqlite, &edge).await;
        let seen = findings(&replica.with_config(["doctor", "--output", "json"]).done());
        assert!(seen.contains(&("port http".to_owned(), verdict.to_owned())), "{seen:?}");
    }
}
