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
    assert!(told.stdout.contains("epoch 2"), "{told:?}");
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
}

fn url(replica: &Replica) -> String {
    let text = replica.read("holdfast.toml");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("url = ")).unwrap();
    line.trim_matches('"').to_owned()
}

#[tokio::test]
async fn a_backup_twenty_certificates_old_on_sqlite() {
    walk(Database::Sqlite).await;
}

#[tokio::test]
async fn a_backup_twenty_certificates_old_on_postgres() {
    walk(Database::Postgres).await;
}
