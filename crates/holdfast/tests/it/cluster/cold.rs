//! Many first starts at once on an empty database: exactly one of each thing is made.

use holdfast_testkit::{Postgres, Process, Scratch, eventually, free_port};

use super::group::{MASTER_KEY, sql};
use crate::{
    kit::{Ended, SOON, is_ready, program, word},
    replica::Network,
};

const COUNT: usize = 5;

fn repetitions() -> usize {
    if std::env::var_os("HOLDFAST_SOAK").is_some() { 20 } else { 3 }
}

/// A directory and a process in it.
struct Start {
    directory: Scratch,
    process: Process,
}

fn start(network: &Network, url: &str, security: &str) -> Start {
    let directory = Scratch::new().unwrap();
    let (ca, dns, root) = (network.ca, network.dns, word(&network.root()));
    let port = free_port().unwrap();
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:{port}"
        drain_seconds = 0
        [database]
        url = "{url}"
        [acme]
        directory = "https://127.0.0.1:{ca}/directory"
        root_certificate = "{root}"
        agree_terms = true
        [dns]
        targets = ["edge.holdfast.test"]
        resolvers = ["127.0.0.1:{dns}"]
        [security]
        admin_token_file = "admin.token"
        {security}
        "#
    );
    directory.write("holdfast.toml", text).unwrap();
    let mut command = program();
    command.args(["server", "--config", &word(&directory.path().join("holdfast.toml"))]);
    Start { process: Process::spawn("cold", &command).unwrap(), directory }
}

#[tokio::test]
async fn with_one_master_key_five_start_and_one_makes_what_is_made_once() {
    let network = Network::start().await;
    for _ in 0..repetitions() {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        let key = format!("master_key = \"{MASTER_KEY}\"");
        let starts: Vec<_> = (0..COUNT).map(|_| start(&network, &url, &key)).collect();
        for one in &starts {
            one.process.wait_for_line(SOON, is_ready).await.unwrap();
        }
        let tokens = starts.iter().filter(|one| one.directory.path().join("admin.token").exists());
        assert_eq!(tokens.count(), 1, "one admin token file");
        let one = |query: &str| assert_eq!(sql(&url, query).trim(), "1", "{query}");
        one("SELECT count(*) FROM token");
        one("SELECT count(*) FROM sealing_key");
        eventually(SOON, "the account", async || {
            match sql(&url, "SELECT count(*) FROM acme_account WHERE url IS NOT NULL").trim() {
                "1" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await;
        one(
            "SELECT count(*) FROM lease_history WHERE name = 'bootstrap-coordinator' AND reason = 'created'",
        );
        assert_eq!(sql(&url, "SELECT count(*) FROM replica").trim(), COUNT.to_string());
    }
}

#[tokio::test]
async fn with_five_directories_one_starts_and_four_refuse_with_the_remedy() {
    let network = Network::start().await;
    for _ in 0..repetitions() {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        let key = "master_key_file = \"master.key\"";
        let starts: Vec<_> = (0..COUNT).map(|_| start(&network, &url, key)).collect();
        let decided =
            |one: &Start| one.process.status().is_some() || one.process.log().lines().any(is_ready);
        eventually(2 * SOON, "every start to be decided", async || {
            let open = starts.iter().filter(|one| !decided(one)).count();
            if open == 0 { Ok(()) } else { Err(format!("{open} open")) }
        })
        .await;
        let (refused, started): (Vec<_>, Vec<_>) =
            starts.iter().partition(|one| one.process.status().is_some());
        assert_eq!((started.len(), refused.len()), (1, COUNT - 1));
        for one in refused {
            assert_eq!(one.process.status().unwrap().code(), Some(1));
            let log = one.process.log();
            assert!(log.contains("master_key_file") || log.contains("copy its key file"), "{log}");
            assert!(!one.directory.path().join("master.key").exists(), "a key that opens nothing");
        }
        let keys = sql(&url, "SELECT count(*) FROM sealing_key");
        assert_eq!(keys.trim(), "1");
        let config = word(&started[0].directory.path().join("holdfast.toml"));
        Ended::of(program().args(["token", "list", "--config", &config])).done();
    }
}
