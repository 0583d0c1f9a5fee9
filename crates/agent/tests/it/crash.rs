//! The agent is killed at every step of an apply, and its disk fills up. The victim is this test binary, started again.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use holdfast_agent::{
    AgentConfig, HaproxyConfig, HaproxyTarget, HttpFeed, RuntimeAddress, run_agent,
};
use holdfast_testkit::{Process, eventually};
use tokio_util::sync::CancellationToken;

use crate::kit::{LIMIT, Memory, Plane, Proxied};

const VICTIM: &str = "HOLDFAST_TEST_VICTIM";

/// The signal of who kills itself.
const ABORTED: i32 = 6;

/// An agent over HTTP beside a HAProxy; but only in a process started by [`agent`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let [url, token, haproxy, https] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let at = PathBuf::from(haproxy);
    let config = holdfast_agent::HttpFeedConfig {
        servers: vec![url.parse().unwrap()],
        edge: "edge-1".to_owned(),
        group: None,
        target: "haproxy".to_owned(),
        mode: "apply".to_owned(),
        token_file: Some(token.into()),
        root_pem: None,
        client_pem: None,
        proxy: None,
        allow_plaintext: false,
    };
    let socket = RuntimeAddress::Unix(at.join("admin.sock"));
    let (certs, list) = (at.join("certs"), at.join("crt-list"));
    let settings = HaproxyConfig::new(socket, certs, list, https.parse().unwrap(), at.clone());
    let config =
        (Arc::new(HttpFeed::new(config).unwrap()), Arc::new(HaproxyTarget::new(settings).unwrap()));
    let agent = AgentConfig { revision_file: Some(at.join("revision")), ..AgentConfig::default() };
    run_agent(config.0, config.1, agent, CancellationToken::new()).await;
}

/// The command of an agent that is a process of its own.
fn agent(edge: &Proxied, plane: &Plane) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["crash::victim", "--exact", "--nocapture"]);
    let (token, https) = (plane.feed().token_file.unwrap(), edge.haproxy.https());
    let told =
        format!("{} {} {} {https}", plane.url(), token.display(), edge.haproxy.path().display());
    command.env(VICTIM, told);
    command
}

/// Added, renewed, removed, each step once everything before was reported, so that every telling passes the same places.
/// Whenever the agent has died, it is started again without being told to die.
async fn story(edge: &Proxied, plane: &Plane, first: &Command) -> Option<i32> {
    let process = Process::spawn("agent", first).unwrap();
    let mut again = None;
    let mut signal = None;
    let steps = async {
        eventually(LIMIT, "the agent to wait for changes", async || {
            let polls = edge.memory.polls.load(Relaxed);
            if polls > 0 { Ok(()) } else { Err("it does not yet") }
        })
        .await;
        let kept = step(edge, "kept.test", true).await;
        step(edge, "gone.test", true).await;
        let old = step(edge, "renewed.test", true).await;
        assert_eq!(edge.visit("kept.test").await, kept);
        let new = step(edge, "renewed.test", true).await;
        assert_ne!(old, new);
        step(edge, "gone.test", false).await;
        (kept, new)
    };
    let mut steps = std::pin::pin!(steps);
    let (kept, new) = loop {
        tokio::select! {
            done = &mut steps => break done,
            status = process.wait(std::time::Duration::from_secs(300)), if again.is_none() => {
                signal = status.unwrap().signal();
                again = Some(Process::spawn("agent", &agent(edge, plane)).unwrap());
            }
        }
    };
    assert_eq!((edge.visit("kept.test").await, edge.visit("renewed.test").await), (kept, new));
    edge.visitor().refusal("gone.test").await;
    signal
}

/// Deploys or withdraws a name, and waits until that was seen and nothing is left to be reported.
async fn step(edge: &Proxied, host: &str, served: bool) -> String {
    let sha256 = if served { edge.deploy(host) } else { String::new() };
    if !served {
        edge.memory.withdraw(host);
    }
    edge.memory.until_seen(host, served.then_some(&sha256)).await;
    let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    edge.memory.until("everything to be reported", all).await;
    sha256
}

/// What every telling does, in order: what is written to disk, and what HAProxy is told.
fn places() -> Vec<&'static str> {
    let (disk, haproxy) = ("file.edge", "edge.haproxy");
    // The manifest, the file; abort, new, set, commit; the list; add to the list; how far it is.
    let added = [disk, disk, haproxy, haproxy, haproxy, haproxy, disk, haproxy, disk];
    // The file; abort, set, commit; how far it is.
    let renewed = [disk, haproxy, haproxy, haproxy, disk];
    // The list; off the list, delete; the file, and what it held before; the manifest; how far it is.
    let removed = [disk, haproxy, haproxy, disk, disk, disk, disk];
    // First of all: the manifest is made whole, and what was left open is aborted.
    [&[disk, haproxy][..], &added, &added, &added, &renewed, &removed].concat()
}

/// Disk and memory are one, and nothing is left over.
async fn judge(edge: &mut Proxied) {
    let seen = (edge.visit("kept.test").await, edge.visit("renewed.test").await);
    let names: Vec<_> = std::fs::read_dir(edge.haproxy.certificates())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| !name.contains("gone.test") && !name.ends_with(".new")),
        "{names:?}"
    );
    let list = edge.haproxy.crt_list().display().to_string();
    let lines = edge.haproxy.ask(&format!("show ssl crt-list {list}")).await.unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("kept.test")).count(), 1, "{lines}");
    edge.haproxy.restart().await.unwrap();
    assert_eq!((edge.visit("kept.test").await, edge.visit("renewed.test").await), seen);
    edge.visitor().refusal("gone.test").await;
}

async fn told(variable: &str, value: &str) -> (Proxied, Option<i32>) {
    let edge = Proxied::new().await;
    let plane = Plane::start(edge.memory.clone()).await;
    let mut command = agent(&edge, &plane);
    command.env(variable, value);
    let signal = story(&edge, &plane, &command).await;
    (edge, signal)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_step_it_converges_by_itself() {
    let scratch = holdfast_testkit::Scratch::new().unwrap();
    let record = scratch.path().join("record").display().to_string();
    let (mut edge, signal) = told("HOLDFAST_CRASH_RECORD", &record).await;
    assert_eq!(signal, None);
    judge(&mut edge).await;
    let record = std::fs::read_to_string(record).unwrap();
    assert_eq!(record.lines().collect::<Vec<_>>(), places());
    let mut times = BTreeMap::<_, u32>::new();
    let walk: Vec<_> = places()
        .into_iter()
        .flat_map(|point| {
            let time = times.entry(point).or_default();
            *time += 1;
            ["before", "after"].map(|side| format!("{point}:{time}:{side}"))
        })
        .collect();
    for pair in walk.chunks(2) {
        let killed_at = async |place: &String| {
            let (mut edge, signal) = told("HOLDFAST_CRASH", place).await;
            assert_eq!(signal, Some(ABORTED), "{place} was not reached");
            judge(&mut edge).await;
        };
        tokio::join!(killed_at(&pair[0]), killed_at(&pair[1]));
    }
}

/// An agent that was there before, one name served, and the command of the next one.
async fn settled() -> (Proxied, Plane, String) {
    let edge = Proxied::new().await;
    let plane = Plane::start(edge.memory.clone()).await;
    let running = edge.run();
    let before = step(&edge, "old.test", true).await;
    running.stop().await;
    (edge, plane, before)
}

/// Both names are refused with the reason, and nothing else happens.
async fn refused_for_want_of_space(edge: &Proxied, before: &str) {
    for host in ["old.test", "new.test"] {
        let refused =
            |memory: &Memory| memory.observed(host)?.error.filter(|note| note.code == "edge-disk");
        let note = edge.memory.until("the refusal", refused).await;
        assert!(note.detail.contains(&edge.file(host)), "{note}");
    }
    assert_eq!(edge.visit("old.test").await, before);
    edge.visitor().refusal("new.test").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_of_and_nothing_is_half_done() {
    let (edge, plane, before) = settled().await;
    // No file may grow past 400 bytes: one way in which writing fails.
    let inner = agent(&edge, &plane);
    let mut command = Command::new("env");
    command.args(["--ignore-signal=XFSZ", "prlimit", "--fsize=400:unlimited", "--"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let process = Process::spawn("agent", &command).unwrap();
    let (renewed, new) = (edge.deploy("old.test"), edge.deploy("new.test"));
    refused_for_want_of_space(&edge, &before).await;
    assert!(!std::fs::exists(edge.file("new.test")).unwrap());
    // Space again.
    let pid = process.pid().to_string();
    let lifted =
        Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(lifted.unwrap().success());
    converges(&edge, &renewed, &new).await;
}

async fn converges(edge: &Proxied, renewed: &str, new: &str) {
    edge.memory.until_seen("old.test", Some(renewed)).await;
    edge.memory.until_seen("new.test", Some(new)).await;
    let seen = (edge.visit("old.test").await, edge.visit("new.test").await);
    assert_eq!((seen.0.as_str(), seen.1.as_str()), (renewed, new));
}

/// The agent's files lie on a file system of 64 KB, in a mount namespace of its own, with all of it taken.
const ON_A_SMALL_DISK: &str = r#"
    set -e
    mkdir "$SMALL"
    mount -t tmpfs -o size=64k,mode=700 tmpfs "$SMALL"
    cp -a "$CERTS/." "$SMALL"
    dd if=/dev/zero of="$SMALL/filler" bs=4k 2> "$SMALL.log" || true
    mount --bind "$SMALL" "$CERTS"
    exec "$@"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_a_byte_left_is_told_of_and_waited_for() {
    let (edge, plane, before) = settled().await;
    let (inner, certs) = (agent(&edge, &plane), edge.haproxy.certificates());
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "--", "sh", "-c", ON_A_SMALL_DISK, "agent"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("CERTS", &certs).env("SMALL", edge.haproxy.path().join("small"));
    let process = Process::spawn("agent", &command).unwrap();
    // As the agent sees it.
    let root = PathBuf::from(format!("/proc/{}/root", process.pid()));
    let inside = |path: PathBuf| root.join(path.strip_prefix("/").unwrap());
    let filler = inside(certs.join("filler"));
    eventually(LIMIT, "the agent on its small disk", async || match process.status() {
        Some(status) => {
            panic!("this machine lets nobody mount (unshare, mount): {status}\n{}", process.log())
        }
        None if filler.exists() => Ok(()),
        None => Err(process.log()),
    })
    .await;
    let (renewed, new) = (edge.deploy("old.test"), edge.deploy("new.test"));
    // No name is to blame, and no other edge waits for this one.
    let told = |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-disk");
    edge.memory.until("the complaint", told).await;
    assert_eq!(edge.visit("old.test").await, before);
    edge.visitor().refusal("new.test").await;
    let names = |directory: PathBuf| {
        let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
        let mut names: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let held = ["_default.pem", "filler", "old.test.pem"];
    eventually(LIMIT, "nothing half-written to be left", async || {
        match names(inside(certs.clone())) {
            left if left == held => Ok(()),
            left => Err(left.join(" ")),
        }
    })
    .await;
    // Space again.
    std::fs::remove_file(&filler).unwrap();
    converges(&edge, &renewed, &new).await;
    let held = [".old.test~", "_default.pem", "new.test.pem", "old.test.pem"];
    assert_eq!(names(inside(certs.clone())), held);
    assert!(edge.read_list().contains("new.test"), "{}", edge.read_list());
}
