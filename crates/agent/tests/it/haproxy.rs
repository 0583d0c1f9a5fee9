//! A real HAProxy: certificates put there, renewed and taken away without a reload, whatever happens to it.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use holdfast_agent::{AgentConfig, HaproxyTarget, Target as _};
use holdfast_testkit::{Haproxy, eventually};
use tokio::sync::mpsc;

use crate::kit::{LIMIT, Memory, Proxied, Running, name, pem};

#[tokio::test]
async fn added_renewed_and_removed_without_a_reload() {
    let edge = Proxied::new().await;
    let running = edge.run();
    let pid = edge.haproxy.process().unwrap().pid();
    let first = edge.served("shop.test").await;
    let other = edge.served("other.test").await;
    assert_eq!(edge.visit("shop.test").await, first);
    let mode = std::fs::metadata(edge.file("shop.test")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let line = format!("{} shop.test\n", edge.file("shop.test"));
    assert!(edge.read_list().contains(&line), "{}", edge.read_list());
    let second = edge.served("shop.test").await;
    assert_eq!((edge.visit("shop.test").await, edge.visit("other.test").await), (second, other));
    edge.memory.withdraw("shop.test");
    edge.memory.until_seen("shop.test", None).await;
    edge.visitor().refusal("shop.test").await;
    assert!(!std::fs::exists(edge.file("shop.test")).unwrap());
    assert!(!edge.read_list().contains("shop.test"));
    assert!(!edge.haproxy.ask("show ssl cert").await.unwrap().contains("shop.test"));
    assert_eq!(edge.haproxy.process().unwrap().pid(), pid);
    // What is on disk is what a start finds.
    running.stop().await;
}

#[tokio::test]
async fn a_restart_of_haproxy_finds_everything_on_disk() {
    let mut edge = Proxied::new().await;
    let _running = edge.run();
    let (one, two) = (edge.served("one.test").await, edge.served("two.test").await);
    edge.haproxy.restart().await.unwrap();
    assert_eq!((edge.visit("one.test").await, edge.visit("two.test").await), (one, two));
    let again = edge.served("one.test").await;
    assert_eq!(edge.visit("one.test").await, again);
}

#[tokio::test]
async fn what_haproxy_lost_is_filled_in_again_and_repaired_on_disk() {
    let mut edge = Proxied::new().await;
    let _running = edge.run();
    let (one, two) = (edge.served("one.test").await, edge.served("two.test").await);
    let list = edge.read_list();
    // As if it had been started from what was there long ago.
    let default = list.lines().next().unwrap().to_owned();
    edge.haproxy.kill().await.unwrap();
    edge.haproxy.scratch().write("crt-list", format!("{default}\n")).unwrap();
    edge.haproxy.start().await.unwrap();
    for (host, sha256) in [("one.test", &one), ("two.test", &two)] {
        eventually(LIMIT, "the certificate to be there again", async || {
            let seen = edge.visitor().visit(host).await.map(|visit| visit.sha256);
            if seen.as_ref().ok() == Some(sha256) { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }
    assert_eq!(edge.read_list(), list);
}

#[tokio::test]
async fn a_reload_in_the_middle_loses_nothing() {
    let mut edge = Proxied::new().await;
    let _running = edge.run();
    edge.served("one.test").await;
    let old = edge.haproxy.reload().await.unwrap();
    let renewed = edge.served("one.test").await;
    assert_eq!(edge.visit("one.test").await, renewed);
    old.kill().await.unwrap();
    assert_eq!(edge.visit("one.test").await, renewed);
}

#[tokio::test]
async fn a_start_of_the_agent_repairs_memory_and_disk_in_both_directions() {
    let edge = Proxied::new().await;
    let running = edge.run();
    let hosts = ["kept.test", "unloaded.test", "changed.test", "erased.test", "removed.test"];
    for host in hosts {
        edge.served(host).await;
    }
    running.stop().await;
    let list = edge.haproxy.crt_list().display().to_string();
    let ask = async |command: String| edge.haproxy.ask(&command).await.unwrap();
    // Gone from memory.
    ask(format!("del ssl crt-list {list} {}", edge.file("unloaded.test"))).await;
    ask(format!("del ssl cert {}", edge.file("unloaded.test"))).await;
    // Another certificate on disk.
    let strange = edge.authority.issue("changed.test");
    edge.haproxy.scratch().write("certs/changed.test.pem", pem(&strange)).unwrap();
    // Gone from disk, and half-written files.
    std::fs::remove_file(edge.file("erased.test")).unwrap();
    edge.haproxy.scratch().write("certs/.holdfast-abc.new", "half").unwrap();
    // What files held before: of one that is there, of one that goes, of one that is gone.
    for host in ["kept", "removed", "forgotten"] {
        edge.haproxy.scratch().write(&format!("certs/.{host}.test~"), "before").unwrap();
    }
    edge.haproxy.scratch().write("certs/broken.test.pem", "no PEM").unwrap();
    edge.own(&["forgotten.test", "broken.test"]);
    // Not wanted any more.
    edge.memory.withdraw("removed.test");
    let _running = edge.run();
    for host in ["unloaded.test", "changed.test", "erased.test", "kept.test"] {
        let wanted = edge.memory.change(host).certificate.unwrap().1;
        eventually(LIMIT, "what is wanted to be served", async || {
            let seen = edge.visitor().visit(host).await.map(|visit| visit.sha256);
            if seen.as_ref().ok() == Some(&wanted) {
                Ok(())
            } else {
                Err(format!("{host}: {seen:?}"))
            }
        })
        .await;
    }
    edge.memory.until_seen("removed.test", None).await;
    assert!(!std::fs::exists(edge.file("removed.test")).unwrap());
    assert!(std::fs::exists(edge.file("erased.test")).unwrap());
    let is_there = |file: &str| edge.haproxy.certificates().join(file).exists();
    assert!(!is_there(".holdfast-abc.new") && is_there(".kept.test~"));
    assert!(!is_there(".removed.test~") && !is_there(".forgotten.test~"));
    assert!(!edge.read_list().contains("broken.test"));
}

#[tokio::test]
async fn unchanged_certificates_are_neither_fetched_nor_probed_at_a_start() {
    let edge = Proxied::new().await;
    let running = edge.run();
    for n in 0..20 {
        edge.deploy(&format!("n{n}.test"));
    }
    let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    edge.memory.until("everything to be reported", all).await;
    running.stop().await;
    let before =
        edge.memory.reports().iter().map(|report| report.observations.len()).sum::<usize>();
    let fetched = edge.memory.fetched();
    let _running = edge.run();
    let last = edge.served("last.test").await;
    assert_eq!(edge.visit("last.test").await, last);
    let after = edge.memory.reports().iter().map(|report| report.observations.len()).sum::<usize>();
    assert_eq!((after - before, edge.memory.fetched() - fetched), (1, 1));
}

#[tokio::test]
async fn a_dead_socket_is_complained_of_and_what_came_meanwhile_is_applied() {
    let mut edge = Proxied::new().await;
    let _running = edge.run();
    edge.served("one.test").await;
    edge.haproxy.kill().await.unwrap();
    let renewed = edge.deploy("one.test");
    let dead =
        |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-proxy-unreachable");
    edge.memory.until("the complaint", dead).await;
    edge.haproxy.start().await.unwrap();
    edge.memory.until_seen("one.test", Some(&renewed)).await;
    assert_eq!(edge.visit("one.test").await, renewed);
}

#[tokio::test]
async fn killed_again_and_again_while_it_is_filled_it_ends_complete() {
    let mut edge = Proxied::new().await;
    let _running = edge.run();
    let mut wanted = std::collections::BTreeMap::new();
    for round in 0..4 {
        for n in 0..15 {
            // Some are renewed in the next round.
            let host = format!("n{}.test", round * 10 + n);
            wanted.insert(host.clone(), edge.deploy(&host));
        }
        edge.haproxy.restart().await.unwrap();
    }
    for (host, sha256) in &wanted {
        edge.memory.until_seen(host, Some(sha256)).await;
    }
    edge.haproxy.restart().await.unwrap();
    for (host, sha256) in &wanted {
        assert_eq!(edge.visit(host).await, *sha256, "{host}");
    }
}

#[tokio::test]
async fn a_list_that_haproxy_has_not_loaded_is_named() {
    let edge = Proxied::new().await;
    let mut settings = edge.settings();
    settings.crt_list = edge.haproxy.path().join("another-list");
    let target = HaproxyTarget::new(settings).unwrap();
    let refused = target.inventory().await.unwrap_err().to_string();
    assert!(refused.contains("another-list; put `crt-list"), "{refused}");
    assert_eq!(target.probe(&name("nobody.test")).await.unwrap(), None);
}

#[tokio::test]
async fn its_socket_may_be_a_tcp_port() {
    let port = holdfast_testkit::free_port().unwrap();
    let socket = format!("127.0.0.1:{port}");
    let line = format!("stats socket ipv4@{socket} level admin");
    let mut edge = Proxied::with(Haproxy::prepare().unwrap().with_global(&line)).await;
    let mut settings = edge.settings();
    settings.socket = socket.parse().unwrap();
    let target = Arc::new(HaproxyTarget::new(settings).unwrap());
    let _running = Running::start(edge.memory.clone(), target, edge.config());
    let (kept, first) = (edge.served("kept.test").await, edge.served("shop.test").await);
    let second = edge.served("shop.test").await;
    assert_ne!(first, second);
    edge.memory.withdraw("kept.test");
    edge.memory.until_seen("kept.test", None).await;
    edge.visitor().refusal("kept.test").await;
    assert_eq!(edge.visit("shop.test").await, second);
    // Nobody listens for a moment, and then another process.
    edge.haproxy.restart().await.unwrap();
    let again = edge.served("kept.test").await;
    assert_ne!(again, kept);
    assert_eq!((edge.visit("kept.test").await, edge.visit("shop.test").await), (again, second));
}

#[tokio::test]
async fn one_that_takes_few_ciphers_is_looked_at_all_the_same() {
    let haproxy = Haproxy::prepare()
        .unwrap()
        .with_global("ssl-default-bind-options ssl-min-ver TLSv1.3")
        .with_global("ssl-default-bind-ciphersuites TLS_AES_256_GCM_SHA384");
    let edge = Proxied::with(haproxy).await;
    let _running = edge.run();
    for name in ["one.test", "two.test"] {
        let sha256 = edge.served(name).await;
        assert_eq!(edge.visit(name).await, sha256);
    }
    edge.memory.withdraw("one.test");
    edge.memory.until_seen("one.test", None).await;
}

#[tokio::test]
async fn a_control_plane_that_gives_a_few_at_once_and_refuses_the_rest_is_got_through() {
    let edge = Proxied::new().await;
    edge.memory.seat(4);
    let hosts: Vec<_> = (0..12).map(|n| format!("few{n}.test")).collect();
    let prints: Vec<_> = hosts.iter().map(|host| edge.deploy(host)).collect();
    let _running = edge.run();
    for (host, print) in hosts.iter().zip(&prints) {
        edge.memory.until_seen(host, Some(print)).await;
    }
}

#[tokio::test]
async fn taken_away_twice_it_is_still_known_when_it_comes_back() {
    let edge = Proxied::new().await;
    let (target, bundle) = (edge.target(), edge.authority.issue("gone.test"));
    edge.memory.deploy(&bundle);
    let (ready, _places) = mpsc::unbounded_channel();
    let change = edge.memory.change("gone.test");
    target.apply(&[change], edge.memory.clone(), &ready).await.unwrap();
    for _ in 0..2 {
        assert_eq!(target.withdraw(std::slice::from_ref(&bundle.name)).await.unwrap(), [Ok(())]);
        assert_eq!(target.probe(&bundle.name).await.unwrap(), None);
    }
    edge.load_by_hand(&edge.file("gone.test"), &bundle).await;
    assert_eq!(target.probe(&bundle.name).await.unwrap(), Some(bundle.summary.sha256));
}

/// What the control plane does not give is no fault of HAProxy: what it gave is in place, and nothing is compared anew.
#[tokio::test]
async fn when_some_are_refused_on_the_way_the_others_are_in_place() {
    let edge = Proxied::new().await;
    edge.memory.seat(1);
    let (target, hosts) = (edge.target(), ["one.test", "two.test", "three.test"]);
    let prints = hosts.map(|host| edge.deploy(host));
    let changes = hosts.map(|host| edge.memory.change(host));
    assert!(target.tend().await.unwrap());
    let (ready, mut places) = mpsc::unbounded_channel();
    let applied = target.apply(&changes, edge.memory.clone(), &ready).await;
    assert!(applied.is_err_and(|error| error.is_transient()));
    let first = places.recv().await.unwrap();
    assert_eq!(edge.visit(hosts[first]).await, prints[first]);
    assert!(!target.tend().await.unwrap());
}

/// An agent that looks again all the time.
fn vigilant(edge: &Proxied) -> Running {
    let config = AgentConfig { heartbeat: Duration::from_millis(200), ..edge.config() };
    Running::start(edge.memory.clone(), edge.target(), config)
}

async fn until_visited(edge: &Proxied, host: &str, sha256: &str) {
    eventually(LIMIT, "the name to be served again", async || {
        let seen = edge.visitor().visit(host).await.map(|visit| visit.sha256);
        if seen.as_deref().ok() == Some(sha256) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_haproxy_that_is_killed_serves_nobody_and_says_so_until_it_is_back() {
    let mut edge = Proxied::new().await;
    let _running = vigilant(&edge);
    let sha256 = edge.served("shop.test").await;
    edge.haproxy.kill().await.unwrap();
    let down = |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-proxy-down");
    let note = edge.memory.until("the complaint", down).await;
    assert!(note.detail.contains(&edge.haproxy.https().to_string()), "{note}");
    edge.haproxy.start().await.unwrap();
    let content = |memory: &Memory| memory.reports().last()?.error.is_none().then_some(());
    edge.memory.until("the complaint to end", content).await;
    until_visited(&edge, "shop.test", &sha256).await;
}

/// HAProxy runs on, and its own list says nothing of it.
#[tokio::test]
async fn what_somebody_takes_away_or_exchanges_in_memory_is_put_back() {
    let edge = Proxied::new().await;
    let _running = vigilant(&edge);
    let (taken, kept) = (edge.served("taken.test").await, edge.served("kept.test").await);
    let exchanged = edge.served("exchanged.test").await;
    let list = edge.haproxy.crt_list().display().to_string();
    let file = edge.file("exchanged.test");
    let other = edge.authority.issue("exchanged.test");
    for command in [
        format!("del ssl crt-list {list} {}", edge.file("taken.test")),
        format!("del ssl cert {}", edge.file("taken.test")),
        format!("set ssl cert {file} <<\n{}\n", pem(&other)),
        format!("commit ssl cert {file}"),
    ] {
        edge.haproxy.ask(&command).await.unwrap();
    }
    for (host, sha256) in
        [("taken.test", &taken), ("exchanged.test", &exchanged), ("kept.test", &kept)]
    {
        until_visited(&edge, host, sha256).await;
    }
}

/// It was started from a file that lost its end: the leaf is right, and visitors cannot verify it.
#[tokio::test]
async fn a_chain_that_lost_its_intermediate_is_told_of_and_put_back() {
    let mut edge = Proxied::new().await;
    let running = vigilant(&edge);
    let bundle = edge.authority.issue_below("shop.test");
    let sha256 = edge.memory.deploy(&bundle);
    edge.memory.until_seen("shop.test", Some(&sha256)).await;
    assert_eq!(edge.visit("shop.test").await, sha256);
    let mut cut = bundle.clone();
    let end = cut.chain_pem.rfind("-----BEGIN").unwrap();
    cut.chain_pem.truncate(end);
    edge.haproxy.kill().await.unwrap();
    std::fs::write(edge.file("shop.test"), pem(&cut)).unwrap();
    edge.haproxy.start().await.unwrap();
    assert!(edge.visitor().visit("shop.test").await.is_err(), "it cannot be verified");
    until_visited(&edge, "shop.test", &sha256).await;
    assert!(std::fs::read_to_string(edge.file("shop.test")).unwrap().contains(&bundle.chain_pem));
    running.stop().await;
}
