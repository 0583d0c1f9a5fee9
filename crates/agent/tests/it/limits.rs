//! Visitors who are slow, silent, too many or too large keep nobody else out, and a stop is orderly.

use std::time::Duration;

use holdfast_testkit::eventually;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kit::{AGES, Behind, Ground, LIMIT, Raw};

const SHORT: Duration = Duration::from_millis(100);

async fn is_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "still open after {LIMIT:?}");
}

/// On a busy machine a visitor can be too slow for such short limits: then the next one.
async fn is_let_in(ground: &Ground) {
    eventually(LIMIT, "a visitor to be served", async || {
        match ground.visitor().visit("shop.test").await {
            Ok(visit) if visit.answer.starts_with("HTTP/1.1 200") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn silent_handshakes_end_at_their_limit() {
    let ground = Ground::with(|config| config.limits.handshake = SHORT).await;
    let mut silent = TcpStream::connect(ground.edge.https()).await.unwrap();
    is_closed(&mut silent).await;
    let mut slow = TcpStream::connect(ground.edge.https()).await.unwrap();
    slow.write_all(&[22, 3, 1, 1, 0]).await.unwrap();
    is_closed(&mut slow).await;
    assert_eq!(ground.edge.tallied().failed, 2);
}

#[tokio::test]
async fn beyond_the_bound_the_oldest_handshake_gives_way() {
    let ground = Ground::with(|config| {
        config.limits.handshake = AGES;
        config.limits.handshakes = 4;
    })
    .await;
    ground.deploy("shop.test");
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(ground.edge.https()).await.unwrap());
    }
    ground.visitor().visit("shop.test").await.unwrap();
    is_closed(&mut silent[0]).await;
}

#[tokio::test]
async fn what_is_no_tls_is_refused_without_ado() {
    let ground = Ground::new().await;
    ground.deploy("shop.test");
    for noise in
        [&b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"[..], &[0; 600], &[22, 3, 1, 255, 255]]
    {
        let mut stream = TcpStream::connect(ground.edge.https()).await.unwrap();
        stream.write_all(noise).await.ok();
        stream.shutdown().await.ok();
        is_closed(&mut stream).await;
    }
    ground.visitor().visit("shop.test").await.unwrap();
}

#[tokio::test]
async fn slow_heads_end_at_their_limit() {
    let ground = Ground::with(|config| config.limits.head = SHORT).await;
    ground.deploy("shop.test");
    let mut plain = TcpStream::connect(ground.edge.http().unwrap()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: shop").await.unwrap();
    is_closed(&mut plain).await;
    let visitor = ground.visitor().offering(&[b"http/1.1"]);
    let mut secure = visitor.connect("shop.test").await.unwrap();
    secure.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    is_closed(&mut secure).await;
}

#[tokio::test]
async fn connections_that_rest_too_long_are_closed() {
    let ground = Ground::with(|config| {
        config.limits.idle = SHORT;
        config.limits.head = AGES;
    })
    .await;
    ground.deploy("shop.test");
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let visitor = ground.visitor().offering(&[protocol]);
        let mut stream = visitor.connect("shop.test").await.unwrap();
        if protocol == b"h2" {
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.ok();
        } else {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n").await.ok();
        }
        is_closed(&mut stream).await;
    }
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let ground = Ground::with(|config| config.limits.head_bytes = 16 * 1024).await;
    let mut plain = TcpStream::connect(ground.edge.http().unwrap()).await.unwrap();
    let large = format!("GET /{} HTTP/1.1\r\nHost: shop.test\r\n\r\n", "a".repeat(20_000));
    plain.write_all(large.as_bytes()).await.ok();
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, plain.read_to_string(&mut answer)).await.unwrap().ok();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let mut plain = TcpStream::connect(ground.edge.http().unwrap()).await.unwrap();
    let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: shop.test\r\n{many}\r\n");
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.ok();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn when_it_is_full_those_who_rest_make_room() {
    let ground = Ground::with(|config| {
        config.limits.connections = 10;
        config.limits.idle = AGES;
        config.limits.head = AGES;
    })
    .await;
    ground.deploy("shop.test");
    let visitor = ground.visitor().offering(&[b"http/1.1"]);
    let mut resting = Vec::new();
    for _ in 0..10 {
        let mut stream = visitor.connect("shop.test").await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n").await.unwrap();
        stream.read_u8().await.unwrap();
        resting.push(stream);
    }
    // The eleventh waits outside until somebody has gone, and must not rest long itself.
    is_let_in(&ground).await;
}

#[tokio::test]
async fn a_visitor_who_takes_nothing_is_cut_off() {
    let (_behind, address) = Behind::start().await;
    let ground = Ground::with(|config| {
        config.upstream = Some(format!("http://{address}").parse().unwrap());
        config.limits.stall = SHORT;
        config.limits.idle = SHORT;
        config.limits.connections = 1;
    })
    .await;
    ground.deploy("shop.test");
    let mut greedy = ground.visitor().connect("shop.test").await.unwrap();
    greedy.write_all(b"GET /large?100000 HTTP/1.1\r\nHost: shop.test\r\n\r\n").await.unwrap();
    // There is one seat, and it becomes free.
    is_let_in(&ground).await;
    drop(greedy);
}

#[tokio::test]
async fn a_stop_lets_requests_finish_and_then_everything_ends() {
    let (_behind, address) = Behind::start().await;
    let ground = Ground::with(|config| {
        config.upstream = Some(format!("http://{address}").parse().unwrap());
    })
    .await;
    ground.deploy("shop.test");
    let idle = ground.visitor().client();
    let get = || http::Request::get("https://shop.test/").body(bytes::Bytes::new()).unwrap();
    idle.send(get()).await.unwrap();
    let mut uploading =
        ground.visitor().offering(&[b"http/1.1"]).connect("shop.test").await.unwrap();
    let head = b"POST /upload HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 10\r\n\r\n12345";
    uploading.write_all(head).await.unwrap();
    eventually(LIMIT, "the upload to begin", async || {
        match _behind.taken.load(std::sync::atomic::Ordering::Relaxed) {
            5 => Ok(()),
            taken => Err(taken),
        }
    })
    .await;
    ground.stop.cancel();
    eventually(LIMIT, "the listeners to close", async || {
        let https = TcpStream::connect(ground.edge.https()).await.is_err();
        let http = TcpStream::connect(ground.edge.http().unwrap()).await.is_err();
        if https && http { Ok(()) } else { Err("open") }
    })
    .await;
    uploading.write_all(b"67890").await.unwrap();
    let mut answer = String::new();
    uploading.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("10"), "{answer}");
    tokio::time::timeout(LIMIT, ground.edge.ended()).await.unwrap();
    assert!(idle.send(get()).await.is_err());
}

/// A head of as many header fields as are allowed passes, one more does not, whatever the version of HTTP.
#[tokio::test]
async fn header_fields_have_one_limit() {
    let ground = Ground::new().await;
    ground.deploy("shop.test");
    for protocol in [&b"http/1.1"[..], b"h2"] {
        for (fields, status) in [(256, 200), (257, 431)] {
            let seen = match protocol {
                b"h2" => over_http2(&ground, fields).await,
                _ => over_http1(&ground, fields).await,
            };
            let protocol = String::from_utf8_lossy(protocol);
            assert_eq!(seen, status, "{fields} header fields over {protocol}");
        }
    }
}

/// The status of an answer to a request with so many header fields, its host among them.
async fn over_http1(ground: &Ground, fields: usize) -> u16 {
    let mut stream = ground.visitor().offering(&[b"http/1.1"]).connect("shop.test").await.unwrap();
    let others: String = (2..fields).map(|n| format!("x-{n}: y\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n{others}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().ok();
    answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default()
}

/// The same; cookies may come one by one and are one header field.
async fn over_http2(ground: &Ground, fields: usize) -> u16 {
    let mut request = http::Request::get("https://shop.test/").header("user-agent", "visitor");
    for n in 0..30 {
        request = request.header("cookie", format!("c{n}=y"));
    }
    for n in 3..fields {
        request = request.header(format!("x-{n}"), "y");
    }
    let request = request.body(bytes::Bytes::new()).unwrap();
    ground.visitor().client().send(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_head_has_one_limit_in_bytes() {
    let ground = Ground::with(|config| config.limits.head_bytes = 16 * 1024).await;
    ground.deploy("shop.test");
    let value = |length: usize| "v".repeat(length);
    for (length, status) in [(15_000, 200), (17_000, 431)] {
        let request = http::Request::get("https://shop.test/").header("x-long", value(length));
        let request = request.body(bytes::Bytes::new()).unwrap();
        let answer = ground.visitor().client().send(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{length} bytes over HTTP/2");
        let mut stream =
            ground.visitor().offering(&[b"http/1.1"]).connect("shop.test").await.unwrap();
        let headers = format!("X-Long: {}\r\nConnection: close\r\n", value(length));
        let answer = crate::kit::ask(&mut stream, "shop.test", "GET / HTTP/1.1", &headers).await;
        let start = format!("HTTP/1.1 {status} ");
        assert!(answer.unwrap().starts_with(&start), "{length} bytes over HTTP/1.1");
    }
}

#[tokio::test]
async fn an_answer_may_have_as_many_header_fields_as_a_request() {
    for (fields, status) in [(256, 200), (257, 502)] {
        let others: String = (1..fields).map(|n| format!("x-{n}: y\r\n")).collect();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n{others}\r\nfine");
        let (_raw, address) = Raw::start(Box::leak(answer.into_boxed_str()), 1).await;
        let ground = Ground::with(|config| {
            config.upstream = Some(format!("http://{address}").parse().unwrap());
        })
        .await;
        ground.deploy("shop.test");
        let answer = ground.visitor().get("https://shop.test/").await;
        assert_eq!(answer.status().as_u16(), status, "{fields} header fields");
    }
}
