//! The built-in edge over a real store: the same on both databases.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_agent::{AgentConfig, BuiltinEdge, EdgeConfig, StoreFeed, Target as _, run_agent};
use holdfast_store::{
    Actor, Adopt, ChallengeKind, DeploymentStatus, EdgeReport, EventBody, Outdated, Stranger,
    UNUSABLE, proof_answer,
};
use holdfast_testkit::{eventually, run_sql};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kit::{Authority, Crowd, LIMIT, Stored, Visitor, ask, challenge_leaf, name};

macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod on_postgres {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario($crate::kit::Stored::on_postgres().await).await;
            })*
        }
        mod on_sqlite {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario($crate::kit::Stored::on_sqlite().await).await;
            })*
        }
    };
}

on_both!(
    a_domain_is_deployed_swapped_and_withdrawn,
    challenges_and_proofs_come_from_the_store,
    a_restart_loads_nothing_and_continues_where_it_was,
    after_a_restored_backup_everything_is_reported_anew,
    who_missed_what_is_deleted_lists_anew_in_parts,
    a_refusal_reaches_the_store_and_is_mended_by_the_next_certificate,
    a_cut_key_is_reported_when_a_visitor_asks,
    an_altered_chain_is_reported_when_a_visitor_asks,
    not_one_handshake_fails_while_the_store_deploys_anew,
    why_a_file_was_not_taken_over_is_written_down,
);

/// A replica's edge with its agent.
struct Replica {
    edge: Arc<BuiltinEdge>,
    agent: JoinHandle<()>,
    stop: CancellationToken,
}

impl Replica {
    async fn start(stored: &Stored) -> Self {
        Self::start_with(stored, AgentConfig::default()).await
    }

    async fn start_with(stored: &Stored, agent: AgentConfig) -> Self {
        let free = ([127, 0, 0, 1], 0).into();
        let config = EdgeConfig::new("edge-1", "default", Some(free), free);
        let stop = CancellationToken::new();
        let store = stored.store.clone();
        let edge = BuiltinEdge::start(config, store.clone(), stop.clone()).await.unwrap();
        let edge = Arc::new(edge);
        let feed = Arc::new(StoreFeed::new(store, edge.identity()));
        let agent = run_agent(feed, edge.clone(), agent, stop.clone());
        Self { agent: tokio::spawn(agent), edge, stop }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.agent.await.unwrap();
        tokio::time::timeout(LIMIT, self.edge.ended()).await.unwrap();
    }
}

async fn a_domain_is_deployed_swapped_and_withdrawn(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    // A resumed session would show what it began with.
    let visitor = Visitor::new(&authority, replica.edge.https()).never_resuming();
    let first = authority.issue("shop.test");
    let claimed = stored.deploy(&first).await;
    let seen = stored.until_served(claimed.domain.id).await.seen.unwrap().sha256;
    assert_eq!(seen, first.summary.sha256);
    assert_eq!(visitor.visit("shop.test").await.unwrap().sha256, first.summary.sha256);

    let second = authority.issue("shop.test");
    let claimed = stored.swap(&claimed, &second).await;
    let seen = stored.until_served(claimed.domain.id).await.seen.unwrap().sha256;
    assert_eq!(seen, second.summary.sha256);
    assert_eq!(visitor.visit("shop.test").await.unwrap().sha256, second.summary.sha256);

    let claimed = stored.remove(&claimed).await;
    let status = stored.until_served(claimed.domain.id).await;
    assert!(status.tombstone, "{status:?}");
    visitor.refusal("shop.test").await;
    replica.stop().await;
}

async fn challenges_and_proofs_come_from_the_store(stored: Stored) {
    let replica = Replica::start(&stored).await;
    let get = async |path: &str| {
        let mut tcp = TcpStream::connect(replica.edge.http().unwrap()).await.unwrap();
        let line = format!("GET {path} HTTP/1.1");
        ask(&mut tcp, "one.test", &line, "Connection: close\r\n").await.unwrap()
    };
    stored.challenge("one.test", ChallengeKind::Http01, "t0ken").await;
    let answer = get("/.well-known/acme-challenge/t0ken").await;
    assert!(answer.ends_with("\r\n\r\nt0ken.thumbprint"), "{answer}");
    assert!(get("/.well-known/acme-challenge/other").await.starts_with("HTTP/1.1 404 "));

    stored.challenge("two.test", ChallengeKind::TlsAlpn01, "alpn").await;
    let leaf = challenge_leaf(replica.edge.https(), "two.test").await;
    let digest = ring::digest::digest(&ring::digest::SHA256, b"alpn.thumbprint");
    assert!(leaf.windows(32).any(|window| window == digest.as_ref()));
    assert!(get("/.well-known/acme-challenge/alpn").await.starts_with("HTTP/1.1 404 "));

    let secret = stored.store.cluster_secret().await.unwrap();
    let proof = proof_answer(&secret, "n0nce");
    let answer = get("/.well-known/holdfast/n0nce").await;
    assert!(answer.ends_with(&format!("\r\n\r\n{proof}")), "{answer}");
    replica.stop().await;
}

async fn a_cut_key_is_reported_when_a_visitor_asks(stored: Stored) {
    let cut = "UPDATE sealed SET value = substr(value, 1, 40) WHERE owner = 'certificate'";
    damage_is_reported(stored, cut).await;
}

async fn an_altered_chain_is_reported_when_a_visitor_asks(stored: Stored) {
    let cut = "UPDATE certificate SET chain_pem = substr(chain_pem, 1, 200)";
    damage_is_reported(stored, cut).await;
}

/// A certificate that was served and is damaged in the database is not had by the edge's next life.
async fn damage_is_reported(stored: Stored, damage: &str) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let claimed = stored.deploy(&authority.issue("shop.test")).await;
    let domain = claimed.domain.id;
    stored.until_served(domain).await;
    replica.stop().await;
    run_sql(&stored.url, damage).unwrap();

    let again = Replica::start(&stored).await;
    for _ in 0..5 {
        again.edge.probe(&name("shop.test")).await.unwrap_err();
    }
    assert_eq!(again.edge.tallied().lookups, 1, "what cannot be served is not looked up each time");
    let told =
        |status: &DeploymentStatus| status.refused.iter().any(|(_, note)| note.code == UNUSABLE);
    stored.until(domain, "the damage to be reported", told).await;
    let good = authority.issue("shop.test");
    stored.swap(&claimed, &good).await;
    stored.until_served(domain).await;
    assert_eq!(again.edge.probe(&name("shop.test")).await.unwrap(), Some(good.summary.sha256));
    again.stop().await;
}

async fn a_restart_loads_nothing_and_continues_where_it_was(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let mut domains = Vec::new();
    for n in 0..30 {
        let claimed = stored.deploy(&authority.issue(&format!("n{n}.test"))).await;
        domains.push(claimed.domain.id);
    }
    for domain in &domains {
        stored.until_served(*domain).await;
    }
    eventually(LIMIT, "the edge to be up to date", async || {
        let edges = stored.store.edges().await.unwrap();
        if edges[0].behind == 0 { Ok(()) } else { Err(edges[0].behind) }
    })
    .await;
    replica.stop().await;

    let again = Replica::start(&stored).await;
    let new = stored.deploy(&authority.issue("new.test")).await;
    stored.until_served(new.domain.id).await;
    eventually(LIMIT, "the new name's handshake, and no other", async || {
        let tallied = again.edge.tallied();
        let wanted = (tallied.handshakes, tallied.lookups) == (1, 0);
        if wanted { Ok(()) } else { Err(format!("{tallied:?}")) }
    })
    .await;
    let visitor = Visitor::new(&authority, again.edge.https());
    let page = visitor.get("https://n7.test/").await;
    assert!(page.status() == 200 && page.body() != &Bytes::new());
    assert_eq!(again.edge.tallied().lookups, 1);
    again.stop().await;
}

async fn after_a_restored_backup_everything_is_reported_anew(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let claimed = stored.deploy(&authority.issue("kept.test")).await;
    stored.until_served(claimed.domain.id).await;
    let before =
        eventually(LIMIT, "the handshake", async || match replica.edge.tallied().handshakes {
            0 => Err("none yet"),
            handshakes => Ok(handshakes),
        })
        .await;
    let restored = stored.store.restored().await.unwrap();
    eventually(LIMIT, "the edge to follow into the new epoch", async || {
        let edges = stored.store.edges().await.unwrap();
        let there = edges[0].revision.epoch == restored.epoch && edges[0].behind == 0;
        if there { Ok(()) } else { Err(format!("{edges:?}")) }
    })
    .await;
    stored.until_served(claimed.domain.id).await;
    // The edge counts a handshake a moment after the visitor has it.
    eventually(LIMIT, "another handshake", async || match replica.edge.tallied().handshakes {
        handshakes if handshakes > before => Ok(()),
        handshakes => Err(handshakes),
    })
    .await;
    replica.stop().await;
}

async fn not_one_handshake_fails_while_the_store_deploys_anew(stored: Stored) {
    const HOSTS: &[&str] = &["one.test", "two.test"];
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let mut claimed = Vec::new();
    for host in HOSTS {
        claimed.push(stored.deploy(&authority.issue(host)).await);
    }
    let crowd = Crowd::start(|| Visitor::new(&authority, replica.edge.https()), HOSTS);
    for _ in 0..5 {
        for (host, claimed) in HOSTS.iter().zip(&mut claimed) {
            let bundle = authority.issue(host);
            *claimed = stored.swap(claimed, &bundle).await;
            let status = stored.until_served(claimed.domain.id).await;
            assert_eq!(status.seen.unwrap().sha256, bundle.summary.sha256);
            crowd.one_more_round().await;
        }
    }
    let seen = crowd.stop().await;
    assert_eq!(seen.failures, Vec::<String>::new());
    assert!(seen.resumed > 0);
    replica.stop().await;
}

async fn a_refusal_reaches_the_store_and_is_mended_by_the_next_certificate(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let mut bad = authority.issue("bad.test");
    bad.key = authority.issue("other.test").key;
    let claimed = stored.deploy(&bad).await;
    let refused = stored
        .until(claimed.domain.id, "the refusal", |status| !status.refused.is_empty())
        .await
        .refused;
    assert_eq!(
        (refused[0].0.as_str(), &*refused[0].1.code),
        ("edge-1", "edge-certificate-unusable")
    );
    let good = authority.issue("bad.test");
    stored.swap(&claimed, &good).await;
    stored.until_served(claimed.domain.id).await;
    assert_eq!(replica.edge.probe(&name("bad.test")).await.unwrap(), Some(good.summary.sha256));
    replica.stop().await;
}

async fn why_a_file_was_not_taken_over_is_written_down(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    let claimed = stored.deploy(&authority.issue("shop.test")).await;
    stored.until_served(claimed.domain.id).await;
    let edge = stored.store.register_edge(&replica.edge.identity()).await.unwrap().id;
    let (file, names) = ("/etc/ssl/shop.pem".to_owned(), vec!["shop.test".to_owned()]);
    let stranger = Stranger { file, names, sha256: None, shadows: true };
    let actor = Actor { instance: "test".to_owned(), name: "admin".to_owned() };
    let up_to = stored.store.latest_revision().await.unwrap();
    let found = EdgeReport { up_to, strangers: Some(vec![stranger]), ..EdgeReport::default() };
    stored.store.observe(edge, &found, &actor).await.unwrap();
    let before = stored.store.latest_event().await.unwrap();
    let asked = stored.store.adopt(edge, &Adopt::All, &actor).await.unwrap();
    assert_eq!(asked.len(), 1);
    let told = eventually(LIMIT, "how it went", async || {
        let events = stored.store.events_after(before, 100).await.unwrap();
        let failed = events.iter().find_map(|event| match &event.body {
            EventBody::Notice { kind, subject, detail } if kind == "edge-adopt-failed" => {
                Some((subject.clone(), detail.clone(), event.actor.name.clone()))
            }
            _ => None,
        });
        failed.ok_or(format!("{events:?}"))
    })
    .await;
    assert_eq!((told.0.as_str(), told.2.as_str()), ("shop.test", "edge:edge-1"));
    for words in ["edge-1", "/etc/ssl/shop.pem", "this edge has no files of others"] {
        assert!(told.1.contains(words), "{}", told.1);
    }
    replica.stop().await;
}

/// The newest tombstone there was is younger than most of what is to be served: of that, each part ends before it.
async fn who_missed_what_is_deleted_lists_anew_in_parts(stored: Stored) {
    let (replica, authority) = (Replica::start(&stored).await, Authority::new());
    for n in 0..5 {
        let claimed = stored.deploy(&authority.issue(&format!("n{n}.test"))).await;
        stored.until_served(claimed.domain.id).await;
    }
    replica.stop().await;
    let gone = stored.deploy(&authority.issue("gone.test")).await;
    let actor = Actor { instance: "here".to_owned(), name: "worker".to_owned() };
    let torn = stored.remove(&gone).await;
    stored.store.finish_removal(&torn, &actor).await.unwrap();
    let pruned = stored.store.prune(None, Outdated::Tombstones, Duration::ZERO, 10).await.unwrap();
    assert_eq!(pruned.done, 1);
    stored.deploy(&authority.issue("new.test")).await;

    let again =
        Replica::start_with(&stored, AgentConfig { batch: 2, ..AgentConfig::default() }).await;
    eventually(LIMIT, "the edge to have all of it", async || {
        let edge = stored.store.edges().await.unwrap().remove(0);
        let there =
            edge.behind == 0 && edge.revision == stored.store.latest_revision().await.unwrap();
        if there { Ok(()) } else { Err(format!("{edge:?}")) }
    })
    .await;
    let visitor = Visitor::new(&authority, again.edge.https());
    for name in ["n0.test", "n4.test", "new.test"] {
        visitor.visit(name).await.unwrap();
    }
    visitor.refusal("gone.test").await;
    again.stop().await;
}
