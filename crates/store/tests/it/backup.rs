//! What only goes wrong in a backup or a restore: a database that somebody has open, a name that is taken, a damaged one with its log.

use std::path::{Path, PathBuf};

use holdfast_store::{BackupError, MasterKey, Replacement, back_up};
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
