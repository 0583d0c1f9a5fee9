//! A real store for each test: SQLite, in a directory that goes with the process.

use std::sync::{Arc, Mutex};

use holdfast_store::{Accounts, MasterKey, OpenOptions};
use holdfast_testkit::Scratch;

/// Held until the process ends: the store that lies in it may live as long.
static DIRECTORIES: Mutex<Vec<Scratch>> = Mutex::new(Vec::new());

pub(crate) async fn open() -> Arc<dyn Accounts> {
    let directory = Scratch::new().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store.db").display());
    DIRECTORIES.lock().unwrap().push(directory);
    let key = MasterKey::generate().unwrap();
    holdfast_store::open(&url, Some(key), OpenOptions::default()).await.unwrap()
}
