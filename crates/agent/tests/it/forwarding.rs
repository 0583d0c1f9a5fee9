//! What of a request reaches the upstream, what of its answer reaches the visitor, and what is refused in between.

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{Behind, FINE, Ground, LIMIT, Raw};

async fn ground(upstream: std::net::SocketAddr) -> Ground {
    let ground = Ground::with(|config| {
        config.upstream = Some(format!("http://{upstream}").parse().unwrap());
    })
    .await;
    ground.deploy("app.test");
    ground
}

/// Asks over HTTP/1.1 and reads until the connection ends.
async fn asks(ground: &Ground, line: &str, headers: &str) -> String {
    let mut stream = ground.visitor().connect("app.test").await.unwrap();
    let close = match headers.contains("Connection:") {
        true => "",
        false => "Connection: close\r\n",
    };
    let request = format!("{line}\r\nHost: app.test\r\n{headers}{close}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Where a switch was wished for and refused, the end comes without TLS's own.
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_without_a_body_says_so_where_one_is_expected() {
    let (_behind, address) = Behind::start().await;
    let ground = ground(address).await;
    for (method, says) in
        [("POST", true), ("PUT", true), ("PATCH", true), ("GET", false), ("DELETE", false)]
    {
        let request = Request::builder().method(method).uri("https://app.test/");
        let over_2 = ground.visitor().client().send(request.body(Bytes::new()).unwrap()).await;
        let over_2 = String::from_utf8_lossy(over_2.unwrap().body()).into_owned();
        let over_1 = asks(&ground, &format!("{method} / HTTP/1.1"), "").await;
        for told in [over_2, over_1] {
            assert!(told.contains(&format!("{method} / HTTP/1.1\n")), "{told}");
            let body = told.split_once(&format!("{method} / HTTP/1.1\n")).unwrap().1;
            assert_eq!(body.contains("content-length: 0\n"), says, "{method}: {told}");
            assert!(!body.contains("transfer-encoding"), "{told}");
        }
    }
}

#[tokio::test]
async fn forwarding_headers_do_not_pass_in_any_spelling() {
    let (_behind, address) = Behind::start().await;
    let ground = ground(address).await;
    let spelled = "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: 6.6.6.6\r\nX_FORWARDED_HOST: 6.6.6.6\r\nx_real_ip: 6.6.6.6\r\n\
        X-Forwarded-Ssl: 6.6.6.6\r\nX_Forwarded_Prefix: 6.6.6.6\r\nX-Forwarded: 6.6.6.6\r\nX-Client-IP: 6.6.6.6\r\n\
        Content_Length: 6666\r\nTransfer_Encoding: 6666\r\nApi_Key: mine\r\n";
    let told = asks(&ground, "GET / HTTP/1.1", spelled).await;
    assert!(!told.contains("6666") && !told.contains("6.6.6.6"), "{told}");
    assert!(told.contains("api_key: mine\n"), "{told}");
    assert!(told.contains("x-forwarded-for: 127.0.0.1\n"), "{told}");
}

#[tokio::test]
async fn nothing_but_a_websocket_is_switched_to() {
    let (_behind, address) = Behind::start().await;
    let ground = ground(address).await;
    for protocol in ["h2c", "TLS/1.0", "echo", "h2c, foo"] {
        let headers = format!(
            "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        );
        let told = asks(&ground, "GET / HTTP/1.1", &headers).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
        assert!(!told.contains("upgrade: ") && !told.contains("http2-settings: "), "{told}");
    }
    let wish = "Connection: upgrade, close\r\nUpgrade: websocket\r\n";
    // It switches to something else.
    let told = asks(&ground, "GET /switch HTTP/1.1", wish).await;
    assert!(told.starts_with("HTTP/1.1 502 "), "{told}");
    let told = asks(&ground, "POST / HTTP/1.1", wish).await;
    assert!(!told.contains("upgrade: "), "{told}");
}

#[tokio::test]
async fn the_user_agent_is_the_visitors_or_none() {
    let (_behind, address) = Behind::start().await;
    let ground = ground(address).await;
    for method in ["GET", "POST"] {
        let line = format!("{method} / HTTP/1.1");
        assert!(!asks(&ground, &line, "").await.contains("user-agent"));
        let told = asks(&ground, &line, "User-Agent: theirs/1\r\n").await;
        assert!(told.contains("user-agent: theirs/1\n"), "{told}");
    }
}

#[tokio::test]
async fn an_answer_of_two_lengths_has_that_of_its_chunks() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let (_raw, address) = Raw::start(answer, 1).await;
    let ground = ground(address).await;
    let over_1 = asks(&ground, "GET / HTTP/1.1", "").await;
    assert!(over_1.contains("hello") && !over_1.contains("content-length: 2\r\n"), "{over_1}");
    let over_2 = ground.visitor().get("https://app.test/").await;
    assert_eq!(over_2.body().as_ref(), b"hello");
    assert!(!over_2.headers().contains_key("content-length"), "{over_2:?}");
    assert_eq!(ground.edge.tallied().upstream_failures, 0);
}

#[tokio::test]
async fn an_answer_that_cannot_be_decoded_is_not_passed_on() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\nhello";
    let (_raw, address) = Raw::start(answer, 1).await;
    let ground = ground(address).await;
    let told = asks(&ground, "GET / HTTP/1.1", "").await;
    assert!(told.starts_with("HTTP/1.1 502 ") && !told.contains("hello"), "{told}");
}

#[tokio::test]
async fn trace_is_answered_here() {
    let (raw, address) = Raw::start(FINE, 1).await;
    let ground = ground(address).await;
    for path in ["/", "/.well-known/acme-challenge/x"] {
        let told = asks(&ground, &format!("TRACE {path} HTTP/1.1"), "Cookie: secret\r\n").await;
        assert!(told.starts_with("HTTP/1.1 405 "), "{told}");
        assert!(told.contains("allow: GET") && !told.contains("secret"), "{told}");
        let request = Request::builder().method("TRACE").uri(format!("https://app.test{path}"));
        let told = ground.visitor().client().send(request.body(Bytes::new()).unwrap()).await;
        assert_eq!(told.unwrap().status().as_u16(), 405);
    }
    assert_eq!(raw.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn grpc_is_refused_in_its_own_words() {
    let (raw, address) = Raw::start(FINE, 1).await;
    let ground = ground(address).await;
    let ask = async |kind: &str| {
        let request =
            Request::post("https://app.test/pkg.Service/Method").header("content-type", kind);
        let request = request.header("te", "trailers").body(Bytes::from_static(b"\0\0\0\0\0"));
        ground.visitor().client().send(request.unwrap()).await.unwrap()
    };
    for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC;x=y"] {
        let answer = ask(kind).await;
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(answer.status().as_u16(), 200, "{kind}: HTTP went well, gRPC did not");
        assert_eq!(
            (header("content-type"), header("grpc-status")),
            (Some("application/grpc"), Some("12"))
        );
        assert!(header("grpc-message").unwrap().contains("does not pass on gRPC"), "{answer:?}");
    }
    assert_eq!(raw.requests(), Vec::<String>::new());
    // That one is made for proxies of HTTP/1.1.
    assert_eq!(ask("application/grpc-web+proto").await.body().as_ref(), b"fine");
    assert_eq!(ground.edge.tallied().upstream_failures, 0);
}
