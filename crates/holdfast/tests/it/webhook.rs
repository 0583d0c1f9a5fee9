//! Webhooks from the command line: made, tried, told of a domain, removed.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use holdfast_testkit::eventually;
use serde_json::Value;

use crate::kit::{Up, text};

/// A receiver that thanks for everything, and remembers the bodies.
fn receiver() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = Arc::new(Mutex::new(Vec::new()));
    let heard = got.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = String::new();
            let mut buffer = [0; 8_192];
            while !is_whole(&request) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.push_str(&String::from_utf8_lossy(&buffer[..read])),
                }
            }
            heard.lock().unwrap().push(request);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    (url, got)
}

/// Has all of the body come that the head says?
fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| body.len() >= length.parse().unwrap())
}

#[tokio::test]
async fn a_receiver_hears_of_a_domain_that_is_served() {
    let up = Up::start().await;
    let (url, got) = receiver();
    let made = up.json(["webhook", "create", &url, "--event", "domain.active"]);
    let id = text(&made, "/id").to_owned();
    assert!(text(&made, "/secret").starts_with("whsec_"));
    let list = up.run(["webhook", "list"]).done().stdout;
    assert!(list.contains(&url) && !list.contains("whsec_"), "{list}");
    up.run(["webhook", "test", &id]).done();
    up.run(["domain", "add", "shop.test", "--wait"]).done();
    eventually(Duration::from_secs(60), "two messages", async || {
        let got = got.lock().unwrap().clone();
        let all = got.join("\n");
        if all.contains("\"ping\"") && all.contains("domain.active") { Ok(()) } else { Err(all) }
    })
    .await;
    assert!(got.lock().unwrap().iter().all(|request| request.contains("webhook-signature: v1,")));
    let shown = eventually(Duration::from_secs(60), "both noted", async || {
        let shown = up.json(["webhook", "show", &id]);
        let items = shown.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default();
        let all = items.iter().all(|item| item["status"] == "delivered");
        if all && items.len() == 2 { Ok(shown) } else { Err(shown) }
    })
    .await;
    assert_eq!(text(&shown, "/items/0/subject"), "shop.test");
    up.run(["webhook", "remove", &id]).done();
    up.run(["webhook", "test", &id]).refused(1, &["webhook list"]);
    up.run(["webhook", "create", "ftp://x.example.com"]).refused(1, &["http"]);
}
