//! The agent is killed at every step of an apply, and its disk fills up. The victim is this test binary, started again.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use holdfast_agent::{
    AgentConfig, HaproxyConfig, HaproxyTarget, HttpFeed, RuntimeAddress, run_agent,
};
use holdfast_testkit::{Process, eventually};
use tokio_util::sync::CancellationToken;

use crate::kit::{LIMIT, Memory, Plane, Proxied};

const VICTIM: &str = "HOLDFAST_TEST_VICTIM";

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

/// Added, renewed, removed; whenever the agent has died, it is started again without being told to die.
async fn story(edge: &Proxied, plane: &Plane, first: &Command) -> Option<i32> {
    let process = Process::spawn("agent", first).unwrap();
    let mut again = None;
    let mut signal = None;
    let steps = async {
        let kept = edge.deploy("kept.test");
        edge.memory.until_seen("kept.test", Some(&kept)).await;
        edge.deploy("gone.test");
        let old = edge.served("renewed.test").await;
        assert_eq!(edge.visit("kept.test").await, kept);
        let new = edge.served("renewed.test").await;
        assert_ne!(old, new);
        edge.memory.withdraw("gone.test");
        edge.memory.until_seen("gone.test", None).await;
        let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
        edge.memory.until("everything to be reported", all).await;
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
    let mut occurrences = BTreeMap::<String, u32>::new();
    for line in std::fs::read_to_string(record).unwrap().lines() {
        *occurrences.entry(line.to_owned()).or_default() += 1;
    }
    assert!(
        occurrences.contains_key("file.edge") && occurrences.contains_key("edge.haproxy"),
        "{occurrences:?}"
    );
    let mut struck = 0;
    let places =
        occurrences.iter().flat_map(|(point, times)| (1..=*times).map(move |time| (point, time)));
    let places: Vec<_> = places
        .flat_map(|(point, time)| ["before", "after"].map(|side| format!("{point}:{time}:{side}")))
        .collect();
    for pair in places.chunks(2) {
        let walk = async |place: &String| {
            let (mut edge, signal) = told("HOLDFAST_CRASH", place).await;
            assert!(matches!(signal, None | Some(6)), "{place}: {signal:?}");
            judge(&mut edge).await;
            u32::from(signal.is_some())
        };
        struck += match pair {
            [one, two] => {
                let (one, two) = tokio::join!(walk(one), walk(two));
                one + two
            }
            _ => walk(&pair[0]).await,
        };
    }
    println!("killed at {struck} of {} places", places.len());
    // Which of the last are reached depends on how changes fall into batches.
    assert!(struck as usize * 2 > places.len(), "{struck} of {}", places.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_of_and_nothing_is_half_done() {
    let edge = Proxied::new().await;
    let plane = Plane::start(edge.memory.clone()).await;
    let before = {
        let running = edge.run();
        let before = edge.served("old.test").await;
        let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
        edge.memory.until("everything to be reported", all).await;
        running.stop().await;
        before
    };
    // No file may grow past 400 bytes: the way a full disk looks to who writes.
    let inner = agent(&edge, &plane);
    let mut command = Command::new("env");
    command.args(["--ignore-signal=XFSZ", "prlimit", "--fsize=400:unlimited", "--"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let process = Process::spawn("agent", &command).unwrap();
    let renewed = edge.deploy("old.test");
    let new = edge.deploy("new.test");
    for host in ["old.test", "new.test"] {
        let refused =
            |memory: &Memory| memory.observed(host)?.error.filter(|note| note.code == "edge-disk");
        let note = edge.memory.until("the refusal", refused).await;
        assert!(note.detail.contains(&edge.file(host)), "{note}");
    }
    assert_eq!(edge.visit("old.test").await, before);
    edge.visitor().refusal("new.test").await;
    assert!(!std::fs::exists(edge.file("new.test")).unwrap());
    // Space again.
    let pid = process.pid().to_string();
    let lifted =
        Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(lifted.unwrap().success());
    edge.memory.until_seen("old.test", Some(&renewed)).await;
    edge.memory.until_seen("new.test", Some(&new)).await;
    eventually(LIMIT, "both to be served", async || {
        let seen = (edge.visit("old.test").await, edge.visit("new.test").await);
        if seen == (renewed.clone(), new.clone()) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}
