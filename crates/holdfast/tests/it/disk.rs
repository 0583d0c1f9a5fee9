//! A disk that is full, a database file that is gone: told by everything that people ask, and healed where it can heal.

use std::{
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use holdfast_testkit::{Process, SmallDisk, eventually, mounted_alone, read_only};
use serde_json::Value;

use crate::{
    kit::{Ended, SOON, is_ready, text, word},
    replica::{Database, Network, Replica},
};

/// Longer than usual: everything waits for the disk here.
const LATER: Duration = Duration::from_secs(120);

/// An answer of a replica, whatever its status.
fn asked(replica: &Replica, path: &str) -> (String, Value) {
    let url = format!("{}{path}", replica.url());
    let token = format!("Authorization: Bearer {}", replica.read("admin.token").trim());
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "20", "--write-out", "\n%{http_code}", "-H", &token]);
    let answer = Ended::of(curl.arg(url)).stdout;
    let (body, status) = answer.rsplit_once('\n').unwrap_or_default();
    (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

async fn ready(replica: &Replica, status: &str) -> Value {
    eventually(LATER, "readiness", async || {
        let (seen, body) = asked(replica, "/health/ready");
        if seen == status { Ok(body) } else { Err(format!("{seen}: {body}")) }
    })
    .await
}

#[tokio::test]
async fn a_full_disk_is_told_everywhere_and_work_goes_on_when_there_is_room() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let directory = replica.scratch.path().join("disk");
    std::fs::create_dir(&directory).unwrap();
    let disk = SmallDisk::new(&directory, 8 << 10);
    let mut command = replica.command();
    let url = format!("sqlite:{}", directory.join("holdfast.db").display());
    command.env("HOLDFAST__DATABASE__URL", url);
    let process = Process::spawn("replica", &disk.command(&command)).unwrap();
    process.wait_for_line(SOON, is_ready).await.unwrap();
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    ready(&replica, "200").await;
    disk.fill(process.pid()).unwrap();
    let told = ready(&replica, "503").await;
    assert_eq!(text(&told, "/results/database/data/cause"), "database-disk-full");
    let (_, alerts) = asked(&replica, "/v1/alerts");
    assert_eq!(text(&alerts, "/items/0/code"), "database-unavailable");
    assert_eq!(text(&alerts, "/items/0/subject"), "database-disk-full");
    let why = asked(&replica, "/v1/domains/shop.test/explain").1;
    assert_eq!((text(&why, "/cause"), text(&why, "/who")), ("database-disk-full", "operator"));
    let found = replica.run(["doctor"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(
        found.stdout.contains("its disk is full") && found.stdout.contains("Make room"),
        "{found:?}"
    );
    // A small row may still fit into what the log has; many do not.
    eventually(LATER, "an addition that is refused", async || {
        let name = format!("n{}.test", uuid::Uuid::new_v4().simple());
        let added = replica.run(["domain", "add", &name]);
        if added.stderr.contains("its disk is full") { Ok(()) } else { Err(added.stdout) }
    })
    .await;
    disk.free(process.pid()).unwrap();
    ready(&replica, "200").await;
    replica.run(["domain", "add", "new.test", "--wait"]).done();
}

/// A command with the configuration does not begin anew where a database was lost.
fn refuses(replica: &Replica, words: &[&str]) {
    let mut command = crate::kit::program();
    command.args(words).args(["--config", &word(&replica.config())]);
    Ended::of(&mut command).refused(1, &["missing or empty", "Restore a backup"]);
}

/// As systemd's credentials and mounted secrets are.
#[tokio::test]
async fn a_key_in_a_directory_that_cannot_be_written_is_no_obstacle() {
    const KEY: &str = "Rf0m3m9ohTqHrcKIBZvDSh1cy0kF6bYxE5Wq2uJpXlM=";
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let path = |name: &str| replica.scratch.path().join(name);
    std::fs::create_dir(path("secrets")).unwrap();
    replica.scratch.write("secrets/master.key", KEY).unwrap();
    let mut command = replica.command();
    command.env("HOLDFAST__SECURITY__MASTER_KEY_FILE", path("secrets/master.key"));
    let command = read_only(&path("secrets"), &command);
    for _ in 0..2 {
        let process = Process::spawn("replica", &command).unwrap();
        process.wait_for_line(SOON, is_ready).await.unwrap();
    }
    assert!(!path("secrets/master.key.in-use").exists());
    assert!(path("holdfast.db.in-use").exists());
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(path(&format!("holdfast.db{suffix}"))).ok();
    }
    let mut command = command;
    Ended::of(&mut command).refused(1, &["missing or empty", "holdfast.db.in-use"]);
    assert!(!path("holdfast.db").exists());
}

#[tokio::test]
async fn a_replica_whose_file_is_deleted_ends_at_once() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    std::fs::remove_file(replica.scratch.path().join("holdfast.db")).unwrap();
    let status = replica.process().wait(LATER).await.unwrap();
    let log = replica.process().log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("was deleted, renamed or replaced while it was in use"), "{log}");
}

/// As `mv` or a restore by hand puts another file in its place.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
async fn a_replica_in_whose_place_another_file_is_put_ends_and_leaves_that_one_alone() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let file = replica.scratch.path().join("holdfast.db");
    let other = file.with_extension("other");
    replica.with_config(["backup", &word(&other)]).done();
    let before = std::fs::read(&other).unwrap();
    std::fs::rename(&other, &file).unwrap();
    let status = replica.process().wait(LATER).await.unwrap();
    let log = replica.process().log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("was deleted, renamed or replaced while it was in use"), "{log}");
    assert!(std::fs::read(&file).unwrap() == before, "the other file was written to");
}

/// Overwrites the first page of a table of which few take notice.
fn damage(file: &Path) {
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'webhook'";
    let found = Ended::of(Command::new("sqlite3").arg(file).arg(sql)).done().stdout;
    let page: u64 = found.trim().parse().unwrap();
    let database = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    database.write_all_at(&[0xff; 4096], (page - 1) * 4096).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_named_by_all_who_look_at_it_and_nothing_is_written_to_it() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    replica.end(SOON).await;
    let whole = replica.with_config(["doctor"]).done();
    assert!(whole.stdout.contains("holdfast.db was checked"), "{whole:?}");
    damage(&replica.scratch.path().join("holdfast.db"));
    let found = replica.with_config(["doctor"]).refused(1, &["wrong"]);
    for words in ["holdfast.db is damaged", "restore a backup"] {
        assert!(found.stdout.contains(words), "no `{words}` in {found:?}");
    }
    let before = std::fs::read(replica.scratch.path().join("holdfast.db")).unwrap();
    let refused = replica.with_config(["restored"]);
    refused.refused(1, &["holdfast.db is damaged", "restore a backup"]);
    let after = std::fs::read(replica.scratch.path().join("holdfast.db")).unwrap();
    assert!(before == after, "a damaged file was written to");
    // Where it is not met it does no harm, and a server that meets it says so.
    replica.begin().await;
    replica.run(["webhook", "list"]).refused(1, &["is corrupt"]);
    let told = ready(&replica, "503").await;
    assert_eq!(text(&told, "/results/database/data/cause"), "database-corrupt");
    let found = replica.run(["doctor"]).refused(1, &["wrong"]);
    assert!(found.stdout.contains("is corrupt") && found.stdout.contains("restore a backup"));
    let why = asked(&replica, "/v1/domains/shop.test/explain").1;
    assert_eq!((text(&why, "/cause"), text(&why, "/who")), ("database-corrupt", "operator"));
}

/// Another process that keeps a database for itself alone, readers included.
struct Keeper(Child);

impl Keeper {
    async fn start(file: &Path) -> Self {
        let mut keeper = Command::new("sqlite3");
        keeper.arg(file).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut keeper = Self(keeper.spawn().unwrap());
        let sign = file.with_extension("kept");
        let input = keeper.0.stdin.as_mut().unwrap();
        let text = "PRAGMA locking_mode = EXCLUSIVE;\nBEGIN EXCLUSIVE;\n.shell touch ";
        writeln!(input, "{text}{}", sign.display()).unwrap();
        eventually(SOON, "the lock", async || sign.exists().then_some(()).ok_or("none yet")).await;
        keeper
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
async fn a_file_that_another_process_keeps_for_itself_is_told_as_locked() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.end(SOON).await;
    let keeper = Keeper::start(&replica.scratch.path().join("holdfast.db")).await;
    let held = "another process or a long transaction holds its lock";
    let doctor = replica.with_config(["doctor"]).refused(1, &["wrong"]);
    assert!(doctor.stdout.contains(held), "{doctor:?}");
    let backup = word(&replica.scratch.path().join("backup.db"));
    replica.with_config(["backup", &backup]).refused(1, &["open in another process"]);
    Ended::of(&mut replica.command()).refused(3, &[held]);
    drop(keeper);
    replica.begin().await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
async fn a_replica_whose_file_is_replaced_ends_at_once_and_writes_nothing() {
    let network = Network::start().await;
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    replica.begin().await;
    let file = replica.scratch.path().join("holdfast.db");
    std::fs::rename(&file, file.with_extension("aside")).unwrap();
    let status = replica.process().wait(LATER).await.unwrap();
    let log = replica.process().log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("was deleted, renamed or replaced while it was in use"), "{log}");
    assert!(!file.exists());
    // Nor does it begin anew without a word.
    let refused = Ended::of(&mut replica.command());
    let refused =
        refused.refused(1, &["missing or empty", "Restore a backup", "master.key.in-use"]);
    assert_eq!(refused.stderr.lines().filter(|line| line.contains("missing or empty")).count(), 1);
    assert!(!file.exists());
    let new_key = word(&replica.scratch.path().join("new.key"));
    let rotate = ["key", "rotate", "--new-master-key-file", &new_key];
    for words in [&["restored"][..], &["migrate"], &["token", "list"], &rotate] {
        refuses(&replica, words);
        assert!(!file.exists(), "{words:?}");
    }
    let doctor = replica.with_config(["doctor"]);
    assert!(doctor.stdout.contains("missing or empty"), "{doctor:?}");
    replica.scratch.write("holdfast.db", "").unwrap();
    let doctor = replica.with_config(["doctor"]);
    assert!(doctor.stdout.contains("missing or empty"), "{doctor:?}");
    refuses(&replica, &["restored"]);
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(file.with_extension("aside"), &file).unwrap();
    replica.begin().await;
    replica.end(SOON).await;
    // With the marker gone, somebody has said that it shall begin anew.
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(replica.scratch.path().join("master.key.in-use")).unwrap();
    assert!(word(&file).ends_with("holdfast.db"));
    replica.begin().await;
}

fn rows(replica: &Replica, statement: &str) -> String {
    let file = replica.scratch.path().join("holdfast.db");
    Ended::of(Command::new("sqlite3").arg(file).arg(statement)).done().stdout.trim().to_owned()
}

#[tokio::test]
async fn a_replica_whose_log_is_deleted_ends_at_once_and_loses_nothing() {
    let network = Network::start().await;
    let extra = "[replicas]\nheartbeat_seconds = 1\nstale_seconds = 3\n[edge]\nmode = \"none\"";
    let mut replica = Replica::start(&network, Database::Sqlite, extra).await;
    replica.run(["domain", "add", "shop.test"]).done();
    let log = replica.scratch.path().join("holdfast.db-wal");
    assert!(log.metadata().unwrap().len() > 0, "the log holds what was written last");
    std::fs::remove_file(&log).unwrap();
    let status = replica.process().wait(LATER).await.unwrap();
    let log = replica.process().log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("was deleted, replaced or cut off while it was in use"), "{log}");
    assert!(log.contains("the log was put back"), "{log}");
    assert_eq!(rows(&replica, "SELECT name FROM domain"), "shop.test");
    replica.begin().await;
    replica.run(["domain", "add", "new.test"]).done();
}

#[tokio::test]
async fn after_an_end_in_order_the_database_is_one_whole_file() {
    let network = Network::start().await;
    let mut replica = Replica::start(&network, Database::Sqlite, "").await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let alone = |replica: &Replica| {
        for suffix in ["-wal", "-shm"] {
            let file = replica.scratch.path().join(format!("holdfast.db{suffix}"));
            assert!(!file.exists(), "{suffix}");
        }
    };
    replica.end(SOON).await;
    alone(&replica);
    for words in [&["migrate"][..], &["token", "list"], &["doctor"]] {
        let mut command = crate::kit::program();
        Ended::of(command.args(words).args(["--config", &word(&replica.config())]));
        alone(&replica);
    }
}

#[tokio::test]
async fn a_database_that_is_mounted_without_its_directory_is_refused() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let path = |name: &str| replica.scratch.path().join(name);
    std::fs::create_dir(path("host")).unwrap();
    replica.scratch.write("host/holdfast.db", "").unwrap();
    replica.scratch.write("holdfast.db", "").unwrap();
    let within =
        |command: &Command| mounted_alone(&path("host/holdfast.db"), &path("holdfast.db"), command);
    let told = ["is mounted by itself", "Mount the directory"];
    Ended::of(&mut within(&replica.command())).refused(1, &told);
    let mut doctor = crate::kit::program();
    doctor.args(["doctor", "--config", &word(&replica.config())]);
    let doctor = Ended::of(&mut within(&doctor));
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(told.iter().all(|told| doctor.stdout.contains(told)), "{doctor:?}");
    assert!(!path("holdfast.db-wal").exists());
}
