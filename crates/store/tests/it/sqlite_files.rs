//! Where SQLite's files lie: paths by which its log would not be found, a log that is removed while it is in use, one whole file at the end.

use std::{
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use holdfast_store::{Error, MasterKey, Misplacement, OpenOptions, Outage, SharedStore, open};
use holdfast_testkit::{Scratch, eventually};

use crate::{kit::*, sqlite::File};

const SOON: Duration = Duration::from_secs(20);

fn beside(file: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    // The lock of the test's own directory.
    let mut names: Vec<_> = names.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

async fn refused(file: &Path, key: &MasterKey) -> Option<Misplacement> {
    let url = format!("sqlite:{}", file.display());
    match open(&url, Some(key.clone()), OpenOptions::default()).await.err() {
        Some(Error::Misplaced { why, .. }) => Some(why),
        other => panic!("{other:?}"),
    }
}

/// What a process that begins anew finds.
async fn copied(file: &File) -> SharedStore {
    let copy = file.directory.path().join("copy.db");
    for suffix in ["", "-wal"] {
        let Ok(bytes) = std::fs::read(beside(&file.path(), suffix)) else { continue };
        #[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
        std::fs::write(beside(&copy, suffix), bytes).unwrap();
    }
    opened(&format!("sqlite:{}", copy.display()), &file.key).await
}

/// What SQLite says of a whole file.
fn integrity(file: &Path) -> String {
    let checked = Command::new("sqlite3").arg(file).arg("PRAGMA integrity_check").output().unwrap();
    String::from_utf8(checked.stdout).unwrap()
}

/// As `cp -al` leaves it, or a backup program that makes hard links.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_end_in_order_a_second_name_does_no_harm() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    let link = file.directory.path().join("second.db");
    std::fs::hard_link(file.path(), &link).unwrap();
    store.close().await.unwrap();
    drop(store);
    for path in [&link, &file.path()] {
        let store = opened(&format!("sqlite:{}", path.display()), &file.key).await;
        assert!(store.domain_named(&host("shop.example.com")).await.unwrap().is_some());
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_a_file_is_opened_by_the_name_alone_that_has_its_log() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    // What a process that is killed leaves.
    let crashed = Scratch::new().unwrap();
    let path = crashed.path().join("holdfast.db");
    for suffix in ["", "-wal"] {
        std::fs::copy(beside(&file.path(), suffix), beside(&path, suffix)).unwrap();
    }
    let link = crashed.path().join("second.db");
    std::fs::hard_link(&path, &link).unwrap();
    assert_eq!(refused(&link, &file.key).await, Some(Misplacement::SeveralNames));
    let store = opened(&format!("sqlite:{}", path.display()), &file.key).await;
    assert!(store.domain_named(&host("shop.example.com")).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_name_that_a_killed_restore_leaves_is_no_obstacle() {
    let file = File::new();
    drop(file.open().await);
    let [kept, other] = ["20261118T221502", "20261118T221503"]
        .map(|time| beside(&file.path(), &format!(".before-restore-{time}")));
    std::fs::hard_link(file.path(), &kept).unwrap();
    let name = other.file_name().unwrap().to_str().unwrap();
    file.directory.write(name, "older").unwrap();
    file.open().await;
    assert!(!kept.exists());
    assert!(other.exists(), "an older database that a restore kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_refused_at_once() {
    let file = File::new();
    let at = |name: &str| file.directory.path().join(name);
    std::fs::create_dir(at("directory")).unwrap();
    Command::new("mkfifo").arg(at("pipe")).status().unwrap();
    for path in [at("directory"), at("pipe"), "/dev/null".into()] {
        assert_eq!(refused(&path, &file.key).await, Some(Misplacement::NotAFile));
    }
    assert_eq!(names(file.directory.path()), ["directory", "pipe"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_symbolic_link_is_followed_and_everything_lies_beside_what_it_leads_to() {
    for exists in [false, true] {
        let file = File::new();
        if exists {
            drop(file.open().await);
        }
        let elsewhere = Scratch::new().unwrap();
        let (link, second) = (elsewhere.path().join("link.db"), elsewhere.path().join("second.db"));
        symlink(&second, &link).unwrap();
        symlink(file.path(), &second).unwrap();
        let url = format!("sqlite:{}", link.display());
        let store = opened(&url, &file.key).await;
        add(&store, "shop.example.com").await;
        assert_eq!(names(elsewhere.path()), ["link.db", "second.db"]);
        let beside = ["holdfast.db", "holdfast.db-shm", "holdfast.db-wal", "holdfast.db.lock"];
        assert_eq!(names(file.directory.path()), beside);
        assert!(store.log_bytes().await > 0);
        // What would be written by the old path would not be found by the new one.
        std::fs::remove_file(&link).unwrap();
        symlink(elsewhere.path().join("nowhere.db"), &link).unwrap();
        let unwritable = store.check_writes().await.err().unwrap();
        assert_eq!(unwritable.outage(), Some(Outage::Replaced));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_removed_log_holds_is_saved_and_nothing_is_written_any_more() {
    for (suffix, replaced) in [("-wal", false), ("-wal", true), ("-shm", false), ("-shm", true)] {
        let file = File::new();
        let store = file.open().await;
        add(&store, "before.example.com").await;
        std::fs::remove_file(beside(&file.path(), suffix)).unwrap();
        if replaced {
            file.directory.write(&format!("holdfast.db{suffix}"), "").unwrap();
        }
        let refused = store.add(&fresh("after.example.com")).await.err().unwrap();
        assert_eq!(refused.outage(), Some(Outage::LogRemoved), "{refused}");
        assert!(!refused.is_transient());
        let unwritable = store.check_writes().await.err().unwrap();
        assert_eq!(unwritable.outage(), Some(Outage::LogRemoved));
        let read = copied(&file).await;
        assert!(read.domain_named(&host("before.example.com")).await.unwrap().is_some());
        assert!(read.domain_named(&host("after.example.com")).await.unwrap().is_none());
        // As a process that ends at once.
        std::mem::forget(store);
    }
}

/// Half of a log must not be written into the file: the reader keeps the rest from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_removed_under_a_reader_is_whole_afterwards() {
    let file = File::new();
    let store = file.open().await;
    let add_many = async |part: &str| {
        for number in 0..40 {
            add(&store, &format!("{part}-{number}.example.com")).await;
        }
    };
    add_many("before").await;
    let reader = Reader::start(&file.path()).await;
    add_many("after").await;
    std::fs::remove_file(beside(&file.path(), "-wal")).unwrap();
    let refused = store.check_writes().await.err().unwrap();
    assert_eq!(refused.outage(), Some(Outage::LogRemoved), "{refused}");
    std::mem::forget(store.clone());
    let read = copied(&file).await;
    drop(reader);
    for part in ["before", "after"] {
        for number in 0..40 {
            let name = host(&format!("{part}-{number}.example.com"));
            assert!(read.domain_named(&name).await.unwrap().is_some(), "{name}");
        }
    }
    read.close().await.unwrap();
    assert_eq!(integrity(&file.directory.path().join("copy.db")), "ok\n");
}

/// What is in the file was whole before, and stays so.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_cut_off_is_noticed_and_not_written_into_the_file() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "before.example.com").await;
    store.close().await.unwrap();
    drop(store);
    let store = file.open().await;
    add(&store, "after.example.com").await;
    let log = std::fs::File::options().write(true).open(beside(&file.path(), "-wal")).unwrap();
    log.set_len(0).unwrap();
    let refused = store.check_writes().await.err().unwrap();
    assert_eq!(refused.outage(), Some(Outage::LogRemoved), "{refused}");
    assert!(store.close().await.is_err());
    std::mem::forget(store);
    let copy = file.directory.path().join("copy.db");
    std::fs::copy(file.path(), &copy).unwrap();
    assert_eq!(integrity(&copy), "ok\n");
}

/// By hand, as many restore a backup after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_put_beside_the_log_of_another_is_refused() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "before.example.com").await;
    let backup = file.directory.path().join("backup.db");
    holdfast_store::back_up(&file.path(), &backup, false).await.unwrap();
    add(&store, "after.example.com").await;
    let crashed = Scratch::new().unwrap();
    let path = crashed.path().join("holdfast.db");
    // The process is killed: what it leaves is moved here with all its names.
    for suffix in ["", "-wal", ".lock"] {
        std::fs::hard_link(beside(&file.path(), suffix), beside(&path, suffix)).unwrap();
    }
    std::mem::forget(store);
    #[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
    std::fs::rename(&backup, &path).unwrap();
    // Unlocked, as after the end of the process.
    let note = std::fs::read(beside(&path, ".lock")).unwrap();
    std::fs::remove_file(beside(&path, ".lock")).unwrap();
    crashed.write("holdfast.db.lock", String::from_utf8(note).unwrap()).unwrap();
    assert_eq!(refused(&path, &file.key).await, Some(Misplacement::AnothersLog));
    std::fs::remove_file(beside(&path, "-wal")).unwrap();
    let store = opened(&format!("sqlite:{}", path.display()), &file.key).await;
    assert!(store.domain_named(&host("before.example.com")).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_closed_is_one_whole_file() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    store.counts().await.unwrap();
    let clone = store.clone();
    store.close().await.unwrap();
    assert_eq!(names(file.directory.path()), ["holdfast.db", "holdfast.db.lock"]);
    assert!(clone.add(&fresh("late.example.com")).await.is_err());
    assert!(clone.counts().await.is_err());
    assert_eq!(names(file.directory.path()), ["holdfast.db", "holdfast.db.lock"]);
    let read = copied(&file).await;
    assert!(read.domain_named(&host("shop.example.com")).await.unwrap().is_some());
}

/// A process that keeps reading an old state.
struct Reader(Child);

impl Reader {
    async fn start(file: &Path) -> Self {
        let sign = beside(file, ".read");
        let mut child = Command::new("sqlite3").arg(file).stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.as_mut().unwrap();
        writeln!(stdin, "BEGIN;\nSELECT count(*) FROM domain;\n.shell touch {}", sign.display())
            .unwrap();
        eventually(SOON, "the reader", async || sign.exists().then_some(()).ok_or("none yet"))
            .await;
        Self(child)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A process that has the database locked.
struct Locker(Child);

impl Locker {
    async fn start(file: &Path) -> Self {
        let sign = beside(file, ".locked");
        let mut child = Command::new("sqlite3").arg(file).stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.as_mut().unwrap();
        writeln!(stdin, "BEGIN IMMEDIATE;\n.shell touch {}", sign.display()).unwrap();
        eventually(SOON, "the lock", async || sign.exists().then_some(()).ok_or("none yet")).await;
        Self(child)
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_holds_sqlites_lock_is_named() {
    let file = File::new();
    let store = file.open().await;
    let locker = Locker::start(&file.path()).await;
    let refused = store.check_writes().await.err().unwrap();
    assert_eq!(refused.outage(), Some(Outage::Locked), "{refused}");
    assert!(refused.is_transient());
    let named = format!("a lock of process {} (sqlite3)", locker.0.id());
    assert!(refused.to_string().contains(&named), "{refused}");
}
