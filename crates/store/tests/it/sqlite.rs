//! What only SQLite has: one process, a lock file, claims that are void after a restart.

use std::os::unix::fs::PermissionsExt as _;

use holdfast_model::{Outcome, State};
use holdfast_store::{
    Error, MasterKey, OpenOptions, Outage, Products, SharedStore, master_key_id, migrate, open,
};
use holdfast_testkit::Scratch;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

use crate::{child, kit::*};

pub(crate) struct File {
    pub(crate) directory: Scratch,
    pub(crate) key: MasterKey,
}

impl File {
    pub(crate) fn new() -> Self {
        Self { directory: Scratch::new().unwrap(), key: MasterKey::generate().unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("holdfast.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    pub(crate) async fn open(&self) -> SharedStore {
        opened(&self.url(), &self.key).await
    }

    async fn raw(&self, sql: String) {
        let mut connection = SqliteConnection::connect(&self.url()).await.unwrap();
        connection.execute(AssertSqlSafe(sql)).await.unwrap();
        connection.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_and_told_who() {
    let file = File::new();
    let mut first = child::start("holds_the_store_open", &file.url(), &file.key);
    child::wait_ready(&mut first);
    let refused = open(&file.url(), Some(file.key.clone()), OpenOptions::default()).await;
    let refused = refused.err().unwrap();
    let text = refused.to_string();
    let Error::FileInUse { path, holder } = refused else { panic!("{text}") };
    assert_eq!(path, file.path().display().to_string());
    assert!(holder.contains(&format!("process {} since 20", first.id())), "{holder}");
    assert!(matches!(migrate(&file.url()).await, Err(Error::FileInUse { .. })));
    assert!(matches!(master_key_id(&file.url()).await, Err(Error::FileInUse { .. })));
    // However the first one ends, the file is free then.
    first.kill().unwrap();
    first.wait().unwrap();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_handle_is_refused_until_the_first_is_gone() {
    let file = File::new();
    let first = file.open().await;
    let refused = open(&file.url(), Some(file.key.clone()), OpenOptions::default()).await;
    assert!(matches!(refused.err(), Some(Error::FileInUse { .. })));
    drop(first);
    file.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_by_whatever_path_it_comes() {
    let file = File::new();
    let mut first = child::start("holds_the_store_open", &file.url(), &file.key);
    child::wait_ready(&mut first);
    let elsewhere = Scratch::new().unwrap();
    let link = elsewhere.path().join("holdfast.db");
    std::fs::hard_link(file.path(), &link).unwrap();
    let url = format!("sqlite:{}", link.display());
    let refused = open(&url, Some(file.key.clone()), OpenOptions::default()).await;
    let text = refused.err().unwrap().to_string();
    assert!(text.contains(&format!("process {}, which opened it by another path", first.id())));
    first.kill().unwrap();
    first.wait().unwrap();
}

/// SQLite's own locks are lost when this process closes any descriptor of the file; then others change it below us.
#[tokio::test(flavor = "multi_thread")]
async fn sqlites_own_locks_outlive_whatever_is_asked_of_the_file_meanwhile() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    assert!(open(&file.url(), Some(file.key.clone()), OpenOptions::default()).await.is_err());
    assert!(migrate(&file.url()).await.is_err());
    assert!(master_key_id(&file.url()).await.is_err());
    // Only while nobody else has the database open does SQLite let go of its log.
    let other = std::process::Command::new("sqlite3")
        .arg(file.path())
        .arg("PRAGMA journal_mode=DELETE")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("database is locked"), "{said}{:?}", other.stdout);
    add(&store, "new.example.com").await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
async fn what_would_go_to_a_file_that_is_gone_or_replaced_is_refused() {
    for replace in [false, true] {
        let file = File::new();
        let store = file.open().await;
        add(&store, "shop.example.com").await;
        let aside = file.directory.path().join("aside.db");
        std::fs::rename(file.path(), &aside).unwrap();
        if replace {
            std::fs::copy(&aside, file.path()).unwrap();
        }
        let refused = store.add(&fresh("new.example.com")).await.err().unwrap();
        assert_eq!(refused.outage(), Some(Outage::Replaced), "{refused}");
        assert!(!refused.is_transient());
        let unwritable = store.check_writes().await.err().unwrap();
        assert_eq!(unwritable.outage(), Some(Outage::Replaced));
        assert_eq!(file.path().exists(), replace);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_file_cannot_be_opened_is_told_apart() {
    let file = File::new();
    file.directory.write("holdfast.db", [b'x'; 8192]).unwrap();
    let refused = open(&file.url(), Some(file.key.clone()), OpenOptions::default()).await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.outage(), Some(Outage::NotADatabase), "{refused}");
    assert!(!refused.is_transient());
    let nowhere = format!("sqlite:{}", file.directory.path().join("none/holdfast.db").display());
    let refused = open(&nowhere, Some(file.key.clone()), OpenOptions::default()).await;
    assert_eq!(refused.err().unwrap().outage(), Some(Outage::CannotOpen));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_work_goes_on_at_once() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    let old = claim_one(&store, &claimant("before")).await;
    drop(store);
    let store = file.open().await;
    let new = claim_one(&store, &claimant("after")).await;
    assert_eq!((new.domain.id, new.domain.lapses), (old.domain.id, 1));
    let commit = commit_of(&store, &old, &Outcome::Accepted, Products::default(), true).await;
    assert!(matches!(store.commit(&old, &commit).await, Err(Error::ClaimLost)));
    drop(store);
    // Who is in every crash waits longer each time.
    let store = file.open().await;
    let idle = store.claim(&claimant("third"), 1, HOLD).await.unwrap();
    assert!(idle.work.is_empty() && idle.next_due_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_domain_stays_queued_over_a_restart() {
    let file = File::new();
    let store = file.open().await;
    add(&store, "shop.example.com").await;
    into_queue(&store, claim_one(&store, &claimant("w")).await).await;
    drop(store);
    let store = file.open().await;
    assert!(claim_all(&store, &claimant("w")).await.is_empty());
    let account = account(&store).await;
    admit_one(&store, &claimant("w"), account).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_are_for_their_owner_alone() {
    let file = File::new();
    let store = file.open().await;
    active(&store, "shop.example.com", "1").await;
    let mut files = 0;
    for entry in std::fs::read_dir(file.directory.path()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("holdfast.db") {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
            files += 1;
        }
    }
    // The database, its log, the log's index and the lock.
    assert_eq!(files, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_master_key_is_refused_and_so_is_none() {
    let file = File::new();
    migrate(&file.url()).await.unwrap();
    assert_eq!(master_key_id(&file.url()).await.unwrap(), None);
    let store = file.open().await;
    let secret = store.cluster_secret().await.unwrap();
    drop(store);
    assert_eq!(master_key_id(&file.url()).await.unwrap(), Some(file.key.id()));
    let other = MasterKey::generate().unwrap();
    let refused = open(&file.url(), Some(other.clone()), OpenOptions::default()).await.err();
    assert!(matches!(refused, Some(Error::WrongMasterKey { .. })));
    let refused = open(&file.url(), None, OpenOptions::default()).await.err();
    assert!(matches!(refused, Some(Error::MasterKeyMissing(id)) if id == file.key.id()));
    let store = file.open().await;
    store.rewrap(&other).await.unwrap();
    drop(store);
    let store = opened(&file.url(), &other).await;
    assert_eq!(store.cluster_secret().await.unwrap(), secret);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_and_its_rows_are_tolerated() {
    let file = File::new();
    let store = file.open().await;
    let (a, b) = (add(&store, "a.example.com").await, add(&store, "b.example.com").await);
    drop(store);
    let blob = a.id.0.simple();
    file.raw("INSERT INTO holdfast_migration VALUES (999, 'future', 0)".to_owned()).await;
    file.raw("ALTER TABLE domain ADD COLUMN mood TEXT NOT NULL DEFAULT 'good'".to_owned()).await;
    file.raw(format!("UPDATE domain SET state = 'Dreaming' WHERE id = x'{blob}'")).await;
    file.raw(format!("UPDATE event SET to_state = 'Dreaming' WHERE domain_id = x'{blob}'")).await;
    let store = file.open().await;
    assert_eq!(store.schema().await.unwrap().0, 999);
    assert_eq!(claim_one(&store, &claimant("w")).await.domain.id, b.id);
    let page = holdfast_store::Page { limit: 10, after: None };
    assert_eq!(store.domains(&Default::default(), &page).await.unwrap().items.len(), 2);
    assert_eq!(store.counts().await.unwrap(), [(State::Initial, 1)]);
    assert_eq!(store.history(a.id, &page).await.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_killed_process() {
    let file = File::new();
    let store = file.open().await;
    let names: Vec<_> =
        add_numbered(&store, 20).await.into_iter().map(|domain| domain.name).collect();
    // No goodbye: connections and lock are simply gone, as after a kill, and the log is read anew.
    drop(store);
    let store = file.open().await;
    for name in names {
        assert!(store.domain_named(&name).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_give_up_spoil_nobody() {
    let file = File::new();
    let store = file.open().await;
    store.add(&fresh("taken.example.com")).await.unwrap();
    let kept = at_once(40, |n| {
        let store = store.clone();
        async move {
            let mut kept = Vec::new();
            for m in 0..10_u64 {
                let new = fresh(&format!("n{n}-{m}.example.com"));
                if n % 2 == 0 {
                    // Gives up somewhere in the middle, or just too late.
                    let give_up = std::time::Duration::from_micros(m * 300);
                    tokio::time::timeout(give_up, store.add_many(std::slice::from_ref(&new)))
                        .await
                        .ok();
                } else {
                    kept.push(store.add(&new).await.unwrap().domain);
                }
                // Refused in the middle of everybody's transaction.
                assert!(store.add(&fresh("taken.example.com")).await.is_err());
            }
            kept
        }
    })
    .await;
    for domain in kept.into_iter().flatten() {
        assert_eq!(store.domain(domain.id).await.unwrap().as_ref(), Some(&domain));
    }
    let real: u64 = store.counts().await.unwrap().iter().map(|(_, count)| count).sum();
    let page = holdfast_store::Page { limit: 1_000, after: None };
    let listed = store.domains(&Default::default(), &page).await.unwrap().items;
    assert_eq!(u64::try_from(listed.len()).unwrap(), real);
    drop(store);
    // What was answered is on the disk.
    let store = file.open().await;
    let again = store.domains(&Default::default(), &page).await.unwrap().items;
    assert_eq!(again.len(), listed.len());
}
