//! Files and a reload command: nginx, and what goes wrong with commands.

use std::sync::Arc;
use std::time::Duration;

use holdfast_agent::{AgentConfig, FilesConfig, FilesTarget, Layout, Target};
use holdfast_testkit::{Nginx, Scratch, eventually};

use crate::kit::{Authority, LIMIT, Memory, Running, Visitor};

struct Bench {
    memory: Arc<Memory>,
    authority: Authority,
    scratch: Scratch,
}

impl Bench {
    fn new() -> Self {
        let (memory, authority, scratch) =
            (Arc::default(), Authority::new(), Scratch::new().unwrap());
        Self { memory, authority, scratch }
    }

    fn settings(&self) -> FilesConfig {
        let path = self.scratch.path();
        FilesConfig::new(path.join("certs"), path.to_owned())
    }

    fn run(&self, config: FilesConfig) -> Running {
        let target: Arc<dyn Target> = Arc::new(FilesTarget::new(config).unwrap());
        Running::start(self.memory.clone(), target, AgentConfig::default())
    }

    fn deploy(&self, host: &str) -> String {
        self.memory.deploy(&self.authority.issue(host))
    }

    /// A command that counts how often it is run.
    fn counting(&self) -> Vec<String> {
        let log = self.scratch.path().join("reloads");
        let text = format!("echo reload >> {}\n", log.display());
        let script = self.scratch.write("reload.sh", text).unwrap();
        vec!["sh".to_owned(), script.display().to_string()]
    }

    fn reloads(&self) -> usize {
        let log = std::fs::read_to_string(self.scratch.path().join("reloads"));
        log.unwrap_or_default().lines().count()
    }
}

#[tokio::test]
async fn nginx_serves_the_new_certificate_after_its_reload() {
    let (bench, mut nginx) = (Bench::new(), Nginx::prepare().unwrap());
    let mut config = bench.settings();
    config.directory = nginx.certificates();
    config.layout = Layout::Separate;
    // Before nginx runs there is nothing to reload, and nothing to look at but the files.
    let running = bench.run(config.clone());
    let first = bench.deploy("shop.test");
    bench.memory.until_seen("shop.test", Some(&first)).await;
    running.stop().await;
    nginx.start(&["shop.test"]).await.unwrap();
    config.reload = nginx.reload_command();
    config.probe = Some(nginx.https());
    config.reload_rest = Duration::ZERO;
    let _running = bench.run(config);
    let visitor = Visitor::new(&bench.authority, nginx.https()).never_resuming();
    assert_eq!(visitor.visit("shop.test").await.unwrap().sha256, first);
    let second = bench.deploy("shop.test");
    bench.memory.until_seen("shop.test", Some(&second)).await;
    // Workers that are about to end may take another visitor or two.
    eventually(LIMIT, "every visitor to get the new one", async || {
        let seen = visitor.visit("shop.test").await.map(|visit| visit.sha256);
        if seen.as_ref().ok() == Some(&second) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_hundred_changes_make_few_reloads() {
    let bench = Bench::new();
    let config = FilesConfig { reload: bench.counting(), layout: Layout::Both, ..bench.settings() };
    let deployed: Vec<_> = (0..100)
        .map(|n| format!("n{n}.test"))
        .map(|host| (host.clone(), bench.deploy(&host)))
        .collect();
    let running = bench.run(config.clone());
    for (host, sha256) in &deployed {
        bench.memory.until_seen(host, Some(sha256)).await;
    }
    assert!((1..=3).contains(&bench.reloads()), "{} reloads", bench.reloads());
    for ending in ["pem", "crt", "key"] {
        assert!(bench.scratch.path().join(format!("certs/n7.test.{ending}")).exists(), "{ending}");
    }
    let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    bench.memory.until("everything to be reported", all).await;
    running.stop().await;
    // A restart finds everything as it should be, and leaves it.
    let before = bench.reloads();
    let _running = bench.run(config);
    bench.memory.withdraw("n7.test");
    bench.memory.until_seen("n7.test", None).await;
    assert_eq!(bench.reloads(), before + 1);
    assert!(!bench.scratch.path().join("certs/n7.test.key").exists());
}

#[tokio::test]
async fn a_reload_that_fails_or_hangs_is_told_of_and_made_up_for() {
    for (command, words) in [
        (vec!["false".to_owned()], "exit status: 1"),
        (vec!["sleep".to_owned(), "1000".to_owned()], "longer than"),
        (vec!["/nonexistent/reload".to_owned()], "No such file"),
    ] {
        let bench = Bench::new();
        let limit = Duration::from_millis(200);
        let config = FilesConfig { reload: command, reload_limit: limit, ..bench.settings() };
        let running = bench.run(config.clone());
        let sha256 = bench.deploy("shop.test");
        let failed =
            |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-reload-failed");
        let note = bench.memory.until("the complaint", failed).await;
        assert!(note.detail.contains(words), "{note}");
        running.stop().await;
        // The file is there; what is left to do is the reload.
        let _running = bench.run(FilesConfig { reload: bench.counting(), ..config });
        bench.memory.until_seen("shop.test", Some(&sha256)).await;
        assert_eq!(bench.reloads(), 1);
    }
}
