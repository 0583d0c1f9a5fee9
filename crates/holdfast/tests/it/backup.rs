//! `holdfast backup` and `holdfast restore`: a backup taken while the server writes, put in the place of a database whose process was
//! killed, and a restore that is itself killed anywhere.

use std::{
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use holdfast_testkit::{Postgres, Proxy, Scratch, SmallDisk, pace};

use crate::{
    kit::{Ended, SOON, Up, program, word},
    replica::{Database, Network, Replica},
};

/// What SQLite's own program says of a file.
fn sqlite(file: &Path, statement: &str) -> String {
    let ended = Ended::of(Command::new("sqlite3").arg(file).arg(statement)).done();
    ended.stdout.trim().to_owned()
}

fn names(file: &Path) -> String {
    assert_eq!(sqlite(file, "PRAGMA integrity_check"), "ok", "{}", file.display());
    sqlite(file, "SELECT group_concat(name) FROM (SELECT name FROM domain ORDER BY name)")
}

fn add(replica: &Replica, name: &str) {
    replica.run(["domain", "add", name]).done();
}

/// A directory with the database of a server that was killed, its log beside it, and a backup from before.
struct Crashed {
    replica: Replica,
    backup: PathBuf,
    network: Network,
}

impl Crashed {
    async fn make() -> Self {
        let network = Network::start().await;
        let mut replica =
            Replica::start(&network, Database::Sqlite, "[edge]\nmode = \"none\"").await;
        add(&replica, "before.test");
        let backup = replica.scratch.path().join("backup.db");
        replica.with_config(["backup", &word(&backup)]).done();
        for number in 0..5 {
            add(&replica, &format!("since-{number}.test"));
        }
        replica.kill().await;
        let log = replica.scratch.path().join("holdfast.db-wal");
        assert!(log.metadata().unwrap().len() > 0, "the log holds what was written last");
        Self { replica, backup, network }
    }

    fn database(&self) -> PathBuf {
        self.replica.scratch.path().join("holdfast.db")
    }

    fn restore(&self) -> Ended {
        self.replica.with_config(["restore", &word(&self.backup)])
    }
}

const SINCE: &str = "before.test,since-0.test,since-1.test,since-2.test,since-3.test,since-4.test";

#[tokio::test]
async fn a_restore_after_a_crash_is_the_backup_and_keeps_what_was_there() {
    let mut crashed = Crashed::make().await;
    assert_eq!(crashed.backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let told = crashed.restore().done();
    assert!(told.stdout.contains("are in epoch") && told.stdout.contains("kept as"), "{told:?}");
    assert_eq!(names(&crashed.database()), "before.test");
    assert_eq!(crashed.database().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let kept = told.stdout.split_whitespace().find(|word| word.contains(".before-restore-"));
    assert_eq!(names(Path::new(kept.unwrap().trim_end_matches(';'))), SINCE);
    // It is a database that serves, and adds what is added again.
    crashed.replica.begin().await;
    add(&crashed.replica, "since-0.test");
    let refused = crashed.restore().refused(1, &["in use"]);
    assert!(refused.stderr.contains("process"), "{refused:?}");
    crashed.replica.end(SOON).await;
    assert_eq!(names(&crashed.database()), "before.test,since-0.test");
    // The same backup again gives other numbers.
    let again = crashed.restore().done();
    assert_ne!(epoch(&told), epoch(&again));
    drop(crashed.network);
}

fn epoch(told: &Ended) -> String {
    let at = told.stdout.find("are in epoch ").unwrap() + "are in epoch ".len();
    told.stdout[at..].chars().take_while(char::is_ascii_digit).collect()
}

#[tokio::test]
async fn a_restore_that_is_killed_anywhere_leaves_the_old_database_or_the_new_one() {
    let crashed = Crashed::make().await;
    let scratch = Scratch::new().unwrap();
    let recording = scratch.path().join("recording");
    let whole = Copy::of(&crashed, &scratch, "whole");
    let mut command = whole.restore(&crashed.backup);
    Ended::of(command.env("HOLDFAST_CRASH_RECORD", &recording)).done();
    let recorded = std::fs::read_to_string(&recording).unwrap();
    let moves = recorded.lines().filter(|line| line.contains("file.database")).count();
    assert!(moves >= 3, "the copy, the old name and the new place: {recorded}");
    let mut seen = Vec::new();
    for occurrence in 1..=moves {
        for side in ["before", "after"] {
            let copy = Copy::of(&crashed, &scratch, &format!("{occurrence}-{side}"));
            let place = format!("file.database:{occurrence}:{side}");
            let ended = Ended::of(copy.restore(&crashed.backup).env("HOLDFAST_CRASH", &place));
            assert_ne!(ended.code, 0, "{place}: {ended:?}");
            let found = names(&copy.database());
            assert!(found == SINCE || found == "before.test", "{place}: {found}");
            seen.push(found);
            // And nothing that was left lying about is in the way.
            Ended::of(&mut copy.restore(&crashed.backup)).done();
            assert_eq!(names(&copy.database()), "before.test", "{place}");
        }
    }
    assert!(seen.first().unwrap() == SINCE && seen.last().unwrap() == "before.test", "{seen:?}");
}

/// The crashed database in a directory of its own.
struct Copy(PathBuf);

impl Copy {
    fn of(crashed: &Crashed, scratch: &Scratch, name: &str) -> Self {
        let directory = scratch.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        for file in ["holdfast.db", "holdfast.db-wal", "master.key", "admin.token", "holdfast.toml"]
        {
            std::fs::copy(crashed.replica.scratch.path().join(file), directory.join(file)).unwrap();
        }
        Self(directory)
    }

    fn database(&self) -> PathBuf {
        self.0.join("holdfast.db")
    }

    fn restore(&self, backup: &Path) -> Command {
        let mut command = program();
        command.arg("restore").arg(backup).arg("--config").arg(self.0.join("holdfast.toml"));
        command
    }
}

#[tokio::test]
async fn a_file_that_is_no_backup_changes_nothing() {
    let crashed = Crashed::make().await;
    let files = crashed.replica.scratch.path();
    let at = |name: &str| word(&files.join(name));
    let restore = |name: &str| crashed.replica.with_config(["restore", &at(name)]);
    let before = std::fs::read(crashed.database()).unwrap();
    restore("nowhere.db").refused(1, &["nowhere.db does not exist"]);
    std::fs::write(files.join("text.db"), "a letter\n".repeat(1_000)).unwrap();
    restore("text.db").refused(1, &["not a database of Holdfast"]);
    sqlite(&files.join("other.db"), "CREATE TABLE letter (text TEXT)");
    restore("other.db").refused(1, &["not a database of Holdfast"]);
    restore("holdfast.db").refused(1, &["is the database itself"]);
    std::fs::copy(&crashed.backup, files.join("damaged.db")).unwrap();
    let damaged = std::fs::OpenOptions::new().write(true).open(files.join("damaged.db")).unwrap();
    damaged.write_all_at(&[0x5a; 4096], 3 * 4096).unwrap();
    restore("damaged.db").refused(1, &["is damaged", "nothing was changed"]);
    let key = std::fs::read(files.join("master.key")).unwrap();
    std::fs::remove_file(files.join("master.key")).unwrap();
    crashed.restore().refused(1, &["master key"]);
    std::fs::write(files.join("master.key"), key).unwrap();
    assert_eq!(std::fs::read(crashed.database()).unwrap(), before);
    // Nor is a backup written over another file unasked.
    let backup = |file: &str| crashed.replica.with_config(["backup", file]);
    backup(&at("text.db")).refused(1, &["already exists", "--overwrite"]);
    crashed.replica.with_config(["backup", &at("text.db"), "--overwrite"]).done();
    assert_eq!(names(&files.join("text.db")), SINCE);
}

/// There is nothing to do about the database, which is on another disk.
#[tokio::test]
async fn a_full_disk_is_told_of_the_backup_not_of_the_database() {
    let crashed = Crashed::make().await;
    let directory = crashed.replica.scratch.path().join("backups");
    std::fs::create_dir(&directory).unwrap();
    let mut command = program();
    command.arg("backup").arg(directory.join("backup.db"));
    command.arg("--config").arg(crashed.replica.config());
    let disk = SmallDisk::new(&directory, 64);
    let refused = Ended::of(&mut disk.command(&command)).refused(1, &["disk is full"]);
    assert!(refused.stderr.contains("backups/backup.db "), "{refused:?}");
    assert!(!refused.stderr.contains("holdfast.db "), "{refused:?}");
}

#[tokio::test]
async fn on_postgresql_its_own_tools_are_named() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Postgres, "").await;
    for word in ["backup", "restore"] {
        replica.with_config([word, "FILE"]).refused(2, &["pg_dump", "holdfast restored --config"]);
    }
}

#[tokio::test]
async fn up_goes_on_from_its_backup() {
    let mut up = Up::start().await;
    up.run(["domain", "add", "before.test", "--wait"]).done();
    let backup = word(&up.scratch.path().join("backup.db"));
    let told = up.run(["backup", &backup]).done();
    assert!(told.stdout.contains("master.key"), "{told:?}");
    up.run(["domain", "add", "since.test"]).done();
    up.run(["restore", &backup]).refused(1, &["in use"]);
    up.kill().await;
    up.run(["restore", &backup]).done();
    up.begin().await;
    up.run(["domain", "add", "since.test", "--wait"]).done();
    up.visit("before.test").done();
    up.visit("since.test").done();
    // The database alone is enough. What root makes for it belongs to whoever owns the directory; these tests run as root.
    up.end().await;
    let made = ["holdfast.db", "holdfast.db.lock", "up.lock"].map(|name| up.data().join(name));
    made.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    chown(up.data(), Some(65_534), Some(65_533)).unwrap();
    up.run(["restore", &backup]).done();
    for file in made {
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (65_534, 65_533), "{}", file.display());
    }
    up.begin().await;
    up.visit("before.test").done();
    up.run(["domain", "show", "since.test"]).refused(1, &["since.test"]);
}

/// A restored database holds old signs of life; what keeps `restored` from going on is a new one.
#[tokio::test]
async fn nothing_is_restored_under_a_running_replica() {
    let network = Network::start().await;
    let extra = "[replicas]\nheartbeat_seconds = 1\nstale_seconds = 3\n[edge]\nmode = \"none\"";
    let mut replica = Replica::start(&network, Database::Postgres, extra).await;
    replica.with_config(["restored"]).refused(1, &["The replica `", "runs"]);
    replica.kill().await;
    replica.with_config(["restored"]).done();
}

/// The restart of the database has cut off a replica that nobody stopped: it is not connected now, and will be.
#[tokio::test]
async fn nothing_is_restored_under_a_replica_that_is_about_to_come_back() {
    let network = Network::start().await;
    let extra = "[replicas]\nheartbeat_seconds = 1\nstale_seconds = 3\n[edge]\nmode = \"none\"";
    let mut replica = Replica::prepare(&network, Database::Postgres, extra).await;
    let config = replica.read("holdfast.toml");
    let direct = config.split('"').find(|text| text.starts_with("postgres://")).unwrap().to_owned();
    let proxy = Proxy::before(Postgres::shared().await.unwrap().port()).await.unwrap();
    let through = config.replace(&direct, &proxy.lead(&direct));
    replica.scratch.write("holdfast.toml", through).unwrap();
    replica.begin().await;
    proxy.refuse().await;
    proxy.cut();
    let mut command = program();
    command.args(["restored", "--config", &word(&replica.config())]);
    command.env("HOLDFAST__DATABASE__URL", direct);
    // The proxy runs on this thread, so nothing may block it.
    let restored = tokio::task::spawn_blocking(move || Ended::of(&mut command));
    pace(Duration::from_millis(500)).await;
    proxy.resume().await;
    restored.await.unwrap().refused(1, &["The replica `", "runs"]);
}
