//! The master key and the schema, from outside.

use std::process::Command;

use holdfast_testkit::free_port;

use crate::{
    kit::{Ended, SOON, program, word},
    replica::{Database, Network, Replica},
};

#[tokio::test]
async fn data_keys_rotate_while_it_runs() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let rotated = replica.run(["key", "rotate"]).done();
    assert!(rotated.stdout.contains("nothing is left"), "{rotated:?}");
    replica.run(["domain", "renew", "shop.test", "--wait"]).done();
    replica.end(SOON).await;
    replica.begin().await;
    replica.run(["domain", "renew", "shop.test", "--wait"]).done();
}

#[tokio::test]
async fn a_value_that_does_not_open_is_named_and_stops_nothing() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    for name in ["broken.test", "shop.test"] {
        replica.run(["domain", "add", name, "--wait"]).done();
    }
    replica.end(SOON).await;
    let damage =
        "UPDATE sealed SET value = substr(value, 1, 30) WHERE owner = 'certificate' AND id = (
        SELECT certificate_id FROM domain WHERE name = 'broken.test')";
    let file = replica.scratch.path().join("holdfast.db");
    Ended::of(Command::new("sqlite3").arg(file).arg(damage)).done();
    replica.begin().await;
    for _ in 0..2 {
        let named = ["1 values do not open", "certificate:", "(broken.test)"];
        replica.run(["key", "rotate"]).refused(1, &named);
    }
    replica.run(["domain", "renew", "broken.test", "--wait"]).done();
    replica.end(SOON).await;
    let doctor = replica.with_config(["doctor"]).stdout;
    assert!(doctor.contains("sealed values") && doctor.contains("broken.test"), "{doctor}");
}

#[tokio::test]
async fn another_master_key_opens_everything_once_it_is_wrapped() {
    for database in [Database::Sqlite, Database::Postgres] {
        let network = Network::start().await;
        let mut replica = Replica::start(&network, database, "").await;
        replica.run(["domain", "add", "shop.test", "--wait"]).done();
        replica.end(SOON).await;
        let file = replica.scratch.path().join("next.key");
        replica.with_config(["key", "rotate", "--new-master-key-file", &word(&file)]).done();
        // The old one opens nothing any more.
        let refused = Ended::of(&mut replica.command());
        refused.refused(1, &["master key"]);
        let text = replica.read("holdfast.toml").replace("master.key", "next.key");
        replica.scratch.write("holdfast.toml", text).unwrap();
        replica.begin().await;
        replica.run(["domain", "renew", "shop.test", "--wait"]).done();
    }
}

#[tokio::test]
async fn a_lost_master_key_is_never_made_anew() {
    for database in [Database::Sqlite, Database::Postgres] {
        let network = Network::start().await;
        let mut replica = Replica::start(&network, database, "").await;
        let key = replica.read("master.key");
        replica.end(SOON).await;
        std::fs::remove_file(replica.scratch.path().join("master.key")).unwrap();
        Ended::of(&mut replica.command()).refused(1, &["master key", "master_key_file"]);
        assert!(!replica.scratch.path().join("master.key").exists());
        replica
            .scratch
            .write("master.key", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=")
            .unwrap();
        Ended::of(&mut replica.command()).refused(1, &["master key"]);
        replica.scratch.write("master.key", key).unwrap();
        replica.begin().await;
    }
}

#[tokio::test]
async fn the_schema_is_brought_up_to_date_before_a_start() {
    let network = Network::start().await;
    for database in [Database::Sqlite, Database::Postgres] {
        let replica = Replica::prepare(&network, database, "").await;
        for _ in 0..2 {
            assert!(replica.with_config(["migrate"]).done().stdout.contains("version"));
        }
    }
}

#[tokio::test]
async fn a_restored_database_is_told_so() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    // While it runs nobody else may touch the file.
    replica.with_config(["restored"]).refused(1, &["in use"]);
    replica.end(SOON).await;
    let restored = replica.with_config(["restored", "--output", "json"]).done().json();
    assert!(
        restored
            .pointer("/epoch")
            .and_then(serde_json::Value::as_i64)
            .is_some_and(|epoch| epoch >= 1),
        "{restored}"
    );
    replica.begin().await;
    assert!(replica.run(["domain", "list"]).done().stdout.contains("Active"));
    let port = free_port().unwrap();
    Ended::of(
        program()
            .args(["restored", "--config", &word(&replica.config())])
            .env("HOLDFAST__DATABASE__URL", format!("postgres://x@127.0.0.1:{port}/x")),
    )
    .refused(3, &["database"]);
}
