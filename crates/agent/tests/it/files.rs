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

/// A bench with nginx, which serves what a script copies for it at each reload.
async fn copied(bench: &Bench, copy: &str) -> (Nginx, FilesConfig) {
    let mut nginx = Nginx::prepare().unwrap();
    let mut config = bench.settings();
    config.layout = Layout::Separate;
    // Before nginx runs there is nothing to look at but the files.
    let running = bench.run(config.clone());
    let sha256 = bench.memory.deploy(&bench.authority.issue_below("shop.test"));
    bench.memory.until_seen("shop.test", Some(&sha256)).await;
    running.stop().await;
    let (from, to) = (config.directory.display(), nginx.certificates());
    let to = to.display();
    let reload = nginx.reload_command().join(" ");
    let copy = format!(
        "{copy} {from}/shop.test.crt > {to}/shop.test.crt\ncp {from}/shop.test.key {to}/\n"
    );
    let script = bench.scratch.write("copy.sh", &copy).unwrap();
    let done = std::process::Command::new("sh").arg(&script).status().unwrap();
    assert!(done.success());
    nginx.start(&["shop.test"]).await.unwrap();
    let script = bench.scratch.write("reload.sh", format!("{copy}{reload}\n")).unwrap();
    config.reload = vec!["sh".to_owned(), script.display().to_string()];
    config.probe = Some(nginx.https());
    config.reload_rest = Duration::ZERO;
    (nginx, config)
}

fn vigilant(bench: &Bench, config: FilesConfig) -> Running {
    let target: Arc<dyn Target> = Arc::new(FilesTarget::new(config).unwrap());
    let agent = AgentConfig { heartbeat: Duration::from_millis(200), ..AgentConfig::default() };
    Running::start(bench.memory.clone(), target, agent)
}

/// The right leaf alone is not what was delivered: visitors cannot verify it. Also at an agent that was started since.
#[tokio::test]
async fn a_server_that_shows_the_leaf_alone_does_not_serve_as_desired() {
    let bench = Bench::new();
    let (_nginx, config) = copied(&bench, "awk '/BEGIN/{n++} n<=1'").await;
    let _running = vigilant(&bench, config.clone());
    let told = |memory: &Memory| memory.observed("shop.test")?.error;
    let note = bench.memory.until("the refusal", told).await;
    assert_eq!(&*note.code, "edge-chain-incomplete", "{note}");
    assert!(note.detail.contains("1 of the 1 intermediate"), "{note}");
    assert_eq!(bench.memory.observed("shop.test").unwrap().sha256, None);
    // Renewed, and copied whole.
    let script = std::fs::read_to_string(&config.reload[1]).unwrap();
    std::fs::write(&config.reload[1], script.replace("n<=1", "1")).unwrap();
    let renewed = bench.memory.deploy(&bench.authority.issue_below("shop.test"));
    bench.memory.until_seen("shop.test", Some(&renewed)).await;
}

#[tokio::test]
async fn an_nginx_that_died_is_told_of_until_it_is_back() {
    let bench = Bench::new();
    let (mut nginx, config) = copied(&bench, "cat").await;
    let _running = vigilant(&bench, config);
    let sha256 = bench.memory.deploy(&bench.authority.issue_below("shop.test"));
    bench.memory.until_seen("shop.test", Some(&sha256)).await;
    nginx.stop().await.unwrap();
    let down = |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-proxy-down");
    bench.memory.until("the complaint", down).await;
    nginx.start(&["shop.test"]).await.unwrap();
    let content = |memory: &Memory| memory.reports().last()?.error.is_none().then_some(());
    bench.memory.until("the complaint to end", content).await;
    let visitor = Visitor::new(&bench.authority, nginx.https()).never_resuming();
    assert_eq!(visitor.visit("shop.test").await.unwrap().sha256, sha256);
}

/// nginx with one block for all names, whose files it looks for at each handshake.
#[tokio::test]
async fn an_nginx_that_finds_files_by_name_loses_those_that_are_withdrawn() {
    let (bench, mut nginx) = (Bench::new(), Nginx::prepare().unwrap());
    let mut config = bench.settings();
    config.directory = nginx.certificates();
    config.layout = Layout::Separate;
    config.probe = Some(nginx.https());
    nginx.start_by_name().await.unwrap();
    let _running = bench.run(config);
    let first = bench.deploy("shop.test");
    bench.memory.until_seen("shop.test", Some(&first)).await;
    let second = bench.deploy("shop.test");
    bench.memory.until_seen("shop.test", Some(&second)).await;
    bench.memory.withdraw("shop.test");
    bench.memory.until_seen("shop.test", None).await;
    let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    bench.memory.until("everything to be reported", all).await;
}

/// A block per name: one that is withdrawn stays until its block is gone, and holds up nothing else.
#[tokio::test]
async fn a_server_that_still_needs_the_files_gets_them_back() {
    let (bench, mut nginx) = (Bench::new(), Nginx::prepare().unwrap());
    let mut config = bench.settings();
    config.directory = nginx.certificates();
    config.layout = Layout::Separate;
    let running = bench.run(config.clone());
    let names = ["shop.test", "other.test"];
    for name in names {
        let sha256 = bench.deploy(name);
        bench.memory.until_seen(name, Some(&sha256)).await;
    }
    running.stop().await;
    nginx.start(&names).await.unwrap();
    config.reload = nginx.reload_command();
    config.probe = Some(nginx.https());
    config.reload_rest = Duration::ZERO;
    let _running = bench.run(config.clone());
    bench.memory.withdraw("shop.test");
    let told = |memory: &Memory| memory.observed("shop.test")?.error;
    let note = bench.memory.until("the refusal", told).await;
    assert_eq!(&*note.code, "edge-still-configured", "{note}");
    assert!(note.detail.contains("take shop.test out of its configuration"), "{note}");
    assert!(config.directory.join("shop.test.key").exists());
    let renewed = bench.deploy("other.test");
    bench.memory.until_seen("other.test", Some(&renewed)).await;
    nginx.configure(&["other.test"]).unwrap();
    bench.memory.until_seen("shop.test", None).await;
    assert!(!config.directory.join("shop.test.key").exists());
}

/// Whatever it started holds its standard error open.
#[tokio::test]
async fn a_reload_that_leaves_a_child_behind_is_over_when_it_ends() {
    let bench = Bench::new();
    let limit = Duration::from_secs(20);
    for (end, is_good) in [("exit 0", true), ("echo broken >&2; exit 1", false)] {
        let script = bench.scratch.write("reload.sh", format!("sleep 60 &\n{end}\n")).unwrap();
        let reload = vec!["sh".to_owned(), script.display().to_string()];
        let config = FilesConfig { reload, reload_limit: limit, ..bench.settings() };
        let running = bench.run(config);
        let sha256 = bench.deploy("shop.test");
        match is_good {
            true => bench.memory.until_seen("shop.test", Some(&sha256)).await,
            false => {
                let failed = |memory: &Memory| memory.complaint();
                let note = bench.memory.until("the complaint", failed).await;
                assert!(note.detail.contains("exit status: 1: broken"), "{note}");
            }
        }
        running.stop().await;
    }
}

/// A kill, or another program, between the two files.
#[tokio::test]
async fn a_key_that_does_not_fit_its_chain_is_written_again() {
    let bench = Bench::new();
    let config = FilesConfig { layout: Layout::Separate, ..bench.settings() };
    let running = bench.run(config.clone());
    let sha256 = bench.deploy("shop.test");
    bench.memory.until_seen("shop.test", Some(&sha256)).await;
    running.stop().await;
    let (key, another) = (config.directory.join("shop.test.key"), bench.authority.issue("x.test"));
    let before = std::fs::read(&key).unwrap();
    std::fs::write(&key, another.key.expose()).unwrap();
    let _running = bench.run(config);
    eventually(LIMIT, "the key to fit again", async || {
        if std::fs::read(&key).unwrap() == before { Ok(()) } else { Err("it does not") }
    })
    .await;
}
