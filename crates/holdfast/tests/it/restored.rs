//! docs/backup.md, tried: a database restored from a backup that is twenty certificates old. What was issued since is
//! issued again, what was there before is served, and nothing goes back.

use std::process::Command;

use holdfast_testkit::eventually;

use crate::{
    kit::{Ended, SOON, word},
    replica::{Database, Network, Replica},
};

const BEFORE: usize = 3;
const SINCE: usize = 20;

async fn walk(database: Database) {
    let network = Network::start().await;
    let edge = format!("[edge]\nmode = \"builtin\"\nhttps = \"127.0.0.1:{}\"", network.tls);
    let mut replica = Replica::start(&network, database, &edge).await;
    for number in 0..BEFORE {
        replica.run(["domain", "add", &format!("before-{number}.test"), "--wait"]).done();
    }
    // Twenty more are added, but the CA takes no orders yet.
    network.run(["fault", "set", "unavailable", "1"]).done();
    for number in 0..SINCE {
        replica.run(["domain", "add", &format!("since-{number}.test")]).done();
    }
    queued(&replica).await;
    let backup = Backup::take(&replica, database);
    network.run(["fault", "clear"]).done();
    all_active(&replica).await;
    let issued = certificates(&network);

    replica.end(SOON).await;
    backup.restore(&replica, database);
    let told = replica.with_config(["restored"]).done();
    assert!(told.stdout.contains("are in epoch "), "{told:?}");
    replica.begin().await;

    all_active(&replica).await;
    assert_eq!(
        certificates(&network),
        issued + SINCE,
        "each lost certificate is issued again, and none but those"
    );
    for name in ["before-0.test", "since-0.test", "since-19.test"] {
        served(&network, name);
    }
}

async fn queued(replica: &Replica) {
    eventually(SOON, "all wait for an order", async || {
        let listed = replica
            .run(["domain", "list", "--state", "AcmeOrdering", "--output", "json"])
            .done()
            .json();
        let waiting = listed["items"].as_array().unwrap().len();
        if waiting == SINCE { Ok(()) } else { Err(waiting) }
    })
    .await;
}

async fn all_active(replica: &Replica) {
    eventually(SOON * 2, "all are Active", async || {
        let listed =
            replica.run(["domain", "list", "--state", "Active", "--output", "json"]).done().json();
        let active = listed["items"].as_array().unwrap().len();
        if active == BEFORE + SINCE { Ok(()) } else { Err(active) }
    })
    .await;
}

/// How many certificates the CA has issued.
fn certificates(network: &Network) -> usize {
    let url = format!("https://127.0.0.1:{}/dev/certificates", network.ca);
    let listed = Ended::of(Command::new("curl").args([
        "--silent",
        "--cacert",
        &word(&network.root()),
        &url,
    ]))
    .done();
    listed.json().as_array().unwrap().len()
}

fn served(network: &Network, name: &str) {
    let port = network.tls;
    let (address, url) = (format!("{name}:{port}:127.0.0.1"), format!("https://{name}:{port}/"));
    let root = word(&network.root());
    Ended::of(Command::new("curl").args([
        "--silent",
        "--fail",
        "--cacert",
        &root,
        "--resolve",
        &address,
        &url,
    ]))
    .done();
}

/// A backup, made and restored with what comes with the database.
struct Backup(String);

impl Backup {
    fn take(replica: &Replica, database: Database) -> Self {
        let file = word(&replica.scratch.path().join("backup"));
        match database {
            Database::Sqlite => {
                let live = replica.scratch.path().join("holdfast.db");
                Ended::of(Command::new("sqlite3").arg(live).arg(format!(".backup {file}"))).done()
            }
            Database::Postgres => Ended::of(Command::new("pg_dump").args([
                "--clean",
                "--if-exists",
                "--file",
                &file,
                &url(replica),
            ]))
            .done(),
        };
        Self(file)
    }

    fn restore(&self, replica: &Replica, database: Database) {
        match database {
            Database::Sqlite => {
                let live = replica.scratch.path().join("holdfast.db");
                for leftover in ["holdfast.db-wal", "holdfast.db-shm"] {
                    let _ = std::fs::remove_file(replica.scratch.path().join(leftover));
                }
                std::fs::copy(&self.0, live).unwrap();
            }
            Database::Postgres => {
                let arguments = [
                    "--quiet",
                    "--no-psqlrc",
                    "--set",
                    "ON_ERROR_STOP=1",
                    "--file",
                    &self.0,
                    &url(replica),
                ];
                Ended::of(Command::new("psql").args(arguments)).done();
            }
        }
    }

    /// As docs/backup.md says for each.
    fn restored(&self, replica: &Replica, database: Database) -> Ended {
        match database {
            Database::Sqlite => replica.with_config(["restore", &self.0]).done(),
            Database::Postgres => {
                self.restore(replica, database);
                replica.with_config(["restored"]).done()
            }
        }
    }
}

fn url(replica: &Replica) -> String {
    let text = replica.read("holdfast.toml");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("url = ")).unwrap();
    line.trim_matches('"').to_owned()
}

/// Few and quick signs of life: nothing is restored within one of them.
fn builtin(network: &Network) -> String {
    let edge = format!("[edge]\nmode = \"builtin\"\nhttps = \"127.0.0.1:{}\"", network.tls);
    format!("[replicas]\nheartbeat_seconds = 1\nstale_seconds = 3\n{edge}")
}

#[tokio::test]
async fn a_backup_twenty_certificates_old_on_sqlite() {
    walk(Database::Sqlite).await;
}

#[tokio::test]
async fn a_backup_twenty_certificates_old_on_postgres() {
    walk(Database::Postgres).await;
}

/// A backup older than a change of the account's key: its key is lost, and every domain waits for one thing.
async fn key_changed_since(database: Database) {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, database, &builtin(&network)).await;
    replica.run(["domain", "add", "before.test", "--wait"]).done();
    replica.run(["ca", "register"]).refused(1, &["can be used"]);
    let backup = Backup::take(&replica, database);
    replica.run(["key", "rotate", "--account"]).done();
    replica.kill().await;
    let told = backup.restored(&replica, database);
    for words in ["does not accept the account", "holdfast ca register"] {
        assert!(told.stdout.contains(words), "no `{words}` in {told:?}");
    }
    replica.begin().await;
    // Before anything is ordered.
    told_of(&replica, &["ca-account-unusable"]).await;
    let names = ["a.test", "b.test", "c.test"];
    for name in names {
        replica.run(["domain", "add", name]).done();
    }
    for name in names {
        let explained = eventually(SOON, "the cause is told", async || {
            let explained =
                replica.run(["domain", "explain", name, "--output", "json"]).done().json();
            let is_told = explained["cause"] == "acme-account-unusable";
            if is_told { Ok(explained) } else { Err(explained) }
        })
        .await;
        assert_eq!(explained["who"], "operator", "{explained}");
        assert!(explained["fix"].as_str().unwrap().contains("holdfast ca register"), "{explained}");
        let history = replica.run(["domain", "history", name, "--output", "json"]).done().json();
        let history = history["items"].as_array().unwrap();
        assert!(history.iter().all(|line| line["error"].is_null()), "no try was lost: {history:?}");
    }
    told_of(&replica, &["ca-account-unusable"]).await;
    replica.run(["ca", "register"]).done();
    for name in names {
        eventually(SOON * 2, "it is Active", async || {
            let shown = replica.run(["domain", "show", name, "--output", "json"]).done().json();
            if shown["state"] == "Active" { Ok(()) } else { Err(shown) }
        })
        .await;
    }
    told_of(&replica, &[]).await;
    replica.end(SOON).await;
    let again = replica.with_config(["restored"]).done();
    assert!(again.stdout.contains("The CA knows the account."), "{again:?}");
}

#[tokio::test]
async fn an_account_whose_key_was_changed_since_the_backup_is_one_cause_for_all_on_sqlite() {
    key_changed_since(Database::Sqlite).await;
}

#[tokio::test]
async fn an_account_whose_key_was_changed_since_the_backup_is_one_cause_for_all_on_postgres() {
    key_changed_since(Database::Postgres).await;
}

async fn told_of(replica: &Replica, codes: &[&str]) {
    eventually(SOON, "the alerts", async || match alerts(replica) {
        told if told == codes => Ok(()),
        told => Err(told.join(", ")),
    })
    .await;
}

/// The codes of what is told to the operator.
fn alerts(replica: &Replica) -> Vec<String> {
    let (url, token) = (format!("{}/v1/alerts", replica.url()), replica.read("admin.token"));
    let header = format!("Authorization: Bearer {}", token.trim());
    let asked = Command::new("curl").args(["--silent", "--header", &header, &url]).output();
    let alerts: serde_json::Value = serde_json::from_slice(&asked.unwrap().stdout).unwrap();
    let alerts = alerts["items"].as_array().unwrap().iter();
    alerts.map(|one| one["code"].as_str().unwrap().to_owned()).collect()
}

/// A removal and a revocation are undone by a backup from before, but the CA remembers.
async fn revoked_since(database: Database) {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, database, &builtin(&network)).await;
    for name in ["revoked.test", "kept.test"] {
        replica.run(["domain", "add", name, "--wait"]).done();
    }
    let backup = Backup::take(&replica, database);
    let serial = |replica: &Replica, name: &str| {
        let shown = replica.run(["domain", "show", name, "--output", "json"]).done().json();
        shown["certificate"]["serial"].as_str().map(ToOwned::to_owned)
    };
    let (revoked, kept) = (serial(&replica, "revoked.test"), serial(&replica, "kept.test"));
    replica.run(["domain", "remove", "revoked.test", "--revoke", "--wait"]).done();
    replica.end(SOON).await;
    backup.restored(&replica, database);
    replica.begin().await;
    assert_eq!(certificates(&network), 2);
    eventually(SOON, "another certificate", async || {
        let now = serial(&replica, "revoked.test");
        if now != revoked { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert_eq!(serial(&replica, "kept.test"), kept, "what is good stays");
}

#[tokio::test]
async fn what_was_revoked_since_the_backup_is_replaced_at_once_on_sqlite() {
    revoked_since(Database::Sqlite).await;
}

#[tokio::test]
async fn what_was_revoked_since_the_backup_is_replaced_at_once_on_postgres() {
    revoked_since(Database::Postgres).await;
}
