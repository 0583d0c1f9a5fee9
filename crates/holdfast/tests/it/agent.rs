//! `holdfast agent` as a process: beside a real HAProxy, with a real control plane.

use std::{path::PathBuf, process::Command, time::Duration};

use holdfast_testkit::{Haproxy, Process, Scratch, eventually, free_port, run_sql};
use serde_json::Value;

use crate::{
    kit::{Ended, SOON, is_ready, program, word},
    replica::{Database, Network, Replica},
};

/// A control plane that leaves serving to agents, an agent, and its HAProxy.
struct Site {
    network: Network,
    replica: Replica,
    haproxy: Haproxy,
    agent: Option<Process>,
    listen: u16,
}

impl Site {
    async fn start() -> Self {
        let network = Network::start().await;
        let edge = "[edge]\nmode = \"agents\"";
        let replica = Replica::start(&network, Database::Sqlite, edge).await;
        let (haproxy, listen) = (Haproxy::prepare().unwrap(), free_port().unwrap());
        let mut site = Self { network, replica, haproxy, agent: None, listen };
        let token = site
            .replica
            .run(["token", "create", "--scope", "edge", "--edge", "edge-1", "--group", "default"]);
        // As `> edge.token` writes it.
        site.haproxy.scratch().write("edge.token", token.done().stdout).unwrap();
        site.configure("apply");
        // The agent makes what HAProxy needs for its first start.
        site.begin().await;
        site.haproxy.start().await.unwrap();
        site
    }

    fn configure(&self, mode: &str) -> PathBuf {
        let (haproxy, listen) = (&self.haproxy, self.listen);
        let text = format!(
            r#"
            [agent]
            name = "edge-1"
            server = ["http://127.0.0.1:{}", "{}"]
            token_file = "edge.token"
            data = "data"
            mode = "{mode}"
            listen = "127.0.0.1:{listen}"
            [haproxy]
            socket = "{}"
            directory = "certs"
            crt_list = "crt-list"
            probe = "{}"
            "#,
            free_port().unwrap(),
            self.replica.url(),
            word(&haproxy.socket()),
            haproxy.https(),
        );
        haproxy.scratch().write("agent.toml", text).unwrap()
    }

    fn command(&self) -> Command {
        let mut command = program();
        command.args(["agent", "--config", &word(&self.haproxy.path().join("agent.toml"))]);
        command
    }

    async fn begin(&mut self) {
        let process = Process::spawn("agent", &self.command()).unwrap();
        process.wait_for_line(SOON, is_ready).await.unwrap();
        self.agent = Some(process);
    }

    /// A visitor's look at a name; its certificate must be from the development CA.
    fn visit(&self, name: &str) -> Ended {
        let port = self.haproxy.https().port();
        Ended::of(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "10", "--cacert"])
                .arg(self.network.root())
                .args([
                    "--resolve",
                    &format!("{name}:{port}:127.0.0.1"),
                    &format!("https://{name}:{port}/"),
                ]),
        )
    }

    fn get(&self, path: &str) -> Ended {
        let url = format!("http://127.0.0.1:{}{path}", self.listen);
        Ended::of(Command::new("curl").args([
            "--silent",
            "--max-time",
            "10",
            "--write-out",
            "\n%{http_code}",
            &url,
        ]))
    }

    async fn until_ready(&self) {
        eventually(SOON, "the agent to be ready", async || {
            let said = self.get("/health/ready").stdout;
            if said.ends_with("\n200") { Ok(()) } else { Err(said) }
        })
        .await;
    }

    fn sha256(&self, name: &str) -> String {
        let shown = self.replica.run(["domain", "show", name, "--output", "json"]).done().json();
        shown.pointer("/serving/sha256").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn from_a_name_to_https_on_haproxy_and_back() {
    let mut site = Site::start().await;
    site.until_ready().await;
    site.replica.run(["domain", "add", "shop.test", "--wait"]).done();
    site.visit("shop.test").done();
    let first = site.sha256("shop.test");
    // Whoever is restarted, it goes on.
    site.haproxy.restart().await.unwrap();
    site.visit("shop.test").done();
    site.agent.as_ref().unwrap().kill().await.unwrap();
    site.replica.run(["domain", "renew", "shop.test"]).done();
    site.begin().await;
    site.until_ready().await;
    eventually(Duration::from_secs(60), "the renewed certificate to be served", async || {
        let now = site.sha256("shop.test");
        if now != first && !now.is_empty() { Ok(()) } else { Err(now) }
    })
    .await;
    site.visit("shop.test").done();
    // The replica it talks to.
    site.replica.process().kill().await.unwrap();
    site.visit("shop.test").done();
    site.replica.begin().await;
    site.replica.run(["domain", "add", "next.test", "--wait"]).done();
    site.visit("next.test").done();
    let listed = site.replica.run(["edge", "list", "--output", "json"]).done().json();
    assert_eq!(listed.pointer("/items/0/name").and_then(Value::as_str), Some("edge-1"));
    assert_eq!(listed.pointer("/items/0/live").and_then(Value::as_bool), Some(true));
    site.replica.run(["domain", "remove", "shop.test"]).done();
    eventually(Duration::from_secs(60), "the removed name to be refused", async || {
        let ended = site.visit("shop.test");
        if ended.code == 0 { Err("still served") } else { Ok(()) }
    })
    .await;
    let metrics = site.get("/metrics").stdout;
    assert!(
        metrics.contains("holdfast_agent_handshakes_total")
            && metrics.contains("holdfast_agent_ready 1"),
        "{metrics}"
    );
    let told = |line: &str| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned());
    for name in metrics.lines().filter_map(told) {
        assert!(metrics.contains(&format!("# HELP {name} ")), "{name} in {metrics}");
    }
    assert!(site.get("/health/live").stdout.ends_with("\n200"));
    let status = site.agent.take().unwrap().terminate(SOON).await.unwrap();
    assert!(status.success(), "{status:?}");
}

/// Damaged before the agent had it: the agent says so, and the name gets another.
#[tokio::test]
async fn a_certificate_that_was_damaged_is_reported_by_the_agent_and_replaced() {
    let mut site = Site::start().await;
    site.until_ready().await;
    site.agent.take().unwrap().terminate(SOON).await.unwrap();
    site.replica.run(["domain", "add", "shop.test"]).done();
    eventually(SOON, "the certificate to wait for the agent", async || {
        let shown = site.replica.run(["domain", "show", "shop.test", "--output", "json"]).json();
        if shown["state"] == "CertificateDeploying" { Ok(()) } else { Err(shown) }
    })
    .await;
    let file = site.replica.scratch.path().join("holdfast.db");
    let damage = "UPDATE sealed SET value = substr(value, 1, 40) WHERE owner = 'certificate'";
    run_sql(&format!("sqlite:{}", file.display()), damage).unwrap();
    site.begin().await;
    eventually(Duration::from_secs(60), "another certificate to be served", async || {
        let ended = site.visit("shop.test");
        if ended.code == 0 { Ok(()) } else { Err(ended.stderr) }
    })
    .await;
    let history = site.replica.run(["domain", "history", "shop.test"]).done().stdout;
    assert_eq!(history.matches("certificate-damaged").count(), 1, "{history}");
}

/// The control plane answers, so it is not "unreachable": the token is what somebody has to act on.
#[tokio::test]
async fn a_token_that_is_refused_is_told_as_such_and_replaced_while_it_runs() {
    let site = Site::start().await;
    site.until_ready().await;
    let tokens = site.replica.run(["token", "list", "--output", "json"]).done().json();
    let of_edge = |token: &&Value| token["name"] == "edge-1";
    let token = tokens["items"].as_array().unwrap().iter().find(of_edge).unwrap();
    site.replica.run(["token", "revoke", token["id"].as_str().unwrap()]).done();
    eventually(SOON, "the cause", async || {
        let said = site.get("/health").stdout;
        if said.contains("\"edge-token-refused\"") { Ok(()) } else { Err(said) }
    })
    .await;
    let token = site
        .replica
        .run(["token", "create", "--scope", "edge", "--edge", "edge-1", "--group", "default"]);
    site.haproxy.scratch().write("edge.token", token.done().stdout).unwrap();
    eventually(SOON, "the agent to be heard", async || {
        let said = site.get("/health").stdout;
        let is_heard = said.contains("\"error\":null") && said.ends_with("\n200");
        if is_heard { Ok(()) } else { Err(said) }
    })
    .await;
}

#[tokio::test]
async fn an_observer_changes_nothing_and_a_second_agent_is_refused() {
    let mut site = Site::start().await;
    site.until_ready().await;
    let pid = site.agent.as_ref().unwrap().pid().to_string();
    Ended::of(&mut site.command()).refused(1, &["is in use by another agent", &pid]);
    site.agent.take().unwrap().terminate(SOON).await.unwrap();
    site.configure("observe");
    site.begin().await;
    site.until_ready().await;
    site.replica.run(["domain", "add", "shop.test"]).done();
    eventually(Duration::from_secs(60), "the observer's word", async || {
        let shown = site.replica.run(["domain", "explain", "shop.test"]).stdout;
        if shown.contains("observe") { Ok(()) } else { Err(shown) }
    })
    .await;
    assert!(!site.haproxy.certificates().join("shop.test.pem").exists());
    assert_ne!(site.visit("shop.test").code, 0);
}

#[test]
fn what_is_wrong_with_the_file_is_told_with_its_remedy() {
    let scratch = Scratch::new().unwrap();
    let check = |text: &str, words: &[&str]| {
        let file = word(&scratch.write("agent.toml", text).unwrap());
        Ended::of(program().args(["agent", "--config", &file])).refused(2, words);
    };
    check("", &["agent.toml: agent is missing; add a section [agent]"]);
    let agent = "[agent]\nname = \"e\"\nserver = \"http://127.0.0.1:1\"\ntoken_file = \"no.token\"\ndata = \"d\"\n";
    check(agent, &["add a section [haproxy] or [files]"]);
    check(
        &format!("{agent}[files]\ndirectory = \"x\"\n"),
        &["agent.token_file", "no.token cannot be read"],
    );
    let remote = agent.replace("127.0.0.1:1", "10.1.2.3:8600");
    check(
        &format!("{remote}[files]\ndirectory = \"x\"\n"),
        &["agent.server", "agent.allow_plaintext = true"],
    );
}
