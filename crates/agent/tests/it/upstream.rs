//! An upstream behind the edge: streaming both ways, tunnels, and failures in plain words.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use holdfast_testkit::eventually;
use http::Request;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::kit::{AGES, Behind, Ground, LIMIT, PIECE, ask};

async fn ground(behind: SocketAddr) -> Ground {
    limited(behind, |_| {}).await
}

async fn limited(
    behind: SocketAddr,
    limit: impl FnOnce(&mut holdfast_agent::EdgeLimits),
) -> Ground {
    let ground = Ground::with(|config| {
        config.upstream = Some(format!("http://{behind}").parse().unwrap());
        limit(&mut config.limits);
    })
    .await;
    ground.deploy("app.test");
    ground
}

async fn proxied() -> (Ground, Arc<Behind>) {
    let (behind, address) = Behind::start().await;
    (ground(address).await, behind)
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[tokio::test]
async fn the_request_arrives_as_it_was_sent_and_says_for_whom() {
    let (ground, _behind) = proxied().await;
    let request = Request::put("https://app.test/a%20b?c=d")
        .header("x-forwarded-for", "1.2.3.4")
        .header("forwarded", "for=1.2.3.4")
        .header("x-real-ip", "1.2.3.4")
        .header("cookie", "a=b")
        .header("te", "trailers")
        .body(Bytes::from_static(b"hello"))
        .unwrap();
    let answer = ground.visitor().client().send(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    assert_eq!(answer.headers()["x-public"], "1");
    assert!(!answer.headers().contains_key("x-private"), "{:?}", answer.headers());
    let told = text(answer.body());
    assert!(told.starts_with("PUT /a%20b?c=d HTTP/1.1\n"), "{told}");
    assert!(told.ends_with("\n\nhello"), "{told}");
    for line in [
        "host: app.test\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-proto: https\n",
        "x-forwarded-host: app.test\n",
        "cookie: a=b\n",
        "content-length: 5\n",
        "connection: close\n",
    ] {
        assert!(told.contains(line), "{line} is missing: {told}");
    }
    for gone in ["1.2.3.4", "\nte:", "transfer-encoding:"] {
        assert!(!told.contains(gone), "{gone} is there: {told}");
    }
}

#[tokio::test]
async fn framing_is_made_anew_so_that_nothing_is_smuggled() {
    let (ground, _behind) = proxied().await;
    let check = async |headers: &str, body: &str, wanted: &str| {
        let mut stream = ground.visitor().connect("app.test").await.unwrap();
        let request = format!("POST / HTTP/1.1\r\nHost: app.test\r\n{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(wanted), "{headers:?}: {answer}");
        answer
    };
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n";
    // Both lengths: the chunks count, and the connection ends with this request.
    let both = "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n";
    let told = check(both, smuggled, "HTTP/1.1 200").await;
    assert!(!told.contains("/smuggled") && !told.contains("content-length: 60"), "{told}");
    check("Transfer-Encoding: xchunked\r\n", smuggled, "HTTP/1.1 400").await;
    check("Transfer-Encoding: chunked, identity\r\n", smuggled, "HTTP/1.1 400").await;
    check("Content-Length: 4\r\nContent-Length: 5\r\n", "abcde", "HTTP/1.1 400").await;
    check("Content-Length: +4\r\n", "abcd", "HTTP/1.1 400").await;
    check("Content-Length : 4\r\n", "abcd", "HTTP/1.1 400").await;
    check(
        "Transfer-Encoding: chunked\r\nConnection: close\r\n",
        "zz\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 ",
    )
    .await;
    let chunked = "Transfer-Encoding: chunked\r\nConnection: close, host\r\n";
    let told = check(chunked, "5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 200").await;
    assert!(told.contains("\n\nhello") && told.contains("host: app.test"), "{told}");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_not_lost_with_any_method() {
    let (ground, _behind) = proxied().await;
    for method in ["GET", "DELETE", "POST"] {
        let mut stream = ground.visitor().connect("app.test").await.unwrap();
        let head = format!(
            "{method} /x HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"3\r\nabc\r\n0\r\n\r\n").await.unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).await.unwrap();
        assert!(told.contains("\n\nabc"), "{method}: {told}");
    }
}

#[tokio::test]
async fn a_request_for_another_host_is_misdirected() {
    let (ground, _behind) = proxied().await;
    let mut stream = ground.visitor().connect("app.test").await.unwrap();
    let answer = ask(&mut stream, "other.test", "GET / HTTP/1.1", "Connection: close\r\n").await;
    assert!(answer.unwrap().starts_with("HTTP/1.1 421 "));
}

/// The largest amount of memory this process ever had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_flow_both_ways_in_little_memory() {
    const PIECES: u64 = 2_048;
    let (ground, behind) = proxied().await;
    let client = ground.visitor().client();
    let before = peak_memory();
    let request = Request::get(format!("https://app.test/large?{PIECES}"));
    let answer =
        client.send_streaming(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let (mut body, mut seen) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        seen += frame.unwrap().data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(seen as u64, PIECES * PIECE as u64);
    let piece = Bytes::from(vec![b'y'; PIECE]);
    let pieces =
        stream::iter(0..PIECES).map(move |_| Ok::<_, std::io::Error>(Frame::data(piece.clone())));
    let request = Request::post("https://app.test/upload").body(StreamBody::new(pieces)).unwrap();
    let answer = client.send_streaming(request).await.unwrap();
    let told = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text(&told), (PIECES * PIECE as u64).to_string());
    assert_eq!(behind.taken.load(Relaxed), PIECES * PIECE as u64);
    let more = peak_memory() - before;
    println!(
        "2 x {} MB through the edge, {} KB more memory at the peak",
        (PIECES * PIECE as u64) >> 20,
        more >> 10
    );
    assert!(more < 32 << 20, "{more} bytes more at the peak");
}

#[tokio::test]
async fn a_visitor_who_does_not_read_holds_the_upstream_back() {
    let (ground, behind) = proxied().await;
    for protocols in [&b"http/1.1"[..], b"h2"] {
        behind.produced.store(0, Relaxed);
        let h2 = protocols == b"h2";
        let client = ground.visitor().client();
        let request = Request::get("https://app.test/large?100000");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let mut stream = ground.visitor().offering(&[protocols]).connect("app.test").await.unwrap();
        let held = if h2 {
            Some(client.send_streaming(request).await.unwrap())
        } else {
            stream
                .write_all(b"GET /large?100000 HTTP/1.1\r\nHost: app.test\r\n\r\n")
                .await
                .unwrap();
            stream.flush().await.unwrap();
            None
        };
        let produced = settled(&ground, || behind.produced.load(Relaxed)).await * PIECE as u64;
        assert!(produced > 0 && produced < 32 << 20, "{produced} bytes of 6.5 GB were produced");
        drop((held, stream));
    }
}

/// The value a count stops at: it stays the same while a hundred others are served one after the other.
async fn settled(ground: &Ground, count: impl Fn() -> u64) -> u64 {
    let (mut last, mut same) = (0, 0);
    while same < 100 {
        assert_eq!(ground.visitor().get("https://app.test/").await.status().as_u16(), 200);
        let now = count();
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
    }
    last
}

#[tokio::test]
async fn an_upstream_that_does_not_read_holds_the_visitor_back() {
    let (ground, _behind) = proxied().await;
    let mut stream = ground.visitor().offering(&[b"http/1.1"]).connect("app.test").await.unwrap();
    let head =
        b"POST /ignore-upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 9999999999\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let sent = std::sync::atomic::AtomicU64::new(0);
    let piece = vec![b'z'; PIECE];
    let send = async {
        loop {
            let written = stream.write(&piece).await.unwrap();
            sent.fetch_add(written as u64, Relaxed);
        }
    };
    tokio::select! {
        () = send => {}
        sent = settled(&ground, || sent.load(Relaxed)) => assert!(sent < 32 << 20, "{sent} bytes were taken"),
    }
}

#[tokio::test]
async fn a_websocket_passes_through() {
    let (ground, _behind) = proxied().await;
    let mut stream = ground.visitor().offering(&[b"http/1.1"]).connect("app.test").await.unwrap();
    let request = "GET /ws HTTP/1.1\r\nHost: app.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: websocket\r\n"), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
    for word in ["hello", "again"] {
        let mask = [1, 2, 3, 4];
        let masked: Vec<_> =
            word.bytes().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        stream.write_all(&[0x81, 0x80 | 5, 1, 2, 3, 4]).await.unwrap();
        stream.write_all(&masked).await.unwrap();
        stream.flush().await.unwrap();
        let mut echo = [0; 7];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!((echo[0], echo[1]), (0x81, 5));
        assert_eq!(String::from_utf8_lossy(&echo[2..]), word.to_uppercase());
    }
    // The edge stops: the tunnel ends, and with it everything.
    ground.stop.cancel();
    let rest = tokio::time::timeout(LIMIT, stream.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(rest, Ok(0) | Err(_)), "{rest:?}");
    tokio::time::timeout(LIMIT, ground.edge.ended()).await.unwrap();
}

#[tokio::test]
async fn a_tunnel_that_is_silent_too_long_ends() {
    let (_behind, address) = Behind::start().await;
    let ground = limited(address, |limits| limits.tunnel = Duration::from_millis(50)).await;
    let mut stream = ground.visitor().offering(&[b"http/1.1"]).connect("app.test").await.unwrap();
    let headers = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAA\r\n";
    let seen = ask(&mut stream, "app.test", "GET /ws HTTP/1.1", headers).await.unwrap();
    assert!(seen.starts_with("HTTP/1.1 101 "), "{seen}");
}

#[tokio::test]
async fn failures_of_the_upstream_are_told_apart() {
    // Nothing listens: the port was free a moment ago and is kept so.
    let closed = holdfast_testkit::free_port().unwrap();
    let down = ground(([127, 0, 0, 1], closed).into()).await;
    let answer = down.visitor().get("https://app.test/").await;
    assert_eq!(answer.status().as_u16(), 502);
    assert!(text(answer.body()).contains("could not be reached"), "{:?}", answer.body());

    let (_behind, address) = Behind::start().await;
    let slow = limited(address, |limits| limits.upstream = Duration::from_millis(100)).await;
    let answer = slow.visitor().get("https://app.test/never").await;
    assert_eq!(answer.status().as_u16(), 504);
    assert!(text(answer.body()).contains("in time"), "{:?}", answer.body());
    let ground = ground(address).await;
    assert_eq!(ground.visitor().get("https://app.test/switch").await.status().as_u16(), 502);
    assert_eq!(ground.visitor().get("https://app.test/fine").await.status().as_u16(), 200);
}

#[tokio::test]
async fn an_answer_that_breaks_off_or_stands_still_breaks_off_for_the_visitor_too() {
    let (_behind, address) = Behind::start().await;
    let ground = limited(address, |limits| limits.stall = Duration::from_secs(1)).await;
    for path in ["/break", "/stall"] {
        let request = Request::get(format!("https://app.test{path}")).body(Bytes::new()).unwrap();
        let broken = ground.visitor().client().send(request).await;
        assert!(
            matches!(broken, Err(holdfast_gateway::client::Error::Body { .. })),
            "{path}: {broken:?}"
        );
    }
}

#[tokio::test]
async fn a_slow_upload_may_take_longer_than_the_answer_may() {
    let (behind, address) = Behind::start().await;
    let limit = Duration::from_secs(2);
    let ground = limited(address, |limits| limits.upstream = limit).await;
    let (begun, taken) = (Instant::now(), behind.clone());
    // Piece by piece, each once the one before was taken, until it took longer than an answer may.
    let (sender, pieces) = tokio::sync::mpsc::channel(1);
    let uploading = async move {
        let mut sent = 0;
        while begun.elapsed() < limit * 2 {
            sender.send(Bytes::from_static(b"piece")).await.unwrap();
            sent += 5;
            eventually(LIMIT, "the piece to be taken", async || {
                let taken = taken.taken.load(Relaxed);
                if taken == sent { Ok(()) } else { Err(taken) }
            })
            .await;
        }
    };
    let pieces = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        Some((Ok::<_, std::io::Error>(Frame::data(piece)), pieces))
    });
    let body = StreamBody::new(Box::pin(pieces));
    let request = Request::post("https://app.test/upload").body(body).unwrap();
    let client = ground.visitor().client();
    let ((), answer) = tokio::join!(uploading, client.send_streaming(request));
    let answer = answer.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let told = text(&answer.into_body().collect().await.unwrap().to_bytes());
    assert_eq!(told, behind.taken.load(Relaxed).to_string());
    assert!(begun.elapsed() > limit);
}

#[tokio::test]
async fn what_is_no_upstream_is_refused_at_the_start() {
    let config = |upstream: &str| {
        let free = ([127, 0, 0, 1], 0).into();
        let mut config = holdfast_agent::EdgeConfig::new("edge", "default", None, free);
        config.upstream = Some(upstream.parse().unwrap());
        config.limits.drain = AGES;
        config
    };
    for upstream in ["https://127.0.0.1:1", "http://127.0.0.1:1/app", "127.0.0.1:1"] {
        let source = Arc::new(crate::kit::Memory::default());
        let stop = tokio_util::sync::CancellationToken::new();
        let refused = holdfast_agent::BuiltinEdge::start_with(config(upstream), source, stop).await;
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("give it as http://HOST:PORT"), "{refused}");
    }
}

#[tokio::test]
async fn our_challenges_come_first_and_the_upstreams_own_are_left_to_it() {
    let (ground, _behind) = proxied().await;
    ground.memory.challenge("ours", "ours.thumbprint");
    let get = async |token: &str| {
        let url = format!("https://app.test/.well-known/acme-challenge/{token}");
        text(ground.visitor().get(&url).await.body())
    };
    assert_eq!(get("ours").await, "ours.thumbprint");
    assert!(get("theirs").await.starts_with("GET /.well-known/acme-challenge/theirs HTTP/1.1\n"));
}
