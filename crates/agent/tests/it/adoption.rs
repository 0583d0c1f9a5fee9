//! Moving in: certificates of others are found, told of, and taken over in their place.

use std::sync::Arc;

use holdfast_agent::{Observing, Target as _};
use holdfast_store::Adoption;
use holdfast_testkit::Haproxy;

use crate::kit::{Authority, Host, Load, Memory, Proxied, Running, pem};

/// A HAProxy that serves these names from files of its operator's, and its certificates.
async fn foreign(hosts: &[String]) -> (Proxied, Vec<holdfast_store::Bundle>) {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    let bundles: Vec<_> = hosts.iter().map(|host| authority.issue(host)).collect();
    std::fs::create_dir(haproxy.path().join("foreign")).unwrap();
    // What stands first is HAProxy's default, which nobody can take away.
    let default =
        haproxy.scratch().write("default.pem", pem(&authority.issue("default.test"))).unwrap();
    let mut list = format!("{} !*\n", default.display());
    for (host, bundle) in hosts.iter().zip(&bundles) {
        let file = haproxy.scratch().write(&format!("foreign/{host}.pem"), pem(bundle)).unwrap();
        list += &format!("{}\n", file.display());
    }
    let list = haproxy.scratch().write("foreign-list", list).unwrap();
    let mut edge = Proxied::with(haproxy.with_list(&list)).await;
    edge.authority = Arc::new(authority);
    (edge, bundles)
}

fn file(edge: &Proxied, host: &str) -> String {
    edge.haproxy.path().join(format!("foreign/{host}.pem")).display().to_string()
}

#[tokio::test]
async fn a_stranger_is_left_alone_told_of_and_taken_over_when_a_person_says_so() {
    let hosts = ["old.test", "another.test"].map(str::to_owned);
    let (mut edge, bundles) = foreign(&hosts).await;
    let running = edge.run();
    let strangers = |memory: &Memory| Some(memory.strangers()).filter(|all| all.len() == 2);
    let found = edge.memory.until("both to be told of", strangers).await;
    assert!(found.iter().all(|one| !one.shadows));
    // The present certificate was brought in: it is served already, wherever it lies.
    edge.memory.deploy(&bundles[0]);
    edge.memory.until_seen("old.test", Some(&bundles[0].summary.sha256)).await;
    assert!(!std::fs::exists(edge.file("old.test")).unwrap());
    let told = |memory: &Memory| memory.strangers().into_iter().find(|one| one.shadows);
    let stranger = edge.memory.until("the stranger to be told of", told).await;
    // A renewal cannot get past it.
    let renewed = edge.deploy("old.test");
    let shadowed = |memory: &Memory| memory.observed("old.test")?.error;
    let note = edge.memory.until("the refusal", shadowed).await;
    assert!(
        note.code == "edge-shadowed" && note.detail.contains(&file(&edge, "old.test")),
        "{note}"
    );
    assert_eq!(edge.visit("old.test").await, bundles[0].summary.sha256);
    assert_eq!(stranger.file, file(&edge, "old.test"));
    assert_eq!(stranger.names, ["old.test"]);
    assert_eq!(stranger.sha256.as_ref(), Some(&bundles[0].summary.sha256));
    assert_eq!(edge.memory.strangers().len(), 2);

    edge.memory.adopt(&stranger.file, "old.test");
    edge.memory.until_seen("old.test", Some(&renewed)).await;
    let done = |memory: &Memory| memory.adopted().first().cloned();
    assert_eq!(edge.memory.until("it to be told", done).await.error, None);
    assert_eq!(edge.visit("old.test").await, renewed);
    assert_eq!(edge.visit("another.test").await, bundles[1].summary.sha256);
    running.stop().await;
    // It stays ours, across restarts of everything, and can be removed.
    edge.haproxy.restart().await.unwrap();
    assert_eq!(edge.visit("old.test").await, renewed);
    let _running = edge.run();
    let again = edge.served("old.test").await;
    assert_eq!(edge.visit("old.test").await, again);
    edge.memory.withdraw("old.test");
    edge.memory.until_seen("old.test", None).await;
    edge.visitor().refusal("old.test").await;
    edge.haproxy.restart().await.unwrap();
    edge.visitor().refusal("old.test").await;
    assert_eq!(edge.visit("another.test").await, bundles[1].summary.sha256);
}

/// HAProxy loads a directory whole: there is no list to take a file off.
#[tokio::test]
async fn one_in_a_directory_is_taken_over_renewed_and_withdrawn() {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    std::fs::create_dir(haproxy.path().join("foreign")).unwrap();
    // What comes first is HAProxy's default, which nobody can take away.
    haproxy.scratch().write("foreign/a.pem", pem(&authority.issue("default.test"))).unwrap();
    let bundle = authority.issue("old.test");
    haproxy.scratch().write("foreign/old.test.pem", pem(&bundle)).unwrap();
    let directory = haproxy.path().join("foreign");
    let mut edge = Proxied::with(haproxy.with_directory(&directory)).await;
    edge.authority = Arc::new(authority);
    let _running = edge.run();
    edge.memory.deploy(&bundle);
    edge.memory.until_seen("old.test", Some(&bundle.summary.sha256)).await;
    edge.memory.adopt(&file(&edge, "old.test"), "old.test");
    let renewed = edge.served("old.test").await;
    edge.haproxy.restart().await.unwrap();
    assert_eq!(edge.visit("old.test").await, renewed);
    edge.memory.withdraw("old.test");
    edge.memory.until_seen("old.test", None).await;
    edge.haproxy.restart().await.unwrap();
    edge.visitor().refusal("old.test").await;
}

/// A line that its operator put on the agent's list: taken over and withdrawn, nothing is left that HAProxy could not start with.
#[tokio::test]
async fn one_on_our_own_list_is_taken_over_and_withdrawn() {
    let mut edge = Proxied::new().await;
    let bundle = edge.authority.issue("old.test");
    let added = edge.haproxy.scratch().write("old.pem", pem(&bundle)).unwrap();
    let list = edge.read_list() + &format!("{} old.test\n", added.display());
    std::fs::write(edge.haproxy.crt_list(), list).unwrap();
    edge.haproxy.restart().await.unwrap();
    let _running = edge.run();
    edge.memory.deploy(&bundle);
    edge.memory.until_seen("old.test", Some(&bundle.summary.sha256)).await;
    edge.memory.adopt(&added.display().to_string(), "old.test");
    let renewed = edge.served("old.test").await;
    assert_eq!(edge.visit("old.test").await, renewed);
    edge.memory.withdraw("old.test");
    edge.memory.until_seen("old.test", None).await;
    assert!(!edge.read_list().contains("old.pem") && !added.exists());
    edge.haproxy.restart().await.unwrap();
    edge.visitor().refusal("old.test").await;
}

/// What was added by a command stands on no list on disk.
#[tokio::test]
async fn one_that_only_memory_lists_is_served_after_a_restart() {
    let mut edge = Proxied::new().await;
    let bundle = edge.authority.issue("old.test");
    let added = edge.haproxy.scratch().write("old.pem", pem(&bundle)).unwrap();
    let added = added.display().to_string();
    edge.load_by_hand(&added, &bundle).await;
    let target = edge.target();
    let adoption = Adoption { file: added, name: bundle.name.clone() };
    assert_eq!(target.adopt(&[adoption]).await.unwrap(), [Ok(())]);
    edge.haproxy.restart().await.unwrap();
    edge.visitor().refusal("old.test").await;
    assert!(target.tend().await.unwrap());
    assert_eq!(edge.visit("old.test").await, bundle.summary.sha256);
}

#[tokio::test]
async fn a_file_that_serves_more_than_the_name_is_not_taken_over() {
    let haproxy = Haproxy::prepare().unwrap();
    let authority = Authority::new();
    let bundle = authority.issue_large("many.test");
    let mut first = bundle.clone();
    first.chain_pem =
        first.chain_pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_owned();
    let file = haproxy.scratch().write("many.pem", pem(&first)).unwrap();
    let list = haproxy.scratch().write("list", format!("{}\n", file.display())).unwrap();
    let edge = Proxied::with(haproxy.with_list(&list)).await;
    let _running = edge.run();
    edge.deploy("many.test");
    edge.memory.adopt(&file.display().to_string(), "many.test");
    edge.memory.adopt("/nowhere.pem", "other.test");
    let both = |memory: &Memory| Some(memory.adopted()).filter(|all| all.len() >= 2);
    for told in edge.memory.until("the refusals", both).await {
        let note = told.error.unwrap();
        let words =
            if told.adoption.file == "/nowhere.pem" { "not loaded" } else { "which would stop" };
        assert!(note.code == "edge-not-adoptable" && note.detail.contains(words), "{note}");
    }
    assert_eq!(edge.visit_unverified("many.test").await, bundle.summary.sha256);
}

#[tokio::test]
async fn an_observer_tells_what_is_served_and_changes_nothing() {
    let (edge, bundles) = foreign(&["old.test".to_owned()]).await;
    let before = edge.snapshot().await;
    let target = Arc::new(Observing::new(edge.target()));
    let _running = Running::start(edge.memory.clone(), target, edge.config());
    edge.memory.deploy(&bundles[0]);
    edge.memory.until_seen("old.test", Some(&bundles[0].summary.sha256)).await;
    edge.deploy("old.test");
    edge.deploy("new.test");
    let told = |host: &'static str| {
        move |memory: &Memory| Some(memory.observed(host)?).filter(|seen| seen.error.is_some())
    };
    let seen = edge.memory.until("what is served instead", told("old.test")).await;
    assert_eq!(seen.sha256.as_ref(), Some(&bundles[0].summary.sha256));
    assert_eq!(seen.error.unwrap().code, "edge-observes-only");
    assert_eq!(edge.memory.until("that nothing is", told("new.test")).await.sha256, None);
    edge.memory.withdraw("old.test");
    let still = edge.memory.until("that it is still served", told("old.test")).await;
    assert!(still.sha256.is_some());
    assert_eq!(edge.memory.strangers()[0].file, file(&edge, "old.test"));
    assert_eq!(edge.snapshot().await, before);
}

#[tokio::test]
async fn an_observer_notices_when_something_else_is_served() {
    let (edge, _) = foreign(&["old.test".to_owned()]).await;
    let observing = Observing::new(edge.target());
    observing.inventory().await.unwrap();
    assert!(!observing.tend().await.unwrap());
    let (file, renewed) = (file(&edge, "old.test"), edge.authority.issue("old.test"));
    std::fs::write(&file, pem(&renewed)).unwrap();
    edge.haproxy.ask(&format!("set ssl cert {file} <<\n{}\n", pem(&renewed))).await.unwrap();
    edge.haproxy.ask(&format!("commit ssl cert {file}")).await.unwrap();
    assert!(observing.tend().await.unwrap());
    assert!(!observing.tend().await.unwrap());
}

const FOREIGN: usize = 2_000;

/// Certificates of others are taken over and renewed while visitors come without pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_foreign_list_is_taken_over_and_renewed_under_load() {
    let hosts: Vec<_> = (0..FOREIGN).map(|n| format!("n{n}.test")).collect();
    let (edge, bundles) = foreign(&hosts).await;
    let pid = edge.haproxy.process().unwrap().pid();
    let load = Load::start(&edge);
    for bundle in &bundles {
        edge.memory.deploy(bundle);
        load.serves(bundle.name.as_str(), Host::Any);
    }
    let _running = edge.run();
    for bundle in &bundles {
        edge.memory.until_seen(bundle.name.as_str(), Some(&bundle.summary.sha256)).await;
    }
    assert_eq!(edge.memory.fetched(), 0, "a certificate was fetched that is served already");
    for host in &hosts {
        edge.memory.adopt(&file(&edge, host), host);
    }
    let all = |memory: &Memory| (memory.adopted().len() >= FOREIGN).then_some(());
    edge.memory.until("all to be taken over", all).await;
    assert!(edge.memory.adopted().iter().all(|one| one.error.is_none()));
    load.one_more_round().await;
    let renewed: Vec<_> = hosts.iter().map(|host| (host, edge.deploy(host))).collect();
    for (host, sha256) in &renewed {
        edge.memory.until_seen(host, Some(sha256)).await;
        load.serves(host, Host::Only(sha256.clone()));
    }
    load.one_more_round().await;
    let visits = load.stop().await;
    println!("{FOREIGN} taken over and renewed under {visits} visits");
    assert_eq!(edge.haproxy.process().unwrap().pid(), pid);
    let strangers = |memory: &Memory| memory.strangers().is_empty().then_some(());
    edge.memory.until("no stranger to be left", strangers).await;
}
