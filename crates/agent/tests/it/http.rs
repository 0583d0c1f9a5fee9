//! The feed over HTTP: trusted roots, certificates of clients, proxies, replicas that are away.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use holdfast_agent::{AgentConfig, Error, Feed, HttpFeed, HttpFeedConfig};
use holdfast_gateway::listener;
use holdfast_store::{EdgeReport, Revision, Secret, UNUSABLE};
use holdfast_testkit::{Pki, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::{Authority, LIMIT, Lie, Memory, Plane, Proxied, Running, Scripted};

fn tls(pki: &Pki, clients: Option<&Pki>) -> Arc<rustls::ServerConfig> {
    let clients = clients.map(|pki| pki.root_pem.as_bytes());
    listener::server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), clients).unwrap()
}

async fn registered(config: HttpFeedConfig) -> Result<Revision, Error> {
    HttpFeed::new(config)?.register().await
}

#[tokio::test]
async fn only_the_given_root_is_trusted() {
    let pki = Pki::new().unwrap();
    let plane = Plane::start_tls(Arc::default(), tls(&pki, None)).await;
    let with = |root: &Pki| HttpFeedConfig {
        root_pem: Some(root.root_pem.clone().into()),
        ..plane.feed()
    };
    registered(with(&pki)).await.unwrap();
    let refused = registered(with(&Pki::new().unwrap())).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    registered(plane.feed()).await.unwrap_err();
}

#[tokio::test]
async fn a_certificate_of_the_client_is_shown() {
    let (pki, client) = (Pki::new().unwrap(), Pki::of(&["edge-1"]).unwrap());
    let plane = Plane::start_tls(Arc::default(), tls(&pki, Some(&client))).await;
    let without = HttpFeedConfig { root_pem: Some(pki.root_pem.clone().into()), ..plane.feed() };
    registered(without.clone()).await.unwrap_err();
    let identity = (client.chain_pem.clone().into_bytes(), Secret::from(client.key_pem.clone()));
    registered(HttpFeedConfig { client_pem: Some(identity), ..without }).await.unwrap();
}

#[tokio::test]
async fn the_way_leads_through_a_proxy_and_the_name_stays() {
    let pki = Pki::of(&["plane.test"]).unwrap();
    let plane = Plane::start_tls(Arc::default(), tls(&pki, None)).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    let to = plane.address;
    let asked = tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let mut server = TcpStream::connect(to).await.unwrap();
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            .await
            .unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        String::from_utf8(head).unwrap()
    });
    let config = HttpFeedConfig {
        servers: vec![format!("https://plane.test:{}", to.port()).parse().unwrap()],
        root_pem: Some(pki.root_pem.clone().into()),
        proxy: Some(proxy_url.parse().unwrap()),
        ..plane.feed()
    };
    registered(config).await.unwrap();
    let head = asked.await.unwrap();
    assert!(head.starts_with(&format!("CONNECT plane.test:{} HTTP/1.1\r\n", to.port())), "{head}");
}

#[tokio::test]
async fn plaintext_to_another_machine_must_be_allowed() {
    let plane = Plane::start(Arc::default()).await;
    let elsewhere = vec!["http://plane.test:1".parse().unwrap()];
    let config = HttpFeedConfig { servers: elsewhere, ..plane.feed() };
    let refused = registered(config.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("allow_plaintext"), "{refused}");
    HttpFeed::new(HttpFeedConfig { allow_plaintext: true, ..config }).unwrap();
    registered(plane.feed()).await.unwrap();
}

#[tokio::test]
async fn a_replica_that_is_away_is_passed_over() {
    let (memory, closed) = (Arc::new(Memory::default()), holdfast_testkit::free_port().unwrap());
    let (one, two) = (Plane::start(memory.clone()).await, Plane::start(memory).await);
    let servers = [format!("http://127.0.0.1:{closed}"), one.url(), two.url()];
    let servers = servers.iter().map(|url| url.parse().unwrap()).collect();
    let feed = HttpFeed::new(HttpFeedConfig { servers, ..one.feed() }).unwrap();
    feed.register().await.unwrap();
    assert_eq!((one.requests.load(Relaxed), two.requests.load(Relaxed)), (1, 0));
    drop(one);
    eventually(LIMIT, "the other replica to answer", async || {
        feed.register().await.map_err(|error| error.to_string())
    })
    .await;
    assert!(two.requests.load(Relaxed) > 0);
}

#[tokio::test]
async fn a_new_token_is_read_when_the_old_one_is_refused() {
    let plane = Plane::start(Arc::default()).await;
    let scratch = holdfast_testkit::Scratch::new().unwrap();
    let token_file = Some(scratch.write("token", "an old one").unwrap());
    let feed = HttpFeed::new(HttpFeedConfig { token_file, ..plane.feed() }).unwrap();
    assert!(feed.register().await.unwrap_err().is_transient());
    scratch.write("token", std::fs::read(plane.feed().token_file.unwrap()).unwrap()).unwrap();
    feed.register().await.unwrap();
}

#[tokio::test]
async fn when_to_ask_again_is_heard() {
    let memory = Arc::new(Memory::default());
    let plane = Plane::start(memory.clone()).await;
    let feed = HttpFeed::new(plane.feed()).unwrap();
    let after = Duration::from_secs(7);
    memory.be_busy(Some(after));
    let told = [
        feed.register().await.unwrap_err(),
        feed.changes(Revision::default(), 10, Duration::ZERO).await.unwrap_err(),
        feed.desired().await.unwrap_err(),
        feed.report(&EdgeReport::default()).await.unwrap_err(),
    ];
    for error in told {
        assert!(error.asked_rest().is_some_and(|rest| rest <= after), "{error:?}");
    }
    memory.be_busy(None);
    feed.register().await.unwrap();
}

#[tokio::test]
async fn who_asks_to_be_left_alone_delays_no_other() {
    let (first, second) = (Arc::new(Memory::default()), Arc::new(Memory::default()));
    let (one, two) = (Plane::start(first.clone()).await, Plane::start(second.clone()).await);
    let servers = vec![one.url().parse().unwrap(), two.url().parse().unwrap()];
    let feed = HttpFeed::new(HttpFeedConfig { servers, ..one.feed() }).unwrap();
    let asked = || (one.requests.load(Relaxed), two.requests.load(Relaxed));
    first.be_busy(Some(Duration::from_secs(3_600)));
    feed.register().await.unwrap();
    assert_eq!(asked(), (1, 1), "the other one is asked at once");
    feed.desired().await.unwrap();
    second.be_busy(Some(Duration::from_secs(5)));
    let error = feed.report(&EdgeReport::default()).await.unwrap_err();
    assert_eq!(asked(), (1, 3), "whoever wants to be left alone is");
    assert!(error.asked_rest().is_some_and(|rest| rest <= Duration::from_secs(5)), "{error:?}");
}

#[tokio::test]
async fn reports_are_counted_from_each_registration() {
    let memory = Arc::new(Memory::default());
    let plane = Plane::start(memory.clone()).await;
    let feed = HttpFeed::new(plane.feed()).unwrap();
    for _ in 0..2 {
        feed.register().await.unwrap();
        for _ in 0..2 {
            feed.report(&EdgeReport::default()).await.unwrap();
        }
    }
    let orders: Vec<_> = memory.reports().iter().map(|report| report.order.unwrap()).collect();
    let sequences: Vec<_> = orders.iter().map(|order| order.sequence).collect();
    assert_eq!(sequences, [1, 2, 1, 2]);
    assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
}

#[tokio::test]
async fn a_listing_without_its_end_is_not_believed() {
    let (memory, authority) = (Arc::new(Memory::default()), Authority::new());
    let plane = Plane::start(memory.clone()).await;
    for n in 0..30 {
        memory.deploy(&authority.issue(&format!("n{n}.test")));
    }
    let feed = HttpFeed::new(plane.feed()).unwrap();
    let listing = feed.desired().await.unwrap();
    assert_eq!((listing.items.len(), listing.revision), (30, memory.at()));
    memory.lie(Some(Lie::Broken));
    let refused = feed.desired().await.unwrap_err();
    assert!(refused.to_string().contains("broke off"), "{refused}");
}

#[tokio::test]
async fn the_agents_loop_runs_over_http() {
    let (memory, authority) = (Arc::new(Memory::default()), Authority::new());
    let plane = Plane::start(memory.clone()).await;
    let (feed, target) = (HttpFeed::new(plane.feed()).unwrap(), Arc::new(Scripted::default()));
    let _running = Running::start(Arc::new(feed), target.clone(), AgentConfig::default());
    let sha256 = memory.deploy(&authority.issue("shop.test"));
    memory.until_seen("shop.test", Some(&sha256)).await;
    memory.withdraw("shop.test");
    memory.until_seen("shop.test", None).await;
    target.refuse("bad.test", true);
    memory.deploy(&authority.issue("bad.test"));
    let refused = |memory: &Memory| memory.observed("bad.test")?.error;
    assert_eq!(memory.until("the refusal", refused).await.code, "edge-refused");
    memory.forget_edge();
    let next = memory.deploy(&authority.issue("next.test"));
    memory.until_seen("next.test", Some(&next)).await;
}

/// The signs of life are the clock here: while many of them come, one poll stays open, and nothing else is asked.
#[tokio::test]
async fn an_agent_with_nothing_to_do_idles_in_one_long_poll() {
    let (memory, authority) = (Arc::new(Memory::default()), Authority::new());
    let plane = Plane::start(memory.clone()).await;
    let (feed, target) = (HttpFeed::new(plane.feed()).unwrap(), Arc::new(Scripted::default()));
    let config = AgentConfig { heartbeat: Duration::from_millis(10), ..AgentConfig::default() };
    let _running = Running::start(Arc::new(feed), target, config);
    let sha256 = memory.deploy(&authority.issue("shop.test"));
    memory.until_seen("shop.test", Some(&sha256)).await;
    let idle = eventually(LIMIT, "all to be reported and a poll to wait", async || {
        let asked = plane.asked();
        match memory.acknowledged() == memory.at() && asked.open == 1 {
            true => Ok(asked),
            false => Err(format!("{asked:?}")),
        }
    })
    .await;
    for _ in 0..100 {
        let signs = memory.reports().len();
        let next = |memory: &Memory| (memory.reports().len() > signs).then_some(());
        memory.until("a sign of life", next).await;
        assert_eq!(plane.asked(), idle);
    }
    // And it is this poll that brings what is new.
    let sha256 = memory.deploy(&authority.issue("next.test"));
    memory.until_seen("next.test", Some(&sha256)).await;
    assert!(plane.asked().answered > idle.answered);
}

/// What the control plane cannot read any more is told by its name, so that it orders another, and nothing is taken away for it.
#[tokio::test]
async fn a_damaged_certificate_is_reported_and_the_one_before_it_served_on() {
    let edge = Proxied::new().await;
    let plane = Plane::start(edge.memory.clone()).await;
    let feed = Arc::new(HttpFeed::new(plane.feed()).unwrap());
    let _running = Running::start(feed, edge.target(), edge.config());
    let first = edge.served("shop.test").await;
    edge.memory.deploy_damaged(&edge.authority.issue("shop.test"));
    let told = |memory: &Memory| memory.observed("shop.test")?.error;
    let note = edge.memory.until("the damage to be reported", told).await;
    assert_eq!(note.code, UNUSABLE);
    assert!(note.detail.contains("certificate-damaged"), "{note}");
    assert_eq!(edge.visit("shop.test").await, first);
    let another = edge.served("shop.test").await;
    assert_eq!(edge.visit("shop.test").await, another);
}

#[tokio::test]
async fn haproxy_is_served_over_http() {
    let edge = Proxied::new().await;
    let plane = Plane::start(edge.memory.clone()).await;
    let feed = Arc::new(HttpFeed::new(plane.feed()).unwrap());
    let _running = Running::start(feed, edge.target(), edge.config());
    let sha256 = edge.served("shop.test").await;
    assert_eq!(edge.visit("shop.test").await, sha256);
    let renewed = edge.served("shop.test").await;
    assert_eq!(edge.visit("shop.test").await, renewed);
}

/// Takes connections, and says nothing on them.
async fn hung() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    (url, silent)
}

/// Each request that left it turned to where the other one had just come from.
#[tokio::test]
async fn a_replica_that_hangs_is_left_by_all_requests_well_before_the_edge_counts_as_gone() {
    let plane = Plane::start(Arc::default()).await;
    let (url, _silent) = hung().await;
    let servers = [url, plane.url()].iter().map(|url| url.parse().unwrap()).collect();
    let feed = HttpFeed::new(HttpFeedConfig { servers, ..plane.feed() }).unwrap();
    let report = EdgeReport::default();
    let poll = feed.changes(Revision::default(), 10, Duration::from_secs(30));
    let both = async { tokio::join!(poll, feed.report(&report)) };
    let (poll, first) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert!(matches!(poll, Err(Error::Timeout(_))), "{poll:?}");
    assert!(matches!(first, Err(Error::Timeout(_))), "{first:?}");
    assert_eq!(plane.requests.load(Relaxed), 0);
    feed.register().await.unwrap();
    feed.report(&report).await.unwrap();
    assert_eq!(plane.requests.load(Relaxed), 2);
}

/// A listing that stops half-way.
#[tokio::test]
async fn a_replica_that_hangs_in_its_answer_is_left_too() {
    let plane = Plane::start(Arc::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let _half = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4_096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let servers = [url, plane.url()].iter().map(|url| url.parse().unwrap()).collect();
    let feed = HttpFeed::new(HttpFeedConfig { servers, ..plane.feed() }).unwrap();
    let error = feed.desired().await.err();
    assert!(matches!(error, Some(Error::Timeout(_))), "{error:?}");
    feed.register().await.unwrap();
}
