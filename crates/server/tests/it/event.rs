//! The event stream: in order, resumed without a gap, whatever commits meanwhile.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use http::{Method, Request, StatusCode, header};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::kit::{Kit, actor, asked};

const SOON: Duration = Duration::from_secs(20);

/// A client that reads events until it goes away.
struct Client {
    body: BodyDataStream,
    text: String,
    last_id: Option<String>,
}

/// One event as it was read.
#[derive(Debug)]
struct Read {
    name: String,
    data: Value,
}

impl Client {
    async fn open(kit: &Kit, query: &str, last_id: Option<&str>) -> Self {
        let mut request = asked(Method::GET, &format!("/v1/events{query}"), &kit.read);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let request: Request<Body> = request.body(Body::empty()).unwrap();
        let response = kit.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let body = response.into_body().into_data_stream();
        Self { body, text: String::new(), last_id: last_id.map(ToOwned::to_owned) }
    }

    /// The next block of lines; none at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let more = timeout(SOON, self.body.next()).await.expect("something within the time");
            self.text.push_str(std::str::from_utf8(&more?.unwrap()).unwrap());
        }
    }

    /// The next event; places are remembered, comments skipped.
    async fn next(&mut self) -> Option<Read> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| {
                let lines = block.lines().filter_map(|line| line.strip_prefix(name));
                lines.map(str::trim).next().map(ToOwned::to_owned)
            };
            if let Some(id) = field("id:") {
                self.last_id = Some(id);
            }
            if let Some(data) = field("data:") {
                let data = serde_json::from_str(&data).unwrap();
                return Some(Read { name: field("event:").unwrap(), data });
            }
        }
    }
}

#[tokio::test]
async fn what_happens_is_streamed_with_its_place() {
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    let domain = kit.add("shop.example.com").await;
    let event = client.next().await.unwrap();
    assert_eq!(event.name, "transition");
    let expected = json!({
        "domain_id": domain["id"], "name": "shop.example.com", "from": null, "to": "Initial",
        "at": event.data["at"], "duration_ms": 0, "attempt": event.data["attempt"], "error": null,
        "instance": "replica", "actor": "admin-token",
    });
    assert_eq!(event.data, expected);
    let made = json!({"name": "ci", "scope": "read"});
    kit.json(Method::POST, "/v1/tokens", &made).await.expect(201);
    let event = client.next().await.unwrap();
    assert_eq!((event.name.as_str(), &event.data["kind"]), ("notice", &json!("token-created")));
}

#[tokio::test]
async fn a_stream_without_a_place_begins_with_what_is_new() {
    let kit = Kit::new().await;
    kit.add("old.example.com").await;
    let mut client = Client::open(&kit, "", None).await;
    kit.add("new.example.com").await;
    assert_eq!(client.next().await.unwrap().data["name"], "new.example.com");
    let mut all = Client::open(&kit, "?after=0-0", None).await;
    assert_eq!(all.next().await.unwrap().data["name"], "old.example.com");
}

#[tokio::test]
async fn who_breaks_off_before_the_first_event_misses_none() {
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    let first = client.block().await.unwrap();
    let place = first.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim().to_owned();
    drop(client);
    kit.add("shop.example.com").await;
    let mut client = Client::open(&kit, "", Some(&place)).await;
    assert_eq!(client.next().await.unwrap().data["name"], "shop.example.com");
}

#[tokio::test]
async fn only_one_domain_when_only_one_is_asked_for() {
    let kit = Kit::new().await;
    let mut place = Client::open(&kit, "", None).await;
    place.block().await;
    let one = kit.add("one.example.com").await;
    let mut client =
        Client::open(&kit, &format!("?after=0-0&domain={}", one["id"].as_str().unwrap()), None)
            .await;
    kit.add("other.example.com").await;
    kit.json(Method::POST, "/v1/domains/one.example.com/retry", &json!({})).await;
    assert_eq!(client.next().await.unwrap().data["name"], "one.example.com");
    let before = client.last_id.clone();
    let moved = client.block().await.unwrap();
    assert!(moved.starts_with("id:") && !moved.contains("data:"), "{moved}");
    assert_ne!(before, Some(moved["id:".len()..].trim().to_owned()));
}

/// Many commit at once while a client reads a few events, breaks off and comes back, over and over.
async fn resume_under_concurrent_commits(kit: Kit) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let kit = std::sync::Arc::new(kit);
    let start = kit.store.latest_event().await.unwrap().to_string();
    let writers = (0..WRITERS).map(|writer| {
        let kit = kit.clone();
        tokio::spawn(async move {
            for n in 0..EACH {
                kit.add(&format!("w{writer}-{n}.example.com")).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut seen, mut place) = (Vec::new(), start);
    while seen.len() < WRITERS * EACH {
        let mut client = Client::open(&kit, "", Some(&place)).await;
        for _ in 0..7.min(WRITERS * EACH - seen.len()) {
            let event = client.next().await.unwrap();
            seen.push(event.data["name"].as_str().unwrap().to_owned());
        }
        place = client.last_id.clone().unwrap();
    }
    futures_util::future::try_join_all(writers).await.unwrap();
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!((once.len(), seen.len()), (WRITERS * EACH, WRITERS * EACH));
    for writer in 0..WRITERS {
        let prefix = format!("w{writer}-");
        let own: Vec<_> = seen.iter().filter(|name| name.starts_with(&prefix)).collect();
        let expected: Vec<_> = (0..EACH).map(|n| format!("{prefix}{n}.example.com")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>(), "a writer's own order is kept");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resuming_leaves_no_gap_and_no_double() {
    resume_under_concurrent_commits(Kit::new().await).await;
}

/// There numbers are given out before the commit, so a bare cursor over them would lose events.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resuming_leaves_no_gap_and_no_double_on_postgres() {
    resume_under_concurrent_commits(Kit::on_postgres().await).await;
}

/// How often the log was read for streams, by whom.
fn reads(handle: &PrometheusHandle, reader: &str) -> u64 {
    let name = format!("holdfast_event_reads_total{{reader=\"{reader}\"}} ");
    let text = handle.render();
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn many_streams_read_the_log_once() {
    const STREAMS: usize = 512;
    const ADDED: usize = 10;
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let kit = Kit::new().await;
    let mut clients = Vec::new();
    for _ in 0..STREAMS {
        clients.push(Client::open(&kit, "", None).await);
    }
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            tokio::spawn(async move {
                for n in 0..ADDED {
                    let name = client.next().await.unwrap().data["name"].clone();
                    assert_eq!(name, format!("d{n}.example.com"));
                }
            })
        })
        .collect();
    for n in 0..ADDED {
        kit.add(&format!("d{n}.example.com")).await;
    }
    futures_util::future::try_join_all(readers).await.unwrap();
    // A page for each event, a look that finds nothing for each page, and a few that poll.
    let by_tail = reads(&handle, "tail");
    assert!(by_tail > 0 && by_tail < 100, "{by_tail} reads for {ADDED} events");
    assert_eq!(reads(&handle, "stream"), 0);
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_nothing_until_it_reads_again() {
    const MISSED: usize = 2_500;
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let kit = Kit::new().await;
    let mut idle = Client::open(&kit, "", None).await;
    idle.block().await;
    let mut reading = Client::open(&kit, "", None).await;
    for n in 0..MISSED {
        kit.store.notice(&actor(), "test", &n.to_string(), "").await.unwrap();
        assert_eq!(reading.next().await.unwrap().data["subject"], n.to_string());
    }
    assert_eq!(reads(&handle, "stream"), 0, "it was read for nobody");
    for n in 0..MISSED {
        assert_eq!(idle.next().await.unwrap().data["subject"], n.to_string());
    }
    assert!((1..=MISSED as u64 / 100).contains(&reads(&handle, "stream")));
}

#[tokio::test]
async fn the_reader_ends_with_the_last_stream() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    kit.add("one.example.com").await;
    client.next().await.unwrap();
    drop(client);
    // What it has begun counts no more from here on: a reader polls several times in a minute.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = reads(&handle, "tail");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(reads(&handle, "tail"), before);
    tokio::time::resume();
    let mut client = Client::open(&kit, "", None).await;
    kit.add("two.example.com").await;
    assert_eq!(client.next().await.unwrap().data["name"], "two.example.com");
}

#[tokio::test]
async fn a_shutdown_ends_streams_and_opens_none() {
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    client.block().await;
    kit.shutdown.cancel();
    assert!(client.next().await.is_none());
    kit.get("/v1/events").await.problem(503, "draining");
}

#[tokio::test]
async fn a_quiet_stream_shows_that_it_lives() {
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    client.block().await;
    tokio::time::pause();
    assert_eq!(client.block().await.unwrap(), ": heartbeat");
}

#[tokio::test]
async fn a_revoked_token_ends_its_stream() {
    let kit = Kit::new().await;
    let mut client = Client::open(&kit, "", None).await;
    client.block().await;
    let tokens = kit.store.tokens().await.unwrap();
    let read = tokens.iter().find(|token| token.name == "read-token").unwrap();
    kit.store.revoke_token(read.id).await.unwrap();
    tokio::time::pause();
    while let Some(block) = client.block().await {
        assert_eq!(block, ": heartbeat");
    }
}

#[tokio::test]
async fn a_place_that_never_was_is_refused() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    kit.get("/v1/events?after=9-999999").await.problem(422, "invalid-cursor");
}
