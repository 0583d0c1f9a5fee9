//! What only goes wrong in a backup or a restore: a database that somebody has open, a name that is taken, a damaged one with its log.

use std::{
    fs::{File, Permissions},
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
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

/// Owner, group and mode.
fn ownership(file: &Path) -> (u32, u32, u32) {
    let metadata = file.metadata().unwrap();
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o777)
}

/// The journal of a transaction that is killed in the middle: in `database`, of which it leaves what is written by then.
fn kill_in_transaction(database: &Path) {
    let fill = "PRAGMA journal_mode = DELETE; CREATE TABLE filler (text);
        WITH RECURSIVE line(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM line WHERE n < 400)
        INSERT INTO filler SELECT printf('%01000d', n) FROM line;";
    let begin = "PRAGMA cache_size = 1; BEGIN; UPDATE filler SET text = hex(text);";
    let file = database.display();
    // SQLite removes the journal when it ends in order, so both files are taken away and put back.
    let steps = [
        fill.to_owned(),
        begin.to_owned(),
        format!(".shell cp '{file}' '{file}.cut' && cp '{file}-journal' '{file}.cut-journal'"),
        "ROLLBACK".to_owned(),
    ];
    let status = Command::new("sqlite3").arg(database).args(steps).status().unwrap();
    assert!(status.success());
    for suffix in ["", "-journal"] {
        let mut put_back = Command::new("mv");
        put_back.arg(format!("{file}.cut{suffix}")).arg(format!("{file}{suffix}"));
        assert!(put_back.status().unwrap().success());
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
    Command::new("mkfifo").arg(at("pipe")).status().unwrap();
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

/// A server that runs as another user must be able to open what root restored. These tests run as root.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_belongs_to_whoever_owned_the_old_one() {
    let files = Files::make().await;
    let lock = files.scratch.path().join("holdfast.db.lock");
    std::fs::set_permissions(&files.database, Permissions::from_mode(0o640)).unwrap();
    chown(&files.database, Some(65_534), Some(65_533)).unwrap();
    std::fs::remove_file(&lock).unwrap();
    let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
    let kept = replacement.put_in_place().await.unwrap().unwrap();
    for file in [&files.database, &lock, &kept] {
        assert_eq!(ownership(file), (65_534, 65_533, 0o640), "{}", file.display());
    }
}

/// Neither does a lock that is there change hands.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_restored_where_none_was_belongs_to_the_owner_of_the_directory() {
    let files = Files::make().await;
    let lock = files.scratch.path().join("holdfast.db.lock");
    chown(files.scratch.path(), Some(65_534), Some(65_533)).unwrap();
    std::fs::remove_file(&files.database).unwrap();
    chown(&lock, Some(65_532), Some(65_532)).unwrap();
    let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
    // Also what a restore leaves that ends here.
    assert_eq!(ownership(&files.database), (65_534, 65_533, 0o600));
    replacement.put_in_place().await.unwrap();
    assert_eq!(ownership(&files.database), (65_534, 65_533, 0o600));
    assert_eq!(ownership(&lock), (65_532, 65_532, 0o600));
    for file in [&files.database, &lock] {
        std::fs::remove_file(file).unwrap();
    }
    let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
    replacement.put_in_place().await.unwrap();
    assert_eq!(ownership(&lock), (65_534, 65_533, 0o600));
}

/// SQLite would read it into the backup.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_another_file_does_not_stay_beside_a_backup() {
    let files = Files::make().await;
    let to = files.scratch.path().join("to.db");
    for suffix in ["-wal", "-shm", "-journal"] {
        let name = format!("to.db{suffix}");
        files.scratch.write(&name, "of another file").unwrap();
        let refused = back_up(&files.database, &to, false).await.unwrap_err();
        assert!(matches!(refused, BackupError::Exists(_)), "{refused:?}");
        assert!(refused.to_string().contains(&name), "{refused}");
        assert!(!to.exists());
        back_up(&files.database, &to, true).await.unwrap();
        assert!(!files.names().contains(&name), "{:?}", files.names());
        std::fs::remove_file(&to).unwrap();
    }
}

/// What is removed beside a backup may be the database itself, by its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_named_as_a_log_is_not_removed() {
    let files = Files::make().await;
    for name in ["to.db-wal", "to.db-journal", "to.db.unfinished-wal"] {
        let database = files.scratch.path().join(name);
        std::fs::copy(&files.backup, &database).unwrap();
        let to = files.scratch.path().join("to.db");
        let refused = back_up(&database, &to, true).await.unwrap_err();
        assert!(matches!(refused, BackupError::Itself(_)), "{name}: {refused:?}");
        assert!(database.exists(), "{name}");
        std::fs::remove_file(&database).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_into_one_file_at_once_are_each_whole() {
    let files = Files::make().await;
    run_sql(&url(&files.database), "CREATE TABLE filler AS SELECT zeroblob(4000000)").unwrap();
    let to = files.scratch.path().join("to.db");
    let made: Vec<_> = (0..6)
        .map(|_| {
            let (database, to) = (files.database.clone(), to.clone());
            tokio::spawn(async move { back_up(&database, &to, true).await })
        })
        .collect();
    for one in made {
        let size = one.await.unwrap().unwrap();
        assert!(size > 4_000_000, "{size}");
    }
    assert_eq!(ownership(&to).2, 0o600);
    assert!(check_file(&to, Duration::from_secs(60)).await.unwrap());
    assert!(!files.names().iter().any(|name| name.contains("unfinished")), "{:?}", files.names());
}

/// Neither a second backup nor a restore of one that is being replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_another_one_keeps_waiting_says_so() {
    let files = Files::make().await;
    let directory = File::open(files.scratch.path()).unwrap();
    directory.lock().unwrap();
    let (database, backup) = (files.database.clone(), files.backup.clone());
    let told = tokio::task::spawn_blocking(move || {
        // Nothing but the wait happens there, so its time may be skipped.
        let mut paused = tokio::runtime::Builder::new_current_thread();
        paused.enable_all().start_paused(true).build().unwrap().block_on(async {
            let restored = Replacement::prepare(&backup, &database).await.err().unwrap();
            [back_up(&database, &backup, true).await.unwrap_err(), restored]
        })
    });
    for refused in told.await.unwrap() {
        assert!(matches!(refused, BackupError::Underway(_)), "{refused:?}");
        let told = refused.to_string();
        assert!(told.contains("backup.db") && told.contains("another backup or restore"), "{told}");
    }
    drop(directory);
    back_up(&files.database, &files.backup, true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_beside_the_database_is_not_rolled_into_the_restored_one() {
    let files = Files::make().await;
    let at = |name: &str| files.scratch.path().join(name);
    let journal = at("holdfast.db-journal");
    kill_in_transaction(&at("other.db"));
    for is_missing in [true, false] {
        std::fs::remove_file(&files.database).unwrap();
        if !is_missing {
            files.scratch.write("holdfast.db", "").unwrap();
        }
        std::fs::copy(at("other.db-journal"), &journal).unwrap();
        let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
        replacement.put_in_place().await.unwrap();
        assert!(!journal.exists());
        run_sql(&url(&files.database), "SELECT name FROM domain").unwrap();
        assert!(check_file(&files.database, Duration::from_secs(60)).await.unwrap());
    }
    // A restore that was killed left one beside its copy.
    std::fs::copy(at("other.db-journal"), at("holdfast.db.restoring-journal")).unwrap();
    drop(Replacement::prepare(&files.backup, &files.database).await.unwrap());
    assert!(!at("holdfast.db.restoring-journal").exists());
}

/// It is a part of that database, as a log is.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_of_the_old_database_is_rolled_back_into_it() {
    let files = Files::make().await;
    kill_in_transaction(&files.database);
    let replacement = Replacement::prepare(&files.backup, &files.database).await.unwrap();
    let kept = replacement.put_in_place().await.unwrap().unwrap();
    assert!(check_file(&kept, Duration::from_secs(60)).await.unwrap());
    let filler = "SELECT 1 / (count(*) = 400 AND max(length(text)) = 1000) FROM filler";
    let mut old = SqliteConnection::connect(&url(&kept)).await.unwrap();
    let whole: Option<i64> = sqlx::query_scalar(filler).fetch_one(&mut old).await.unwrap();
    assert_eq!(whole, Some(1), "the transaction was not rolled back");
    assert!(!files.names().iter().any(|name| name.ends_with("-journal")), "{:?}", files.names());
    run_sql(&url(&files.database), "SELECT name FROM domain").unwrap();
}
