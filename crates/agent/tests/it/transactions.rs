//! HAProxy has one transaction for everybody, and mixes up what is set in it.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;

use holdfast_agent::{HaproxyTarget, Result, RuntimeAddress, Target as _};
use holdfast_model::Note;
use holdfast_store::Bundle;
use holdfast_testkit::Haproxy;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::kit::{Authority, Memory, Middleman, Mischief, Proxied, Running, pem};

/// A HAProxy that also serves somebody else's certificate, with that and its file.
async fn beside_a_stranger() -> (Proxied, Bundle, PathBuf) {
    let haproxy = Haproxy::prepare().unwrap();
    let strange = Authority::new().issue("strange.test");
    let file = haproxy.scratch().write("strange.pem", pem(&strange)).unwrap();
    let list = haproxy.scratch().write("strange-list", format!("{}\n", file.display())).unwrap();
    (Proxied::with(haproxy.with_list(&list)).await, strange, file)
}

/// The fault of HAProxy: what is set for B while a transaction for A is open is committed for A.
#[tokio::test]
async fn a_crossed_transaction_is_survived() {
    let edge = Proxied::new().await;
    let running = edge.run();
    let (a, b) = (edge.served("a.test").await, edge.served("b.test").await);
    running.stop().await;
    // By hand, as an agent would that knew nothing of it: B's certificate ends up at A.
    let (new_a, new_b) = (edge.authority.issue("a.test"), edge.authority.issue("b.test"));
    let set = |host: &str, bundle| format!("set ssl cert {} <<\n{}", edge.file(host), pem(bundle));
    let said = edge.haproxy.ask(&set("a.test", &new_a)).await.unwrap();
    assert!(said.contains("Transaction created for certificate"), "{said}");
    let said = edge.haproxy.ask(&set("b.test", &new_b)).await.unwrap();
    assert_eq!(said, format!("Transaction updated for certificate {}!", edge.file("a.test")));
    // The transaction is still open, with B's certificate in A's place. The agent must neither use nor commit it.
    let _running = edge.run();
    let renewed = edge.served("b.test").await;
    assert_eq!((edge.visit("a.test").await, edge.visit("b.test").await), (a.clone(), renewed));
    assert_ne!(a, b);
    let said = edge.haproxy.ask(&format!("commit ssl cert {}", edge.file("a.test"))).await.unwrap();
    assert!(said.contains("No ongoing transaction"), "{said}");
    assert_eq!(edge.visit("a.test").await, a);
}

#[tokio::test]
async fn somebody_elses_transaction_is_left_alone_and_told_of() {
    let (edge, strange, file) = beside_a_stranger().await;
    let _running = edge.run();
    edge.served("ours.test").await;
    let set = format!("set ssl cert {} <<\n{}", file.display(), pem(&strange));
    assert!(edge.haproxy.ask(&set).await.unwrap().contains("Transaction created"));
    let renewed = edge.deploy("ours.test");
    let locked =
        |memory: &Memory| memory.complaint().filter(|note| note.code == "edge-transaction-locked");
    let note = edge.memory.until("the complaint", locked).await;
    assert!(note.detail.contains(&format!("abort ssl cert {}", file.display())), "{note}");
    edge.haproxy.ask(&format!("abort ssl cert {}", file.display())).await.unwrap();
    edge.memory.until_seen("ours.test", Some(&renewed)).await;
    let over = |memory: &Memory| memory.complaint().is_none().then_some(());
    edge.memory.until("the complaint to end", over).await;
}

/// A target whose HAProxy is spoken to through somebody.
async fn through(edge: &Proxied, mischief: Mischief) -> (Arc<HaproxyTarget>, Middleman) {
    let middleman = Middleman::start(&edge.haproxy, mischief).await;
    let mut settings = edge.settings();
    settings.socket = RuntimeAddress::Tcp(middleman.address);
    (Arc::new(HaproxyTarget::new(settings).unwrap()), middleman)
}

/// Issues certificates for these and puts them in place at once.
async fn apply(
    edge: &Proxied,
    target: &HaproxyTarget,
    hosts: &[&str],
) -> Result<Vec<Result<(), Note>>> {
    for host in hosts {
        edge.deploy(host);
    }
    again(edge, target, hosts).await
}

async fn again(
    edge: &Proxied,
    target: &HaproxyTarget,
    hosts: &[&str],
) -> Result<Vec<Result<(), Note>>> {
    let changes: Vec<_> = hosts.iter().map(|host| edge.memory.change(host)).collect();
    let (ready, _places) = mpsc::unbounded_channel();
    target.apply(&changes, edge.memory.clone(), &ready).await
}

/// These are served as they should be.
async fn are_served(edge: &Proxied, hosts: &[&str]) {
    for host in hosts {
        let wanted = edge.memory.change(host).certificate.unwrap().1;
        assert_eq!(edge.visit(host).await, wanted, "{host}");
    }
}

/// Nobody can commit what got into somebody else's transaction.
async fn nothing_is_open(edge: &Proxied, file: &Path) {
    let commit = format!("commit ssl cert {}", file.display());
    let said = edge.haproxy.ask(&commit).await.unwrap();
    assert!(said.contains("No ongoing transaction"), "{said}");
}

const SOME: [&str; 4] = ["one.test", "two.test", "three.test", "four.test"];

#[tokio::test]
async fn a_transaction_opened_between_the_look_and_the_set_is_not_committed_with_our_certificate() {
    let (edge, strange, file) = beside_a_stranger().await;
    let intrude = Mischief::Intrude { file: file.clone(), pem: pem(&strange) };
    let (target, intruder) = through(&edge, intrude).await;
    let _running = Running::start(edge.memory.clone(), target, edge.config());
    for name in SOME {
        edge.served(name).await;
    }
    let before = edge.visit_unverified("strange.test").await;
    intruder.armed.store(true, SeqCst);
    let renewed = SOME.map(|name| (name, edge.deploy(name)));
    for (name, sha256) in &renewed {
        edge.memory.until_seen(name, Some(sha256)).await;
        assert_eq!(edge.visit(name).await, *sha256);
    }
    assert!(!intruder.armed.load(SeqCst), "it said nothing");
    nothing_is_open(&edge, &file).await;
    assert_eq!(edge.visit_unverified("strange.test").await, before);
}

#[tokio::test]
async fn a_transaction_opened_between_a_commit_and_the_next_set_gets_lost_and_is_told_of() {
    let (edge, strange, file) = beside_a_stranger().await;
    let intrude = Mischief::IntrudeBetween { file: file.clone(), pem: pem(&strange) };
    let (target, intruder) = through(&edge, intrude).await;
    assert!(apply(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
    let before = edge.visit_unverified("strange.test").await;
    intruder.armed.store(true, SeqCst);
    let note = apply(&edge, &target, &SOME).await.unwrap_err().note();
    assert_eq!(note.code, "edge-transaction-crossed");
    assert!(note.detail.contains(file.to_str().unwrap()), "{note}");
    nothing_is_open(&edge, &file).await;
    assert_eq!(edge.visit_unverified("strange.test").await, before);
    assert!(again(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
    are_served(&edge, &SOME).await;
}

#[tokio::test]
async fn what_somebody_set_in_our_transaction_is_seen_and_mended() {
    let (edge, strange, file) = beside_a_stranger().await;
    let cross = Mischief::Cross { file, pem: pem(&strange) };
    let (target, intruder) = through(&edge, cross).await;
    assert!(apply(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
    intruder.armed.store(true, SeqCst);
    let results = apply(&edge, &target, &SOME).await.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "{results:?}");
    assert!(target.tend().await.unwrap(), "nothing was mended");
    are_served(&edge, &SOME).await;
}

#[tokio::test]
async fn one_that_cannot_be_committed_does_not_take_the_next_with_it() {
    let edge = Proxied::new().await;
    // A certificate with the key of another.
    let (one, other) = (edge.authority.issue("two.test"), edge.authority.issue("two.test"));
    let mixed = one.chain_pem.clone() + std::str::from_utf8(other.key.expose()).unwrap();
    let swap = Mischief::Swap { file: edge.file("two.test"), pem: mixed };
    let (target, _middleman) = through(&edge, swap).await;
    let results = apply(&edge, &target, &SOME).await.unwrap();
    let [Ok(()), Err(note), Ok(()), Ok(())] = &results[..] else { panic!("{results:?}") };
    assert!(note.detail.contains("commit ssl cert"), "{note}");
    are_served(&edge, &["one.test", "three.test", "four.test"]).await;
    edge.visitor().refusal("two.test").await;
    nothing_is_open(&edge, Path::new(&edge.file("two.test"))).await;
}

#[tokio::test]
async fn a_haproxy_that_reads_no_long_lines_is_served_with_short_ones() {
    let edge = Proxied::new().await;
    let (target, _middleman) = through(&edge, Mischief::SpoilWide).await;
    for _ in 0..2 {
        assert!(apply(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
        are_served(&edge, &SOME).await;
    }
}

/// Gives up on a future after so many looks at it.
async fn looked_at<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut looks = 0;
    poll_fn(|context| {
        looks += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if looks >= times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// HAProxy 2.6 crashes when it is hung up on while it owes an answer and has a commit to do.
#[tokio::test]
async fn hung_up_on_at_any_moment_haproxy_lives_and_serves() {
    let edge = Proxied::new().await;
    let target = edge.target();
    assert!(apply(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
    let process = edge.haproxy.ask("show info").await.unwrap();
    let pid = process.lines().find(|line| line.starts_with("Pid:")).unwrap();
    let times = if std::env::var_os("HOLDFAST_SOAK").is_some() { 20_000 } else { 400 };
    for time in 0..times {
        looked_at(apply(&edge, &target, &SOME), 1 + time % 60).await;
        let now = edge.haproxy.ask("show info").await.expect("HAProxy is gone");
        assert!(now.contains(pid), "it is another HAProxy");
    }
    assert!(again(&edge, &target, &SOME).await.unwrap().iter().all(Result::is_ok));
    are_served(&edge, &SOME).await;
}

/// While somebody lists certificates and does not read, HAProxy refuses every command about them. That says nothing of ours.
#[tokio::test]
async fn while_somebody_else_keeps_certificates_locked_nothing_is_taken_for_refused() {
    let haproxy = Haproxy::prepare().unwrap();
    let strange = haproxy
        .scratch()
        .write("strange.pem", pem(&Authority::new().issue("strange.test")))
        .unwrap();
    // So many, and of such names, that a listing of them does not fit what a socket holds.
    let mut lines = String::new();
    for number in 0..3_000 {
        let file = haproxy.path().join(format!("{}-{number}.pem", "strange".repeat(30)));
        std::fs::hard_link(&strange, &file).unwrap();
        lines += &format!("{}\n", file.display());
    }
    let list = haproxy.scratch().write("strange-list", lines).unwrap();
    let edge = Proxied::with(haproxy.with_list(&list)).await;
    let running = edge.run();
    let served = edge.served("ours.test").await;
    running.stop().await;
    let mut other = UnixStream::connect(edge.haproxy.socket()).await.unwrap();
    other.write_all(b"show ssl cert\n").await.unwrap();
    other.readable().await.unwrap();
    let error = edge.target().inventory().await.unwrap_err();
    assert_eq!(error.note().code, "edge-certificates-locked", "{error}");
    assert!(edge.read_list().contains("ours.test"));
    drop(other);
    let _running = edge.run();
    let renewed = edge.served("ours.test").await;
    assert_ne!(served, renewed);
    assert_eq!(edge.visit("ours.test").await, renewed);
}
