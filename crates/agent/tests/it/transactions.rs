//! HAProxy has one transaction for everybody, and mixes up what is set in it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use holdfast_agent::{HaproxyTarget, RuntimeAddress, Target as _};
use holdfast_store::Bundle;
use holdfast_testkit::Haproxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::kit::{Authority, Memory, Proxied, Running, pem};

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

/// Stands between the agent and HAProxy, and says something of its own just before the next `set`.
struct Intruder {
    address: SocketAddr,
    /// Is the next `set` to be preceded?
    armed: Arc<AtomicBool>,
}

impl Intruder {
    async fn start(haproxy: &Haproxy, says: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (armed, socket) = (Arc::new(AtomicBool::new(false)), haproxy.socket());
        let (shared, says) = (armed.clone(), Arc::new(says));
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                let haproxy = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(between(agent, haproxy, socket.clone(), says.clone(), shared.clone()));
            }
        });
        Self { address, armed }
    }
}

async fn between(
    agent: TcpStream,
    haproxy: UnixStream,
    socket: PathBuf,
    says: Arc<String>,
    armed: Arc<AtomicBool>,
) {
    let ((mut from, mut to), (mut answers, mut commands)) =
        (agent.into_split(), haproxy.into_split());
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut to).await });
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let text = &buffer[..read];
        if String::from_utf8_lossy(text).contains("set ssl cert ") && armed.swap(false, SeqCst) {
            let mut intruder = UnixStream::connect(&socket).await.unwrap();
            intruder.write_all(says.as_bytes()).await.unwrap();
            let mut said = String::new();
            intruder.read_to_string(&mut said).await.unwrap();
            assert!(said.contains("Transaction created"), "{said}");
        }
        commands.write_all(text).await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_opened_between_the_look_and_the_set_is_not_committed_with_our_certificate() {
    let (edge, strange, file) = beside_a_stranger().await;
    let says = format!("set ssl cert {} <<\n{}\n", file.display(), pem(&strange));
    let intruder = Intruder::start(&edge.haproxy, says).await;
    let mut settings = edge.settings();
    settings.socket = RuntimeAddress::Tcp(intruder.address);
    let target = Arc::new(HaproxyTarget::new(settings).unwrap());
    let _running = Running::start(edge.memory.clone(), target, edge.config());
    let names = ["one.test", "two.test", "three.test"];
    for name in names {
        edge.served(name).await;
    }
    let before = edge.visit_unverified("strange.test").await;
    intruder.armed.store(true, SeqCst);
    let renewed = names.map(|name| (name, edge.deploy(name)));
    for (name, sha256) in &renewed {
        edge.memory.until_seen(name, Some(sha256)).await;
        assert_eq!(edge.visit(name).await, *sha256);
    }
    assert!(!intruder.armed.load(SeqCst), "it said nothing");
    // What the other one had open held our certificate: nobody may commit that.
    let commit = format!("commit ssl cert {}", file.display());
    let said = edge.haproxy.ask(&commit).await.unwrap();
    assert!(said.contains("No ongoing transaction"), "{said}");
    assert_eq!(edge.visit_unverified("strange.test").await, before);
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
