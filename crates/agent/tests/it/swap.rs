//! Certificates are swapped under load, and nobody notices.

use holdfast_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{Crowd, Ground, LIMIT};

const HOSTS: &[&str] = &["one.test", "two.test"];
const SWAPS: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_one_handshake_fails_while_certificates_are_swapped() {
    let ground = Ground::new().await;
    for host in HOSTS {
        ground.swap(host).await;
    }
    let crowd = Crowd::start(|| ground.visitor(), HOSTS);
    let mut probes = 0;
    for _ in 0..SWAPS {
        for host in HOSTS {
            let sha256 = ground.swap(host).await;
            assert_eq!(ground.sees(host).await, Some(sha256));
            probes += 1;
            crowd.one_more_round().await;
        }
    }
    let seen = crowd.stop().await;
    assert_eq!(seen.failures, Vec::<String>::new());
    let (made, resumed) = (seen.handshakes, seen.resumed);
    eventually(LIMIT, "the edge's count to be ours", async || {
        let edge = ground.edge.tallied();
        let same = edge.handshakes == made + probes && edge.resumed == resumed;
        if same { Ok(()) } else { Err(format!("{edge:?}, visitors {made}, resumed {resumed}")) }
    })
    .await;
    let edge = ground.edge.tallied();
    assert_eq!((edge.failed, edge.unknown_names), (0, 0));
    assert!(resumed > 0 && made > resumed, "{made} handshakes, {resumed} resumed");
    println!("{made} handshakes, {resumed} of them resumed, {probes} swaps, none failed");
}

#[tokio::test]
async fn connections_opened_before_a_swap_go_on_with_what_they_began_with() {
    let ground = Ground::new().await;
    let old = ground.swap("one.test").await;
    let mut stream = ground.visitor().connect("one.test").await.unwrap();
    let client = ground.visitor().client();
    let get = || http::Request::get("https://one.test/").body(bytes::Bytes::new()).unwrap();
    assert_eq!(client.send(get()).await.unwrap().status(), 200);
    let before =
        eventually(LIMIT, "both handshakes", async || match ground.edge.tallied().handshakes {
            2 => Ok(2),
            handshakes => Err(handshakes),
        })
        .await;
    let new = ground.swap("one.test").await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let shown = |sha256: &str| {
        let pairs: Vec<_> = sha256.as_bytes().chunks(2).map(String::from_utf8_lossy).collect();
        pairs.join(":")
    };
    assert!(answer.contains(&shown(&old)), "{answer}");
    let again = client.send(get()).await.unwrap();
    assert!(String::from_utf8_lossy(again.body()).contains(&shown(&old)));
    assert_eq!(ground.edge.tallied().handshakes, before, "somebody had to connect again");
    assert_eq!(ground.visitor().visit("one.test").await.unwrap().sha256, new);
}
