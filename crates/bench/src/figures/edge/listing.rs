//! Everything a new edge should serve, in one answer: how long it takes, and what the replica holds in memory meanwhile. In pages it
//! must be the same set.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use holdfast_gateway::client::Client;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::Ground;
use super::super::scale::Stored;
use super::super::site::Backend;
use crate::network::Network;
use crate::process;
use crate::replica::{EdgeMode, Replica, TOKEN};
use crate::sample::Sample;
use crate::table::Table;

/// How many domains are deployed.
const ENTRIES: u32 = 100_000;

/// How many edges come at once, as after an outage.
const AT_ONCE: usize = 8;

/// How long a reader that stops in the middle is watched.
const PAUSE: Duration = Duration::from_secs(2);

/// By name, the fingerprint and the revision.
type Listed = BTreeMap<String, (String, String)>;

#[derive(Default)]
struct Figures {
    first_ms: Sample,
    one_s: Sample,
    many_s: Sample,
    pages_s: Sample,
    one_mb: Sample,
    many_mb: Sample,
    paused_mb: Sample,
}

/// A stream of lines from a replica.
struct Stream {
    body: axum::body::Body,
    read: BytesMut,
}

impl Stream {
    async fn open(client: &Client, base: &str) -> Result<Self> {
        let request = Request::get(format!("{base}/v1/edges/bench/desired"))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(header::ACCEPT, "application/x-ndjson")
            .body(http_body_util::Full::new(Bytes::new()))?;
        let answer = client.send_streaming(request).await?;
        ensure!(answer.status().is_success(), "the listing was refused: {}", answer.status());
        Ok(Self { body: axum::body::Body::new(answer.into_body()), read: BytesMut::new() })
    }

    async fn line(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(at) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(at);
                self.read.advance(1);
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }

    /// Reads to the end, which must say how many there were; also when the first came.
    async fn all(mut self, begun: Instant) -> Result<(Listed, Duration)> {
        let (mut listed, mut first) = (Listed::new(), Duration::ZERO);
        while let Some(line) = self.line().await? {
            if listed.is_empty() {
                first = begun.elapsed();
            }
            if line.get("end") == Some(&json!(true)) {
                ensure!(line.get("count") == Some(&json!(listed.len())), "{line}");
                return Ok((listed, first));
            }
            take(&mut listed, &line)?;
        }
        anyhow::bail!("the listing broke off after {}", listed.len())
    }
}

fn take(listed: &mut Listed, item: &Value) -> Result<()> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).context("a short entry");
    let name = text("name")?.to_owned();
    let before = listed.insert(name, (text("sha256")?.to_owned(), text("revision")?.to_owned()));
    ensure!(before.is_none(), "listed twice: {item}");
    Ok(())
}

/// The most that a replica has resident while something is done, above what it has now.
async fn growth<T>(replica: &Replica, done: impl Future<Output = Result<T>>) -> Result<(T, f64)> {
    process::forget_peak(replica.pid())?;
    let before = process::resident(replica.pid())?;
    let done = done.await?;
    let peak = process::peak_resident(replica.pid())?;
    Ok((done, peak.saturating_sub(before) as f64 / 1e6))
}

async fn paged(replica: &Replica) -> Result<Listed> {
    let (mut listed, mut cursor) = (Listed::new(), String::new());
    loop {
        let path = format!("/v1/edges/bench/desired?limit=1000{cursor}");
        let page = replica.api().web().get(&path).await?;
        for item in page.get("items").and_then(Value::as_array).context("no items")? {
            take(&mut listed, item)?;
        }
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(listed),
        }
    }
}

impl Figures {
    async fn run(&mut self, replica: &Replica) -> Result<()> {
        let web = replica.api().web();
        let open = || async { Stream::open(&web.client(), web.base()).await };
        let begun = Instant::now();
        let one = async {
            let stream = open().await?;
            stream.all(begun).await
        };
        let ((_, first), grown) = growth(replica, one).await?;
        self.first_ms.push(first.as_secs_f64() * 1_000.0);
        self.one_s.push(begun.elapsed().as_secs_f64());
        self.one_mb.push(grown);

        let begun = Instant::now();
        let many = async {
            let mut all = Vec::new();
            for _ in 0..AT_ONCE {
                let stream = open().await?;
                all.push(tokio::spawn(stream.all(begun)));
            }
            let mut listed = Vec::new();
            for one in all {
                listed.push(one.await??.0);
            }
            Ok(listed)
        };
        let (many, grown) = growth(replica, many).await?;
        self.many_s.push(begun.elapsed().as_secs_f64());
        self.many_mb.push(grown);

        let begun = Instant::now();
        let paged = paged(replica).await?;
        self.pages_s.push(begun.elapsed().as_secs_f64());
        ensure!(paged.len() >= usize::try_from(ENTRIES)?, "only {} are listed", paged.len());
        ensure!(many.iter().all(|one| *one == paged), "pages and stream are not the same set");

        let paused = async {
            let mut stream = open().await?;
            stream.line().await?.context("no entry")?;
            sleep(PAUSE).await;
            Ok(())
        };
        let ((), grown) = growth(replica, paused).await?;
        self.paused_mb.push(grown);
        Ok(())
    }

    fn row(&self, backend: Backend) -> Vec<String> {
        vec![
            backend.title().to_owned(),
            self.first_ms.shown(0),
            self.one_s.shown(2),
            self.many_s.shown(2),
            self.pages_s.shown(2),
            self.one_mb.shown(1),
            self.many_mb.shown(1),
            self.paused_mb.shown(1),
        ]
    }
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    let mut table = Table::new(&[
        "all entries",
        "first, ms",
        "one edge, s",
        "8 edges at once, s",
        "in pages, s",
        "replica grows by, one edge, MB",
        "8 edges, MB",
        "a reader that stops, MB",
    ]);
    for backend in Backend::BOTH {
        let stored = Stored::seed(ground, &network, backend, ENTRIES).await?;
        let replica = stored.start(ground, &network, EdgeMode::None).await?;
        replica.api().web().ask(Method::PUT, "/v1/edges/bench", Some(&json!({}))).await?;
        // Once unmeasured: what is kept for later is there from then on.
        paged(&replica).await?;
        let mut figures = Figures::default();
        for number in 0..ground.runs {
            figures.run(&replica).await?;
            let said = figures.row(backend).join(", ");
            ground.say(format!("listing, run {}: {said}", number + 1));
        }
        table.row(figures.row(backend));
        replica.stop().await?;
    }
    Ok(format!(
        "A new edge lists all of {ENTRIES} deployed names in one streamed answer, compared entry by entry with what pages of 1,000 \
         give. What the replica grows by is the most it had resident meanwhile, less what it had before; a whole answer is about \
         {:.0} MB.\n\n{}",
        f64::from(ENTRIES) * 250.0 / 1e6,
        table.markdown()
    ))
}
