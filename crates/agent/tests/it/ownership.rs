//! Files that were in the agent's directory before it, or were put there by others, stay as they are.

use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_agent::{AgentConfig, FilesConfig, FilesTarget, Layout, Target};
use holdfast_testkit::{Scratch, eventually};

use crate::kit::{Authority, LIMIT, Memory, Proxied, Running, pem};

/// A directory with files of its operator's.
struct Theirs {
    directory: PathBuf,
    files: Vec<(&'static str, String)>,
}

impl Theirs {
    fn put(directory: &Path, files: Vec<(&'static str, String)>) -> Self {
        std::fs::create_dir_all(directory).unwrap();
        for (file, text) in &files {
            std::fs::write(directory.join(file), text).unwrap();
        }
        Self { directory: directory.to_owned(), files }
    }

    fn are_untouched(&self) {
        for (file, text) in &self.files {
            let there = std::fs::read_to_string(self.directory.join(file));
            assert_eq!(there.ok().as_ref(), Some(text), "{file}");
        }
    }
}

async fn is_refused(memory: &Memory, host: &str) {
    let told = |memory: &Memory| memory.observed(host)?.error;
    let note = memory.until("the refusal", told).await;
    assert_eq!(&*note.code, "edge-file-not-ours", "{note}");
    assert!(note.detail.contains("move it to another directory"), "{note}");
}

#[tokio::test]
async fn files_of_others_are_never_removed_nor_written_over() {
    for layout in [Layout::Combined, Layout::Separate, Layout::Both] {
        let (memory, authority, scratch) =
            (Arc::<Memory>::default(), Authority::new(), Scratch::new().unwrap());
        let config = FilesConfig::new(scratch.path().join("certs"), scratch.path().join("data"));
        let config = FilesConfig { layout, ..config };
        let old = authority.issue("theirs.test");
        let chain = old.chain_pem.clone();
        let key = String::from_utf8(old.key.expose().to_vec()).unwrap();
        let mut files = vec![("notes.txt", "mine".to_owned())];
        for name in ["theirs.test", "unrelated.test"] {
            let [crt, key_file, whole] = [".crt", ".key", ".pem"]
                .map(|ending| &*Box::leak(format!("{name}{ending}").into_boxed_str()));
            files.extend([(crt, chain.clone()), (key_file, key.clone()), (whole, pem(&old))]);
        }
        let theirs = Theirs::put(&config.directory, files);
        let target: Arc<dyn Target> = Arc::new(FilesTarget::new(config.clone()).unwrap());
        let running = Running::start(memory.clone(), target, AgentConfig::default());
        let ours = memory.deploy(&authority.issue("ours.test"));
        memory.deploy(&authority.issue("theirs.test"));
        memory.until_seen("ours.test", Some(&ours)).await;
        is_refused(&memory, "theirs.test").await;
        theirs.are_untouched();
        for name in ["theirs.test", "ours.test"] {
            memory.withdraw(name);
            memory.until_seen(name, None).await;
        }
        theirs.are_untouched();
        let left = std::fs::read_dir(&config.directory).unwrap().count();
        assert_eq!(left, theirs.files.len(), "{layout:?}: nothing of ours is left");
        running.stop().await;
    }
}

/// The same certificate is no conflict: whose file it is matters no more. So an agent whose data was lost goes on.
#[tokio::test]
async fn an_agent_that_lost_its_data_goes_on_with_what_it_served() {
    let (memory, authority, scratch) =
        (Arc::<Memory>::default(), Authority::new(), Scratch::new().unwrap());
    let settings =
        |data: &str| FilesConfig::new(scratch.path().join("certs"), scratch.path().join(data));
    let run = |config: FilesConfig| {
        let target: Arc<dyn Target> = Arc::new(FilesTarget::new(config).unwrap());
        Running::start(memory.clone(), target, AgentConfig::default())
    };
    let running = run(settings("data"));
    let first = memory.deploy(&authority.issue("shop.test"));
    memory.until_seen("shop.test", Some(&first)).await;
    running.stop().await;
    let running = run(settings("other-data"));
    eventually(LIMIT, "the file to be taken for ours again", async || {
        let manifest = std::fs::read_to_string(scratch.path().join("other-data/manifest"));
        if manifest?.contains("+shop.test.pem\n") { Ok(()) } else { Err(Error::other("not yet")) }
    })
    .await;
    let second = memory.deploy(&authority.issue("shop.test"));
    memory.until_seen("shop.test", Some(&second)).await;
    running.stop().await;
}

/// What the release before put there is ours: it kept no manifest, but its revision.
#[tokio::test]
async fn files_of_the_release_before_are_taken_over() {
    let (memory, authority, scratch) =
        (Arc::<Memory>::default(), Authority::new(), Scratch::new().unwrap());
    let config = FilesConfig::new(scratch.path().join("certs"), scratch.path().to_owned());
    let target = || Arc::new(FilesTarget::new(config.clone()).unwrap()) as Arc<dyn Target>;
    let running = Running::start(memory.clone(), target(), AgentConfig::default());
    let first = memory.deploy(&authority.issue("shop.test"));
    memory.until_seen("shop.test", Some(&first)).await;
    running.stop().await;
    std::fs::remove_file(scratch.path().join("manifest")).unwrap();
    scratch.write("revision", "").unwrap();
    let _running = Running::start(memory.clone(), target(), AgentConfig::default());
    memory.withdraw("shop.test");
    memory.until_seen("shop.test", None).await;
    assert!(!config.directory.join("shop.test.pem").exists());
}

/// In HAProxy's directory, loaded or not.
#[tokio::test]
async fn haproxy_files_of_others_are_never_removed_nor_written_over() {
    let haproxy = holdfast_testkit::Haproxy::prepare().unwrap();
    let settings = crate::kit::settings(&haproxy);
    let authority = Authority::new();
    let theirs = Theirs::put(
        &settings.directory,
        vec![
            ("theirs.test.pem", pem(&authority.issue("theirs.test"))),
            ("unrelated.test.pem", pem(&authority.issue("unrelated.test"))),
            (".gone.test~", "mine".to_owned()),
        ],
    );
    let mut edge = Proxied::with(haproxy).await;
    let running = edge.run();
    edge.served("ours.test").await;
    edge.deploy("theirs.test");
    is_refused(&edge.memory, "theirs.test").await;
    theirs.are_untouched();
    for name in ["theirs.test", "ours.test"] {
        edge.memory.withdraw(name);
        edge.memory.until_seen(name, None).await;
    }
    theirs.are_untouched();
    assert!(!settings.directory.join("ours.test.pem").exists());
    running.stop().await;
    // HAProxy starts without them: they are on no list of ours.
    edge.haproxy.restart().await.unwrap();
    let _running = edge.run();
    edge.served("other.test").await;
    theirs.are_untouched();
}
