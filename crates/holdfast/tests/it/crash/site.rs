//! One place for one server: its directory, its database, its ports; and a client that may find nobody there.

use std::{cell::Cell, path::PathBuf, process::ExitStatus, time::Duration};

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::{Process, free_port};
use http::{Method, Request, StatusCode};
use serde_json::Value;

use crate::{
    kit::{Ended, SOON},
    replica::{Database, Network, Replica},
};

/// The request got no answer: the server is dead, or died meanwhile.
#[derive(Debug)]
pub(crate) struct Died;

pub(crate) struct Site {
    pub(crate) replica: Replica,
    database: Database,
    client: Client,
    short_lived: bool,
    process: Option<Process>,
    /// Renewals that were asked for again because no answer came in time: each may have been heard.
    repeated: Cell<u64>,
}

impl Site {
    /// A fresh one; the edge is built in, and claims are short so that a lapse costs a second.
    pub(crate) async fn prepare(network: &Network, database: Database, short_lived: bool) -> Self {
        let extra = format!(
            "[provisioning]\nclaim_seconds = 1\n[edge]\nmode = \"builtin\"\nhttp = \"127.0.0.1:{}\"\nhttps = \"127.0.0.1:{}\"",
            network.http, network.tls
        );
        let mut replica = Replica::prepare(network, database, &extra).await;
        let api = free_port().unwrap();
        let text = replica.read("holdfast.toml");
        let text = text.replacen(
            &format!("listen = \"127.0.0.1:{}\"", network.http),
            &format!("listen = \"127.0.0.1:{api}\""),
            1,
        );
        replica.scratch.write("holdfast.toml", text).unwrap();
        replica.port = api;
        let time_limit = Duration::from_secs(10);
        let client = Client::new(ClientConfig { time_limit, ..ClientConfig::default() }).unwrap();
        Self { replica, database, client, short_lived, process: None, repeated: Cell::new(0) }
    }

    /// Starts the server with this in its environment; `Died` if it does not live to be ready.
    pub(crate) async fn start(&mut self, variable: Option<(&str, String)>) -> Result<(), Died> {
        let mut command = self.replica.command();
        command.envs(variable).envs(self.profile());
        let process = Process::spawn("server", &command).unwrap();
        let ready = process.wait_for_line(SOON, |line| line.contains("ready")).await;
        self.process = Some(process);
        ready.map(drop).map_err(|_| Died)
    }

    /// Certificates that live for moments, where a story is about their end.
    fn profile(&self) -> Option<(&'static str, &'static str)> {
        self.short_lived.then_some(("HOLDFAST__ACME__PROFILE", "moments"))
    }

    /// How it ended, if it did.
    pub(crate) async fn ended(&self) -> Option<ExitStatus> {
        self.process.as_ref()?.wait(Duration::from_secs(5)).await.ok()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.status().is_some())
    }

    pub(crate) async fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = process.kill().await;
        }
    }

    pub(crate) fn recording(&self) -> PathBuf {
        self.replica.scratch.path().join("recording")
    }

    /// Asks until it is answered; gives the status and the body. `Died` when there is nobody left to ask.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Died> {
        let token = std::fs::read_to_string(self.replica.scratch.path().join("admin.token"))
            .map_err(|_| Died)?;
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tick.tick().await;
            let request = Request::builder()
                .method(&method)
                .uri(format!("{}{path}", self.replica.url()))
                .header("authorization", format!("Bearer {}", token.trim()))
                .header("content-type", "application/json")
                .body(body.clone())
                .unwrap();
            match self.client.send(request).await {
                Ok(reply) => {
                    let body = serde_json::from_slice(reply.body()).unwrap_or(Value::Null);
                    return Ok((reply.status(), body));
                }
                Err(_) if self.is_over() => return Err(Died),
                Err(error) => {
                    println!("{method} {path}: {error:?}");
                    let again = u64::from(path.ends_with("/renew"));
                    self.repeated.set(self.repeated.get() + again);
                }
            }
        }
    }

    /// How many renewals may have been heard beside those that were answered.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.get()
    }

    /// Counts rows, from outside.
    pub(crate) fn count(&self, table: &str) -> u64 {
        let query = format!("SELECT count(*) FROM {table}");
        let mut command = match self.database {
            Database::Sqlite => {
                let mut command = std::process::Command::new("sqlite3");
                command
                    .arg("-cmd")
                    .arg(".timeout 5000")
                    .arg(self.replica.scratch.path().join("holdfast.db"))
                    .arg(query);
                command
            }
            Database::Postgres => {
                let text = self.replica.read("holdfast.toml");
                let url = text.lines().find_map(|line| line.trim().strip_prefix("url = ")).unwrap();
                let mut command = std::process::Command::new("psql");
                command.args([
                    url.trim_matches('"'),
                    "--no-psqlrc",
                    "--tuples-only",
                    "--command",
                    &query,
                ]);
                command
            }
        };
        Ended::of(&mut command).done().stdout.trim().parse().unwrap()
    }
}
