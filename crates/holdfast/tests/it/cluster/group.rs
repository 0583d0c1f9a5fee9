//! Replicas that share a database, each a process of its own, asked one by one.

use std::{path::PathBuf, process::Command, time::Duration};

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::{Postgres, Process, Scratch, eventually, free_port};
use http::{Method, Request, StatusCode};
use serde_json::Value;

use super::LEASES;
use crate::kit::{Ended, SOON, is_ready, program, word};

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";
pub(crate) const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Short leases and heartbeats: what takes half a minute in production takes seconds here.
const BRISK: &str = "
    [replicas]
    heartbeat_seconds = 1
    stale_seconds = 3
    prune_seconds = 5";

/// One replica.
pub(crate) struct One {
    pub(crate) name: String,
    pub(crate) port: u16,
    /// Its own way to the database, if it has one.
    pub(crate) database: Option<String>,
    process: Option<Process>,
}

/// Replicas on one database.
pub(crate) struct Group {
    pub(crate) members: Vec<One>,
    pub(crate) url: String,
    /// What those that are begun from now on do with writes, if not what they would.
    pub(crate) writes: Option<&'static str>,
    scratch: Scratch,
    client: Client,
}

impl Group {
    /// Starts `count` replicas whose leases last so many seconds, and waits until all are ready.
    pub(crate) async fn start(count: usize, lease: u32, extra: &str) -> Self {
        let url = Postgres::shared().await.unwrap().database().await.unwrap();
        Self::start_on(url, count, lease, extra).await
    }

    /// The same on a database of the test's own.
    pub(crate) async fn start_on(url: String, count: usize, lease: u32, extra: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let renewal = lease / 3;
        let text = format!(
            r#"
            [server]
            drain_seconds = 1
            [database]
            url = "{url}"
            [acme]
            directory = "https://127.0.0.1:1/directory"
            agree_terms = true
            [dns]
            targets = ["edge.holdfast.test"]
            resolvers = ["127.0.0.1:1"]
            [renewal]
            sweep_seconds = 1
            [security]
            master_key = "{MASTER_KEY}"
            admin_token = "{TOKEN}"
            {BRISK}
            [coordination]
            lease_duration_seconds = {lease}
            renewal_interval_seconds = {renewal}
            {extra}
            "#
        );
        scratch.write("holdfast.toml", text).unwrap();
        let one = |at| One {
            name: format!("r{at}"),
            port: free_port().unwrap(),
            database: None,
            process: None,
        };
        let client = Client::new(ClientConfig::default()).unwrap();
        let members = (0..count).map(one).collect();
        let mut group = Self { members, url, writes: None, scratch, client };
        for at in 0..count {
            group.begin(at).await;
            if at == 0 {
                // The oldest one has everything before another comes.
                for lease in LEASES {
                    group.holder(0, lease, 0).await;
                }
            }
        }
        group
    }

    /// The configuration they share.
    pub(crate) fn config(&self) -> PathBuf {
        self.scratch.path().join("holdfast.toml")
    }

    /// Asks one of them for much at the same time, so that it opens as many sessions as it may.
    pub(crate) async fn crowd(&self, at: usize) {
        let list = async || {
            for _ in 0..5 {
                self.ask(at, Method::GET, "/v1/domains?limit=1000", None).await.ok();
            }
        };
        let four = async || tokio::join!(list(), list(), list(), list());
        tokio::join!(four(), four(), four(), four(), four());
    }

    pub(crate) fn command(&self, at: usize) -> Command {
        let mut command = program();
        command.args(["server", "--config", &word(&self.config())]);
        command.env("POD_NAME", &self.members[at].name);
        let listen = format!("127.0.0.1:{}", self.members[at].port);
        command.env("HOLDFAST__SERVER__LISTEN", listen);
        if let Some(writes) = self.writes {
            command.env("HOLDFAST__SERVER__WRITES", writes);
        }
        if let Some(database) = &self.members[at].database {
            command.env("HOLDFAST__DATABASE__URL", database);
        }
        command
    }

    pub(crate) async fn begin(&mut self, at: usize) {
        let process = Process::spawn(&self.members[at].name, &self.command(at)).unwrap();
        process.wait_for_line(SOON, is_ready).await.unwrap();
        self.members[at].process = Some(process);
    }

    pub(crate) async fn kill(&mut self, at: usize) {
        self.process(at).kill().await.unwrap();
        self.members[at].process = None;
    }

    /// Asks it to end, and sees that it ended in order.
    pub(crate) async fn end(&mut self, at: usize) {
        let status = self.process(at).terminate(SOON).await.unwrap();
        assert!(status.success(), "{status:?}");
        self.members[at].process = None;
    }

    pub(crate) fn process(&self, at: usize) -> &Process {
        self.members[at].process.as_ref().unwrap()
    }

    pub(crate) fn at(&self, name: &str) -> usize {
        self.members.iter().position(|one| one.name == name).unwrap()
    }

    /// Asks one of them, once.
    pub(crate) async fn ask(
        &self,
        at: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), String> {
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}{path}", self.members[at].port))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let reply = self.client.send(request).await.map_err(|error| format!("{error:?}"))?;
        Ok((reply.status(), serde_json::from_slice(reply.body()).unwrap_or(Value::Null)))
    }

    /// The items of a list, as this one shows it.
    pub(crate) async fn items(&self, at: usize, path: &str) -> Result<Vec<Value>, String> {
        let (status, reply) = self.ask(at, Method::GET, path, None).await?;
        match reply["items"].as_array() {
            Some(items) if status.is_success() => Ok(items.clone()),
            _ => Err(format!("{status} {reply}")),
        }
    }

    /// Who holds a lease in a term above this one, by name, as seen by one of them.
    pub(crate) async fn holder(&self, seen_by: usize, lease: &str, above: u64) -> (usize, u64) {
        let what = format!("a holder of {lease} above term {above}");
        eventually(2 * SOON, &what, async || {
            let leases = self.items(seen_by, "/v1/leases").await?;
            let found = leases.iter().find(|one| one["name"] == lease && one["held"] == true);
            let found = found.ok_or_else(|| format!("{leases:?}"))?;
            let term = found["term"].as_u64().unwrap();
            match found["holder"].as_str() {
                Some(holder) if term > above => Ok((self.at(holder), term)),
                _ => Err(format!("{found}")),
            }
        })
        .await
    }

    /// Waits until the leadership is known to this one as held by somebody: who.
    pub(crate) async fn leader(&self, seen_by: usize) -> String {
        eventually(2 * SOON, "a leader", async || {
            let replicas = self.items(seen_by, "/v1/replicas").await?;
            let leader = replicas.iter().find(|one| one["leader"] == true);
            leader
                .map(|one| one["instance_id"].as_str().unwrap().to_owned())
                .ok_or_else(|| format!("{replicas:?}"))
        })
        .await
    }

    /// Says something to the database.
    pub(crate) fn sql(&self, statement: &str) -> String {
        sql(&self.url, statement)
    }

    /// Runs a client command against one of them.
    pub(crate) fn run<const N: usize>(&self, at: usize, words: [&str; N]) -> Ended {
        let server = format!("http://127.0.0.1:{}", self.members[at].port);
        Ended::of(program().args(words).args(["--server", &server, "--token", TOKEN]))
    }

    /// Notes every write of what became of a task, so that it can be judged afterwards.
    pub(crate) fn watch_tasks(&self) {
        self.sql(
            "CREATE TABLE seen (at timestamptz DEFAULT clock_timestamp(), name text, lease text, instance text, term bigint, runs bigint);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen (name, lease, instance, term, runs) VALUES (NEW.name, NEW.lease, NEW.instance, NEW.term, NEW.runs);
                 RETURN NEW; END $$;
             CREATE TRIGGER note AFTER INSERT OR UPDATE ON task FOR EACH ROW EXECUTE FUNCTION note();",
        );
    }

    /// Nothing was written under a term after a higher one, and every term of a lease had one author.
    pub(crate) fn judge_tasks(&self) {
        let authors = self.sql(
            "SELECT count(*) FROM (SELECT lease, term FROM seen GROUP BY lease, term HAVING count(DISTINCT instance) > 1) twice",
        );
        assert_eq!(authors.trim(), "0", "a term had two authors");
        let late = self.sql(
            "SELECT count(*) FROM (SELECT term, runs, lag(term) OVER w AS before, lag(runs) OVER w AS ran FROM seen
             WINDOW w AS (PARTITION BY name ORDER BY at)) s WHERE term < before OR runs <= ran",
        );
        assert_eq!(late.trim(), "0", "a term that was over wrote");
    }

    /// Waits until this replica has done work of a lease in this term.
    pub(crate) async fn worked(&self, lease: &str, at: usize, term: u64) {
        let name = &self.members[at].name;
        let query = format!(
            "SELECT count(*) FROM seen WHERE lease = '{lease}' AND instance = '{name}' AND term = {term}"
        );
        eventually(2 * SOON, "work", async || match self.sql(&query).trim() {
            "0" => Err("none yet".to_owned()),
            _ => Ok(()),
        })
        .await;
    }
}

pub(crate) fn sql(url: &str, statement: &str) -> String {
    let mut psql = Command::new("psql");
    psql.args([url, "--no-psqlrc", "--tuples-only", "--quiet", "--command", statement]);
    Ended::of(&mut psql).done().stdout
}

/// Does nothing for a while: the load of a test goes on meanwhile.
pub(crate) const BREATH: Duration = Duration::from_millis(20);
