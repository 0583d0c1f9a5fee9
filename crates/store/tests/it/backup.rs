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
