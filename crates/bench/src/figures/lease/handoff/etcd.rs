//! etcd's own election, over the JSON gateway of the same server.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::{Process, Scratch, free_port};
use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(30);

/// etcd brings a new watcher up to date within a tenth of a second: whoever lets go before that measures this instead.
const SETTLED: Duration = Duration::from_millis(150);

/// `sweep`, and the range of the keys below it, as its JSON wants them.
const ELECTION: &str = "c3dlZXA=";
const KEYS: (&str, &str) = ("c3dlZXAv", "c3dlZXAw");

/// A running etcd, and who leads in it.
pub(super) struct Etcd {
    _server: Process,
    _home: Scratch,
    wire: Wire,
    leader: Value,
}

#[derive(Clone)]
struct Wire {
    client: Client,
    base: String,
}

impl Etcd {
    pub(super) async fn start() -> Result<Self> {
        let (home, client, peer) = (Scratch::new()?, free_port()?, free_port()?);
        let base = format!("http://127.0.0.1:{client}");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(home.path().join("data")).args([
            "--listen-client-urls",
            &base,
            "--advertise-client-urls",
            &base,
            "--listen-peer-urls",
            &format!("http://127.0.0.1:{peer}"),
        ]);
        let server = Process::spawn("etcd", &command)?;
        let wire = Wire { client: Client::new(ClientConfig::default())?, base };
        let begun = Instant::now();
        let leader = loop {
            match wire.campaign().await {
                Ok(leader) => break leader,
                Err(error) => {
                    ensure!(begun.elapsed() < PATIENCE, "etcd: {error:#}\n{}", server.log());
                    sleep(Duration::from_millis(50)).await;
                }
            }
        };
        Ok(Self { _server: server, _home: home, wire, leader })
    }

    pub(super) async fn hand_over(&mut self) -> Result<Duration> {
        let wire = self.wire.clone();
        let next: JoinHandle<Result<Value>> = tokio::spawn(async move { wire.campaign().await });
        let begun = Instant::now();
        while self.wire.candidates().await? < 2 {
            ensure!(begun.elapsed() < PATIENCE, "etcd: nobody follows");
            sleep(Duration::from_millis(2)).await;
        }
        sleep(SETTLED).await;
        let begun = Instant::now();
        let resign = self.wire.post("election/resign", json!({ "leader": self.leader })).await;
        self.leader = next.await??;
        let took = begun.elapsed();
        resign?;
        Ok(took)
    }
}

impl Wire {
    /// Waits until elected, under a lease of its own: who leads, as etcd names it.
    async fn campaign(&self) -> Result<Value> {
        let lease = self.post("lease/grant", json!({ "TTL": 60 })).await?;
        let lease = lease.get("ID").context("a lease without an id")?.clone();
        let campaign = json!({ "name": ELECTION, "lease": lease, "value": "eA==" });
        let answer = self.post("election/campaign", campaign).await?;
        answer.get("leader").cloned().context("no leader")
    }

    async fn candidates(&self) -> Result<u64> {
        let (key, range_end) = KEYS;
        let range = json!({ "key": key, "range_end": range_end, "count_only": true });
        let answer = self.post("kv/range", range).await?;
        // A count of zero is left out.
        Ok(answer.get("count").and_then(Value::as_str).unwrap_or("0").parse()?)
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value> {
        let url = format!("{}/v3/{path}", self.base);
        let request = Request::post(url).body(Bytes::from(body.to_string()))?;
        let answer = self.client.send(request).await?;
        let said = String::from_utf8_lossy(answer.body()).into_owned();
        ensure!(answer.status().is_success(), "{path}: {} {said}", answer.status());
        Ok(serde_json::from_str(&said)?)
    }
}
