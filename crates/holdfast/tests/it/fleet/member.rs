//! Replicas that share one database, one key and one CA, each a process of its own.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bytes::Bytes;
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_testkit::{Durability, Faketime, Postgres, Process, Scratch, eventually, free_port};
use http::{Method, Request, StatusCode};
use serde_json::Value;

use super::balancer::Balancer;
use crate::{
    kit::{Ended, PROGRAM, SOON, is_ready, program_at, word},
    replica::Network,
};

const TOKEN: &str = "correct-horse-battery-staple";
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// What a replica of a role is told beyond the common configuration.
pub(crate) type Environment = Box<dyn Fn(&str, &Network) -> Vec<(&'static str, String)>>;

/// What a fleet is made from.
pub(crate) struct Plan {
    /// The role of each replica.
    pub(crate) roles: &'static [&'static str],
    /// Does the balancer send it anything?
    pub(crate) balanced: fn(role: &str) -> bool,
    /// More configuration.
    pub(crate) extra: &'static str,
    /// The build they begin with.
    pub(crate) program: PathBuf,
    /// More of the environment, by role.
    pub(crate) environment: Environment,
    /// Has the database a synchronous standby, which its URL names too?
    pub(crate) standby: bool,
    /// The database's clock, if it is not the right one.
    pub(crate) clock: Option<Faketime>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            roles: &["all"; 3],
            balanced: |_| true,
            extra: "[provisioning]\nclaim_seconds = 2",
            program: PROGRAM.into(),
            environment: Box::new(|_, _| Vec::new()),
            standby: false,
            clock: None,
        }
    }
}

/// One replica of the fleet.
pub(crate) struct Member {
    name: String,
    role: &'static str,
    port: u16,
    process: Option<Process>,
}

/// Somebody who asks at one address.
pub(crate) struct Visitor {
    client: Client,
    port: u16,
}

impl Visitor {
    pub(crate) fn new(port: u16) -> Self {
        let time_limit = Duration::from_secs(20);
        let client = Client::new(ClientConfig { time_limit, ..ClientConfig::default() }).unwrap();
        Self { client, port }
    }

    /// Asks once.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), String> {
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}{path}", self.port))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let reply = self.client.send(request).await.map_err(|error| format!("{error:?}"))?;
        Ok((reply.status(), serde_json::from_slice(reply.body()).unwrap_or(Value::Null)))
    }

    /// The replica that the balancer chooses now.
    async fn chosen(&self) -> Option<String> {
        let url = format!("http://127.0.0.1:{}/health/live", self.port);
        let request = Request::get(url).body(Bytes::new()).unwrap();
        let reply = self.client.send(request).await.ok()?;
        Some(reply.headers().get("x-replica")?.to_str().ok()?.to_owned())
    }

    /// Asks once, and takes nothing but success for an answer.
    pub(crate) async fn expect(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        match self.ask(method.clone(), path, body).await {
            Ok((status, reply)) if status.is_success() => reply,
            other => panic!("{method} {path}: {other:?}"),
        }
    }
}

/// Replicas behind a balancer, which is also where the CA looks for its answers.
pub(crate) struct Fleet {
    pub(crate) network: Network,
    pub(crate) postgres: Postgres,
    standby: Option<Postgres>,
    pub(crate) clock: Option<Faketime>,
    pub(crate) members: Vec<Member>,
    /// The build that whoever is started next runs.
    pub(crate) program: PathBuf,
    url: String,
    scratch: Scratch,
    environment: Environment,
    visitor: Visitor,
    _balancer: Balancer,
}

impl Fleet {
    /// Starts everything, and waits until all are ready.
    pub(crate) async fn start(plan: Plan) -> Self {
        Self::start_in(Network::start().await, plan).await
    }

    /// The same beside a network that is there.
    pub(crate) async fn start_in(network: Network, plan: Plan) -> Self {
        let postgres = match &plan.clock {
            Some(clock) => Postgres::start_by(clock).await.unwrap(),
            None => Postgres::start(Durability::Relaxed).await.unwrap(),
        };
        let mut url = postgres.database().await.unwrap();
        let mut standby = None;
        if plan.standby {
            let other = standby.insert(postgres.synchronous_standby().await.unwrap());
            let place = |port| format!("127.0.0.1:{port}");
            let (first, second) = (place(postgres.port()), place(other.port()));
            url = url.replace(&first, &format!("{first},{second}"));
        }
        let scratch = Scratch::new().unwrap();
        scratch.write("holdfast.toml", text(&network, &url, plan.extra)).unwrap();
        let members: Vec<Member> = plan.roles.iter().enumerate().map(Member::new).collect();
        let balanced = members.iter().filter(|member| (plan.balanced)(member.role));
        let balanced: Vec<u16> = balanced.map(|member| member.port).collect();
        let balancer = Balancer::start(network.http, &balanced).await;
        let visitor = Visitor::new(network.http);
        let environment = plan.environment;
        let mut fleet = Self {
            network,
            postgres,
            standby,
            clock: plan.clock,
            members,
            url,
            scratch,
            program: plan.program,
            environment,
            visitor,
            _balancer: balancer,
        };
        for at in 0..fleet.members.len() {
            fleet.begin(at).await;
        }
        for at in 0..fleet.members.len() {
            if (plan.balanced)(fleet.members[at].role) {
                fleet.is_asked(at).await;
            }
        }
        fleet
    }

    /// Starts a replica, and waits until it says that it is ready.
    pub(crate) async fn begin(&mut self, at: usize) {
        let process = self.spawn(at);
        process.wait_for_line(SOON, is_ready).await.unwrap();
    }

    /// Starts a replica, and does not wait.
    pub(crate) fn spawn(&mut self, at: usize) -> &Process {
        let more = (self.environment)(self.members[at].role, &self.network);
        let member = &mut self.members[at];
        let mut command = program_at(&self.program);
        let config = word(&self.scratch.path().join("holdfast.toml"));
        command.args(["server", "--config", &config, "--role", member.role]);
        command.env("POD_NAME", &member.name).envs(more);
        let address = format!("127.0.0.1:{}", member.port);
        command.env("HOLDFAST__SERVER__URL", format!("http://{address}"));
        command.env("HOLDFAST__SERVER__LISTEN", address);
        member.process.insert(Process::spawn(&member.name, &command).unwrap())
    }

    /// Asks each in turn to end, and starts it again as soon as it has; the next one's turn comes when this one is asked again.
    pub(crate) async fn roll(&mut self) {
        for at in 0..self.members.len() {
            let status = self.members[at].process().terminate(SOON).await.unwrap();
            assert!(status.success(), "{status:?}");
            self.begin(at).await;
            self.is_asked(at).await;
        }
    }

    /// Waits until the balancer sends requests to this one.
    pub(crate) async fn is_asked(&self, at: usize) {
        let port = self.members[at].port;
        eventually(SOON, "the balancer to choose it", async || match self.visitor.chosen().await {
            Some(chosen) if chosen == format!("r{port}") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// `kill -9` of the primary, which never comes back; its standby takes over.
    pub(crate) async fn fail_over(&self) {
        self.postgres.process().kill().await.unwrap();
        self.standby.as_ref().unwrap().promote().await.unwrap();
    }

    /// Asks until it is answered with success.
    pub(crate) async fn insist(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let asking = async || match self.visitor.ask(method.clone(), path, body).await {
            Ok((status, reply)) if status.is_success() => Ok(reply),
            other => Err(format!("{method} {path}: {other:?}")),
        };
        eventually(2 * SOON, "an answer", asking).await
    }

    /// Asks the CA what only a CA for development answers.
    pub(crate) async fn ask_ca(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let roots = std::fs::read(self.network.root()).unwrap();
        let config = ClientConfig { extra_roots_pem: Some(roots), ..ClientConfig::default() };
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1:{}{path}", self.network.ca))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let reply = Client::new(config).unwrap().send(request).await.unwrap();
        assert!(reply.status().is_success(), "{path}: {reply:?}");
        serde_json::from_slice(reply.body()).unwrap_or(Value::Null)
    }

    /// How many finalized orders of each set of names the CA knows; none of them was finalized twice.
    pub(crate) async fn finalized(&self) -> BTreeMap<String, u64> {
        let orders = self.ask_ca(Method::GET, "/dev/orders", None).await;
        let mut by_name = BTreeMap::new();
        for order in orders.as_array().unwrap() {
            let times = order["finalized"].as_u64().unwrap();
            assert!(times <= 1, "finalized {times} times: {order}");
            *by_name.entry(order["names"].to_string()).or_default() += times;
        }
        by_name
    }

    /// Says something to the database.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let mut psql = std::process::Command::new("psql");
        psql.args([&self.url, "--no-psqlrc", "--tuples-only", "--quiet", "--command", statement]);
        Ended::of(&mut psql).done().stdout
    }

    /// What the database says to a query for one number.
    pub(crate) fn count(&self, query: &str) -> u64 {
        self.sql(query).trim().parse().unwrap()
    }
}

impl Member {
    fn new((at, role): (usize, &&'static str)) -> Self {
        Self { name: format!("replica-{at}"), role, port: free_port().unwrap(), process: None }
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    pub(crate) async fn kill(&mut self) {
        self.process().kill().await.unwrap();
        self.process = None;
    }
}

fn text(network: &Network, database: &str, extra: &str) -> String {
    let (ca, dns, root) = (network.ca, network.dns, word(&network.root()));
    format!(
        r#"
        [server]
        drain_seconds = 2
        [database]
        url = "{database}"
        [acme]
        directory = "https://127.0.0.1:{ca}/directory"
        root_certificate = "{root}"
        agree_terms = true
        max_new_orders_per_3h = 100000
        [dns]
        targets = ["edge.holdfast.test"]
        resolvers = ["127.0.0.1:{dns}"]
        [security]
        master_key = "{MASTER_KEY}"
        admin_token = "{TOKEN}"
        {extra}
        "#
    )
}
