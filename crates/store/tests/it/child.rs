//! A process of its own: this test binary, run again for one of the tests below, which other tests pass by.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use holdfast_store::{MasterKey, OpenOptions, migrate, open};

const URL: &str = "HOLDFAST_STORE_TEST_URL";
const KEY: &str = "HOLDFAST_STORE_TEST_KEY";

/// Starts one of the tests below as a process; it says `ready` when it is.
pub(crate) fn start(test: &str, url: &str, key: &MasterKey) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("child::{test}"), "--ignored", "--nocapture"])
        .env(URL, url)
        .env(KEY, key.to_base64().as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Reads what the child prints until it says so.
pub(crate) fn wait_ready(child: &mut Child) {
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let ready = output.lines().map(Result::unwrap).any(|line| line.contains("ready"));
    assert!(ready, "the child ended before it was ready");
}

#[expect(clippy::disallowed_methods, reason = "an order from the test that started this process")]
fn ordered() -> (String, MasterKey) {
    let key = MasterKey::parse(&std::env::var(KEY).unwrap()).unwrap();
    (std::env::var(URL).unwrap(), key)
}

/// Lives until its standard input ends.
fn live() {
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by other tests as a process of its own"]
async fn migrates() {
    let (url, _) = ordered();
    migrate(&url).await.unwrap();
    println!("ready");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by other tests as a process of its own"]
async fn holds_the_store_open() {
    let (url, key) = ordered();
    let _store = open(&url, Some(key), OpenOptions::default()).await.unwrap();
    tokio::task::spawn_blocking(live).await.unwrap();
}

/// Some parts, and never the end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by other tests as a process of its own"]
async fn forgets_what_was_seen() {
    let (url, key) = ordered();
    let store = open(&url, Some(key), OpenOptions::default()).await.unwrap();
    for _ in 0..50 {
        store.forget_departed(None, 50).await.unwrap().unwrap();
        println!("ready");
    }
    tokio::task::spawn_blocking(live).await.unwrap();
}

/// A step at a time, and never the last.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by other tests as a process of its own"]
async fn rotates_its_key() {
    let (url, key) = ordered();
    let store = open(&url, Some(key), OpenOptions::default()).await.unwrap();
    store.new_data_key().await.unwrap();
    let mut after = None;
    for _ in 0..30 {
        println!("ready");
        after = store.reseal(after.as_ref(), 1).await.unwrap().next;
    }
    tokio::task::spawn_blocking(live).await.unwrap();
}
