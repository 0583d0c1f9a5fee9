//! What only goes wrong in a backup or a restore: a database that somebody has open, a name that is taken, a damaged one with its log.

use std::{
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use holdfast_store::{BackupError, MasterKey, Outage, Replacement, back_up, check_file};
use holdfast_testkit::{Scratch, run_sql};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::kit::*;

/// A database with a domain, and a backup of it.
struct Files {
    scratch: Scratch,
    database: PathBuf,
    backup: PathBuf,
}

impl Files {
    async fn make() -> Self {
        let scratch = Scratch::new().unwrap();
        let (database, backup) =
            (scratch.path().join("holdfast.db"), scratch.path().join("backup.db"));
        let store = opened(&url(&database), &MasterKey::generate().unwrap()).await;
        add(&store, "shop.example.com").await;
        drop(store);
        back_up(&database, &backup, false).await.unwrap();
        Self { scratch, database, backup }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.scratch.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn url(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_somebody_has_open_is_left_as_it_is() {
    let files = Files::make().await;
    let mut other = SqliteConnection::connect(&url(&files.database)).await.unwrap();
    other.execute("CREATE TABLE others (id); INSERT INTO others VALUES (1)").await.unwrap();
    let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
    let refused = replacement.put_in_place().await.unwrap_err();
    assert!(matches!(refused, BackupError::Busy(_)), "{refused:?}");
    assert!(refused.to_string().contains("open in another process"), "{refused}");
    let names = files.names();
    assert!(names.contains(&"holdfast.db-wal".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("before-restore")), "{names:?}");
    other.close().await.unwrap();
    run_sql(&url(&files.database), "SELECT id FROM others").unwrap();
}

/// A link that leads nowhere: no file is there, and yet the name is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_finds_its_name_taken_leaves_no_copy_behind() {
    let files = Files::make().await;
    let to = files.scratch.path().join("again.db");
    std::os::unix::fs::symlink("nowhere", &to).unwrap();
    back_up(&files.database, &to, false).await.unwrap_err();
    let names = files.names();
    assert!(!names.iter().any(|name| name.contains("unfinished")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_all_pages_finds_damage_and_has_an_end() {
    let files = Files::make().await;
    let minute = Duration::from_secs(60);
    assert!(check_file(&files.database, minute).await.unwrap());
    assert!(!check_file(&files.database, Duration::ZERO).await.unwrap(), "it was to end at once");
    let database = std::fs::OpenOptions::new().write(true).open(&files.backup).unwrap();
    database.write_all_at(&[0x5a; 4096], 3 * 4096).unwrap();
    let found = check_file(&files.backup, minute).await.unwrap_err();
    assert_eq!(found.outage(), Some(Outage::Corrupt));
    assert!(found.to_string().contains("backup.db is damaged"), "{found}");
    let missing = check_file(&files.scratch.path().join("nowhere.db"), minute).await;
    assert!(matches!(missing, Err(BackupError::Missing(_))), "{missing:?}");
}

/// The log may be all that is left of a file that was cut off.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_is_not_opened_and_its_log_stays() {
    let files = Files::make().await;
    let (empty, log) =
        (files.scratch.path().join("empty.db"), files.scratch.path().join("empty.db-wal"));
    for (file, text) in [(&empty, ""), (&log, "what is left")] {
        files.scratch.write(file.to_str().unwrap(), text).unwrap();
    }
    let to = files.scratch.path().join("to.db");
    let told = [
        check_file(&empty, Duration::from_secs(60)).await.err(),
        back_up(&empty, &to, false).await.err(),
        Replacement::prepare(&empty, &files.database).await.err(),
    ];
    for error in told {
        assert!(matches!(error, Some(BackupError::Empty(_))), "{error:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "what is left");
}

/// By its name, by a link, by a second name of the file.
#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_the_database_are_no_place_for_a_backup_nor_a_backup() {
    let files = Files::make().await;
    let at = |name: &str| files.scratch.path().join(name);
    let key = MasterKey::generate().unwrap();
    let database = at("other.db");
    let store = opened(&url(&database), &key).await;
    add(&store, "shop.example.com").await;
    std::os::unix::fs::symlink(at("other.db-wal"), at("link.db")).unwrap();
    std::fs::hard_link(at("other.db-wal"), at("second.db")).unwrap();
    let own = ["other.db", "other.db-wal", "other.db-shm", "other.db-journal", "other.db.lock"];
    for name in own.into_iter().chain(["other.db.restoring", "link.db", "second.db"]) {
        let refused = back_up(&database, &at(name), true).await.unwrap_err();
        assert!(matches!(refused, BackupError::Itself(_)), "{name}: {refused:?}");
    }
    add(&store, "new.example.com").await;
    back_up(&database, &at("whole.db"), false).await.unwrap();
    store.close().await.unwrap();
    // What a killed restore left is not removed by restoring it.
    std::fs::copy(&files.backup, at("other.db.restoring")).unwrap();
    std::fs::hard_link(&database, at("second name.db")).unwrap();
    for name in ["other.db", "other.db.restoring", "second name.db"] {
        let refused = Replacement::prepare(&at(name), &database).await.err().unwrap();
        assert!(matches!(refused, BackupError::Itself(_)), "{name}: {refused:?}");
        assert!(at(name).exists(), "{name}");
    }
}

/// The name under which a copy is made first may be the database's.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_not_made_in_the_databases_place() {
    let files = Files::make().await;
    let database = files.scratch.path().join("shop.unfinished");
    std::fs::copy(&files.backup, &database).unwrap();
    let to = files.scratch.path().join("shop");
    let refused = back_up(&database, &to, false).await.unwrap_err();
    assert!(matches!(refused, BackupError::Itself(_)), "{refused:?}");
    back_up(&database, &files.scratch.path().join("whole.db"), false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_neither_backup_nor_its_place() {
    let files = Files::make().await;
    let at = |name: &str| files.scratch.path().join(name);
    std::fs::create_dir(at("directory")).unwrap();
    std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
    for path in [at("directory"), at("pipe"), "/dev/null".into()] {
        let refused = back_up(&files.database, &path, true).await.unwrap_err();
        assert!(matches!(refused, BackupError::NotAFile(_)), "{refused:?}");
        let refused = Replacement::prepare(&path, &files.database).await.err().unwrap();
        assert!(matches!(refused, BackupError::NotAFile(_)), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_behind_a_symbolic_link_is_replaced_where_it_lies() {
    let files = Files::make().await;
    let elsewhere = Scratch::new().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(&files.database, &link).unwrap();
    run_sql(&url(&files.database), "CREATE TABLE others (id)").unwrap();
    let replacement = Replacement::prepare(&files.backup, &link).await.unwrap();
    let kept = replacement.put_in_place().await.unwrap().unwrap();
    assert_eq!(kept.parent(), files.database.parent());
    assert!(link.is_symlink());
    let beside = std::fs::read_dir(elsewhere.path()).unwrap().map(Result::unwrap);
    assert_eq!(beside.filter(|entry| entry.file_name() != ".lock").count(), 1);
    assert!(run_sql(&url(&files.database), "SELECT id FROM others").is_err());
    run_sql(&url(&kept), "SELECT id FROM others").unwrap();
}
