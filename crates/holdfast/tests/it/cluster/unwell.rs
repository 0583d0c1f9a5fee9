//! What `holdfast doctor` says of a cluster that is unwell: each ailment is made, and must be named.

use std::process::Command;

use holdfast_testkit::{Durability, Faketime, Postgres, Redis, eventually};
use serde_json::Value;

use super::group::sql;
use crate::{
    kit::{Ended, SOON, program, word},
    replica::{Database, Network, Replica},
};

/// Everything that is not good, as `what: verdict, seen`.
fn ailments(ended: &Ended) -> Vec<String> {
    let document = ended.json();
    let items = document.pointer("/items").and_then(Value::as_array).unwrap();
    let of = |item: &Value, name: &str| {
        item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let bad = items.iter().filter(|item| of(item, "verdict") != "good");
    bad.map(|item| format!("{}: {}, {}", of(item, "what"), of(item, "verdict"), of(item, "seen")))
        .collect()
}

fn examined(replica: &Replica, environment: &[(&str, &str)]) -> Vec<String> {
    let mut command = program();
    command.args(["doctor", "--output", "json", "--config", &word(&replica.config())]);
    ailments(&Ended::of(command.envs(environment.iter().copied())))
}

#[track_caller]
fn assert_named(ailments: &[String], wanted: &[&str]) {
    let named = |words: &str| ailments.iter().any(|ailment| ailment.contains(words));
    assert!(wanted.iter().all(|words| named(words)), "{wanted:?} in {ailments:#?}");
}

#[tokio::test]
async fn the_dead_the_late_and_the_nearly_ended_are_named() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "").await;
    let config = replica.read("holdfast.toml");
    let url = config.lines().find_map(|line| line.trim().strip_prefix("url = \"postgres"));
    let url = format!("postgres{}", url.unwrap().trim_end_matches('"'));
    let name = "shop.unwell.test";
    network.run(["dns", "set", name, "CNAME", "edge.holdfast.test"]).done();
    network.run(["dns", "set", "edge.holdfast.test", "A", "127.0.0.1"]).done();
    replica.run(["domain", "add", name, "--wait"]).done();
    let ailing = [
        "replica:",
        "backlog:",
        "certificate:",
        "replicas:",
        "master key:",
        "clock:",
        "stored times:",
    ];
    let seen = examined(&replica, &[]);
    assert!(!seen.iter().any(|one| ailing.iter().any(|what| one.starts_with(what))), "{seen:?}");

    // A replica that fell silent while another works; work that nobody took up; a renewal that never came.
    replica.process().kill().await.unwrap();
    sql(&url, "UPDATE replica SET beat_at = clock_timestamp()");
    sql(
        &url,
        "INSERT INTO replica (instance, incarnation, url, role, version, registered_at, started_at, beat_at)
         SELECT 'two', gen_random_uuid(), url, role, version, registered_at, started_at, beat_at - interval '2 minutes' FROM replica",
    );
    sql(&url, "UPDATE domain SET due_at = clock_timestamp() - interval '1 hour'");
    sql(
        &url,
        "UPDATE certificate SET not_before = clock_timestamp() - interval '89 days', not_after = clock_timestamp() + interval '1 day'",
    );
    // And a time that a clock two days ahead stored.
    sql(&url, "UPDATE domain SET updated_at = clock_timestamp() + interval '2 days'");
    let seen = examined(&replica, &[]);
    let wanted = [
        "stored times: doubtful, 1 are later than a clock in good order stores",
        "replica: doubtful, two was last heard",
        "backlog: doubtful, 1 domains are due",
        "certificate: wrong, that of shop.unwell.test ends",
    ];
    assert_named(&seen, &wanted);

    // Nobody but an API.
    sql(&url, "UPDATE replica SET role = 'api'");
    assert_named(
        &examined(&replica, &[]),
        &["replicas: wrong, every healthy replica has role api"],
    );

    // Another key than the one all this is sealed under.
    let other =
        replica.scratch.write("other.key", "YW5vdGhlciBrZXkgb2YgdGhpcnR5LXR3byBieXRlcyE=").unwrap();
    let other = [("HOLDFAST__SECURITY__MASTER_KEY_FILE", word(&other))];
    let other = other.each_ref().map(|(name, file)| (*name, file.as_str()));
    assert_named(
        &examined(&replica, &other),
        &["master key: wrong, the database was sealed under"],
    );
}

#[tokio::test]
async fn a_clock_apart_from_the_databases_is_named() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "").await;
    let clock = Faketime::new().unwrap();
    clock.step(3_600).unwrap();
    let mut command = clock.command(program().get_program());
    command.args(["doctor", "--output", "json", "--config", &word(&replica.config())]);
    let seen = ailments(&Ended::of(&mut command));
    assert_named(&seen, &["clock: doubtful, this machine and the database are"]);
}

#[tokio::test]
async fn workers_without_a_leader_are_named() {
    let network = Network::start().await;
    let mut replica = Replica::prepare(&network, Database::Postgres, "").await;
    let text = replica.read("holdfast.toml");
    let text = text.replace("drain_seconds = 0", "drain_seconds = 0\nrole = \"worker\"");
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    eventually(SOON, "the finding", async || {
        let seen = ailments(&replica.run(["doctor", "--output", "json"]));
        match seen.iter().any(|one| one.starts_with("leader: wrong, no healthy replica holds")) {
            true => Ok(()),
            false => Err(format!("{seen:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_forgets_or_throws_away_is_named() {
    let network = Network::start().await;
    let redis = Redis::start().await.unwrap();
    let extra = format!("[coordination]\nbackend = \"redis\"\nurl = \"{}\"", redis.url());
    let replica = Replica::prepare(&network, Database::Postgres, &extra).await;
    let forgets = "redis: doubtful, it remembers nothing across a restart";
    assert_named(&examined(&replica, &[]), &[forgets]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    assert_named(&examined(&replica, &[]), &["redis: wrong, it throws keys away"]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.unwrap();
    redis.ask(&["CONFIG", "SET", "appendonly", "yes"]).await.unwrap();
    let seen = examined(&replica, &[]);
    assert!(!seen.iter().any(|one| one.starts_with("redis")), "{seen:?}");
    redis.process().kill().await.unwrap();
    assert_named(&examined(&replica, &[]), &["redis: wrong, it does not answer"]);
}

/// Without its database a replica lives, and is asked for nothing until it is back.
#[tokio::test]
async fn a_replica_without_its_database_is_alive_and_not_ready() {
    let network = Network::start().await;
    let mut postgres = Postgres::start(Durability::Relaxed).await.unwrap();
    let url = postgres.database().await.unwrap();
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let text = replica.read("holdfast.toml").replace("sqlite:holdfast.db", &url);
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    let ask = |path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", &format!("{}{path}", replica.url())]);
        Ended::of(&mut curl).stdout
    };
    let until = async |path: &str, code: &str| {
        eventually(SOON, path, async || match ask(path) {
            answer if answer == code => Ok(()),
            other => Err(other),
        })
        .await;
    };
    until("/health/ready", "200").await;
    postgres.crash().await.unwrap();
    until("/health/ready", "503").await;
    until("/health", "503").await;
    assert_eq!(ask("/health/live"), "200");
    postgres.restart().await.unwrap();
    until("/health/ready", "200").await;
    until("/health", "200").await;
}
