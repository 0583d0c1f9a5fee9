//! Many first starts at once on an empty database: exactly one of each thing is made.

use std::process::Command;

use holdfast_testkit::{Postgres, Process, Proxy, Scratch, Way, eventually, free_port};

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

/// A directory with a configuration in it.
fn directory(network: &Network, url: &str, security: &str) -> Scratch {
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
    directory
}

fn start(network: &Network, url: &str, security: &str) -> Start {
    named("cold", directory(network, url, security), &[])
}

/// Starts it under this name.
fn named(name: &str, directory: Scratch, environment: &[(&str, String)]) -> Start {
    let mut command = program();
    command.args(["server", "--config", &word(&directory.path().join("holdfast.toml"))]);
    if name != "cold" {
        command.env("POD_NAME", name);
    }
    command.envs(environment.iter().cloned());
    Start { process: Process::spawn(name, &command).unwrap(), directory }
}

/// Makes the tables, and nothing else.
fn migrate(directory: &Scratch) {
    let config = word(&directory.path().join("holdfast.toml"));
    Ended::of(program().args(["migrate", "--config", &config])).done();
}

/// Waits until one of these holds a lease: which.
async fn holder<'a>(url: &str, lease: &str, starts: &'a [(&str, Start)]) -> &'a Start {
    let query = format!("SELECT holder FROM lease WHERE name = '{lease}' AND expires_at > now()");
    eventually(2 * SOON, lease, async || {
        let holder = sql(url, &query);
        let found = starts.iter().find(|(name, _)| *name == holder.trim());
        found.map(|(_, start)| start).ok_or(holder)
    })
    .await
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

/// Somebody holds the lease and never lets go: after some patience all of them go on without it, at the same time. What makes the token
/// one is not the lease.
#[tokio::test]
async fn without_the_lease_one_token_is_made_all_the_same() {
    let network = Network::start().await;
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let key = format!("master_key = \"{MASTER_KEY}\"");
    migrate(&directory(&network, &url, &key));
    sql(
        &url,
        "INSERT INTO lease (name, holder, incarnation, term, beat, ttl_us, expires_at, since, renewed_at, priority, reason)
         VALUES ('bootstrap-coordinator', 'stubborn', gen_random_uuid(), 1, 1, 3600000000, now() + interval '1 hour', now(), now(), 0, 'created')",
    );
    let starts: Vec<_> = (0..COUNT).map(|_| start(&network, &url, &key)).collect();
    for one in &starts {
        one.process.wait_for_line(4 * SOON, is_ready).await.unwrap();
    }
    let there =
        |name: &str| starts.iter().filter(|one| one.directory.path().join(name).exists()).count();
    assert_eq!((there("admin.token"), there("admin.token.new")), (1, 0));
    assert_eq!(sql(&url, "SELECT count(*) FROM token").trim(), "1");
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Held up in the middle of it, with the lease in its hands, and killed there: another makes what is made once.
#[tokio::test]
async fn whoever_makes_what_is_made_once_may_be_killed_or_paused() {
    let network = Network::start().await;
    let key = format!("master_key = \"{MASTER_KEY}\"");
    for paused in [false, true] {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        migrate(&directory(&network, &url, &key));
        let mut stubborn = Command::new("psql");
        stubborn.args([&url, "--no-psqlrc", "--command"]);
        stubborn.arg("BEGIN; SELECT one FROM first_token FOR UPDATE; SELECT pg_sleep(600)");
        let _stubborn = Process::spawn("stubborn", &stubborn).unwrap();
        let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep%'";
        eventually(SOON, "the row to be held", async || {
            match sql(&url, &format!("SELECT count(*) {others} AND wait_event = 'PgSleep'")).trim()
            {
                "1" => Ok(()),
                other => Err(other.to_owned()),
            }
        })
        .await;
        let starts = NAMES.map(|name| (name, named(name, directory(&network, &url, &key), &[])));
        let first = holder(&url, "bootstrap-coordinator", &starts).await;
        match paused {
            true => first.process.pause().unwrap(),
            false => {
                first.process.kill().await.unwrap();
            }
        }
        sql(&url, &format!("SELECT pg_terminate_backend(pid) {others}"));
        let going = starts.iter().map(|(_, one)| one).filter(|one| {
            one.process.pid() != first.process.pid() && one.process.status().is_none()
        });
        for one in going {
            one.process.wait_for_line(2 * SOON, is_ready).await.unwrap();
        }
        let made =
            starts.iter().filter(|(_, one)| one.directory.path().join("admin.token").exists());
        assert_eq!(made.count(), 1, "one admin token file");
        assert_eq!(sql(&url, "SELECT count(*) FROM token").trim(), "1");
    }
}

/// The CA does not answer whoever registers the account; that one is killed, or stands still. Another registers it, once.
#[tokio::test]
async fn whoever_registers_the_account_may_be_killed_or_paused() {
    let network = Network::start().await;
    let key = format!("master_key = \"{MASTER_KEY}\"");
    for paused in [false, true] {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        migrate(&directory(&network, &url, &key));
        let ca = Proxy::before(network.ca).await.unwrap();
        ca.hold(Way::ToServer);
        let by = [("HOLDFAST__ACME__DIRECTORY", format!("https://{}/directory", ca.address()))];
        let starts = NAMES.map(|name| (name, named(name, directory(&network, &url, &key), &by)));
        let first = holder(&url, "acme-writer", &starts).await;
        match paused {
            true => first.process.pause().unwrap(),
            false => {
                first.process.kill().await.unwrap();
            }
        }
        ca.resume().await;
        let accounts = "SELECT count(*), count(url) FROM acme_account";
        eventually(2 * SOON, "the account", async || match sql(&url, accounts) {
            made if made.replace(' ', "").trim() == "1|1" => Ok(()),
            other => Err(other),
        })
        .await;
        let known = sql(&url, "SELECT url FROM acme_account");
        if paused {
            first.process.resume().unwrap();
            first.process.wait_for_line(SOON, is_ready).await.unwrap();
        }
        // Whoever comes later, or wakes up, finds it as it is.
        assert_eq!(sql(&url, accounts).replace(' ', "").trim(), "1|1");
        assert_eq!(sql(&url, "SELECT url FROM acme_account"), known);
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
