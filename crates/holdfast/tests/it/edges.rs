//! Two edges at one control plane, each a HAProxy with its agent: what one of them does or does not do is not the other's.

use std::process::Command;

use holdfast_testkit::{Haproxy, Pki, Process, eventually};
use serde_json::Value;

use crate::{
    import::{bundle, import, orders},
    kit::{Ended, SOON, is_ready, program, word},
    replica::{Database, Network, Replica},
};

struct Edge {
    haproxy: Haproxy,
    agent: Process,
}

impl Edge {
    async fn start(replica: &Replica, name: &str) -> Self {
        Self::beside(Haproxy::prepare().unwrap(), replica, name).await
    }

    /// Registers, and begins.
    async fn beside(mut haproxy: Haproxy, replica: &Replica, name: &str) -> Self {
        let token = replica
            .run(["token", "create", "--scope", "edge", "--edge", name, "--group", "default"]);
        haproxy.scratch().write("edge.token", token.done().stdout).unwrap();
        let text = format!(
            "[agent]\nname = \"{name}\"\nserver = [\"{}\"]\ntoken_file = \"edge.token\"\ndata = \"data\"\n\
             [haproxy]\nsocket = \"{}\"\ndirectory = \"certs\"\ncrt_list = \"crt-list\"\nprobe = \"{}\"\n",
            replica.url(),
            word(&haproxy.socket()),
            haproxy.https(),
        );
        let file = haproxy.scratch().write("agent.toml", text).unwrap();
        let mut command = program();
        command.args(["agent", "--config", &word(&file)]);
        let agent = Process::spawn("agent", &command).unwrap();
        agent.wait_for_line(SOON, is_ready).await.unwrap();
        haproxy.start().await.unwrap();
        Self { haproxy, agent }
    }

    /// The fingerprint that a visitor sees for a name, and the names in it, as OpenSSL writes them.
    fn shown(&self, name: &str) -> String {
        let script = "openssl s_client -connect \"$0\" -servername \"$1\" </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256 -ext subjectAltName";
        let mut look = Command::new("sh");
        look.args(["-c", script, &self.haproxy.https().to_string(), name]);
        Ended::of(&mut look).stdout
    }

    async fn until_shown(&self, name: &str) -> String {
        eventually(SOON, name, async || {
            let shown = self.shown(name);
            if shown.contains(name) { Ok(shown.clone()) } else { Err(shown) }
        })
        .await
    }
}

async fn site() -> (Network, Replica) {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "[edge]\nmode = \"agents\"").await;
    (network, replica)
}

/// How many domains each edge is behind, and its last error, by name.
fn listed(replica: &Replica) -> Vec<(String, u64, String)> {
    let edges = replica.run(["edge", "list", "--output", "json"]).done().json();
    let items = edges.pointer("/items").and_then(Value::as_array).cloned().unwrap();
    let of = |edge: &Value| {
        let name = edge.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let behind = edge.get("behind").and_then(Value::as_u64).unwrap_or(u64::MAX);
        (name, behind, edge.get("last_error").map(Value::to_string).unwrap_or_default())
    };
    let mut all: Vec<_> = items.iter().map(of).collect();
    all.sort();
    all
}

async fn both_registered(replica: &Replica) {
    eventually(SOON, "two edges", async || match listed(replica) {
        all if all.len() == 2 => Ok(()),
        all => Err(format!("{all:?}")),
    })
    .await;
}

/// Moving in as docs/moving-in.md says: brought along, taken over in the file it lies in, and renewed there. A file of two names gives way;
/// one with a name that cannot be ours stays, and why is told.
#[tokio::test]
async fn a_certificate_of_before_moves_in_and_is_renewed() {
    let (network, replica) = site().await;
    let haproxy = Haproxy::prepare().unwrap();
    let write = |file: &str, names: &[&str]| {
        let pem = bundle(&Pki::of(names).unwrap());
        word(&haproxy.scratch().write(file, pem).unwrap())
    };
    // What stands first is HAProxy's default.
    let (default, old) = (write("default.pem", &["default.test"]), write("old.pem", &["old.test"]));
    let both = write("both.pem", &["shop.test", "www.shop.test"]);
    let wild = write("wild.pem", &["mine.test", "*.mine.test"]);
    let list = format!("{default} !*\n{old}\n{both} shop.test www.shop.test\n{wild}\n");
    let list = haproxy.scratch().write("foreign", list).unwrap();
    let edge = Edge::beside(haproxy.with_list(&list), &replica, "one").await;
    let before = edge.until_shown("old.test").await;

    import(&replica, "haproxy-crt-list", &list, &[]).refused(1, &["*.mine.test"]);
    let is = async |wanted: &str| {
        eventually(SOON, wanted, async || {
            let shown = replica.run(["edge", "show", "one", "--output", "json"]).done().stdout;
            let shown = shown.replace([' ', '\n'], "");
            if shown.contains(wanted) { Ok(()) } else { Err(shown) }
        })
        .await;
    };
    is("\"strangers\":3").await;
    is("\"shadows\":3").await;
    replica.run(["edge", "adopt", "one", "--all"]).done();
    is("\"strangers\":1").await;
    assert_eq!(edge.shown("old.test"), before, "taken over as it is");
    assert_eq!(edge.shown("www.shop.test"), edge.shown("shop.test"), "brought along");
    is("edge-not-adoptable").await;
    let shown = replica.run(["edge", "show", "one"]).done().stdout;
    assert!(shown.contains("NOT TAKEN OVER") && shown.contains("*.mine.test"), "{shown}");
    assert!(!shown.contains("Take them over with"), "{shown}");
    assert_eq!(orders(&network), 0);

    replica.run(["domain", "renew", "old.test", "--wait"]).done();
    let after = eventually(SOON, "the renewed one", async || {
        let shown = edge.shown("old.test");
        if shown != before && shown.contains("old.test") { Ok(shown.clone()) } else { Err(shown) }
    })
    .await;
    assert_eq!(orders(&network), 1);
    replica.run(["domain", "renew", "www.shop.test", "--wait"]).done();
    let www = eventually(SOON, "one of its own", async || {
        let shown = edge.shown("www.shop.test");
        if shown.contains("DNS:www.shop.test\n") { Ok(shown.clone()) } else { Err(shown) }
    })
    .await;
    assert!(edge.shown("shop.test").contains("DNS:shop.test, DNS:www.shop.test"));
    // From the file of before, also after a restart.
    let mut edge = edge;
    edge.haproxy.restart().await.unwrap();
    assert_eq!(edge.until_shown("old.test").await, after);
    assert_eq!(edge.until_shown("www.shop.test").await, www);
}

/// The one that stands still is waited for while it counts as live, and then no longer; it catches up by itself.
#[tokio::test]
async fn one_that_stands_still_holds_nobody_up_for_long_and_catches_up() {
    let (_network, replica) = site().await;
    let (one, two) = (Edge::start(&replica, "one").await, Edge::start(&replica, "two").await);
    both_registered(&replica).await;
    replica.run(["domain", "add", "a.test", "--wait"]).done();
    assert_eq!(one.until_shown("a.test").await, two.until_shown("a.test").await);

    two.agent.pause().unwrap();
    replica.run(["domain", "add", "b.test", "--wait"]).done();
    let shown = one.until_shown("b.test").await;
    assert!(!two.shown("b.test").contains("b.test"), "nobody told it");

    two.agent.resume().unwrap();
    assert_eq!(two.until_shown("b.test").await, shown);
    eventually(SOON, "nobody to be behind", async || {
        let all = listed(&replica);
        if all.iter().all(|(_, behind, _)| *behind == 0) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

/// An agent whose HAProxy is gone refuses everything, for as long as it is.
#[tokio::test]
async fn one_whose_proxy_is_down_stops_nobody_and_alone_it_is_waited_for() {
    let (_network, replica) = site().await;
    let (mut one, mut two) =
        (Edge::start(&replica, "one").await, Edge::start(&replica, "two").await);
    both_registered(&replica).await;
    two.haproxy.kill().await.unwrap();
    replica.run(["domain", "add", "a.test", "--wait"]).done();
    one.until_shown("a.test").await;
    eventually(SOON, "the refusal to be listed", async || match listed(&replica) {
        all if all[1].2.contains("edge-proxy-unreachable") => Ok(()),
        all => Err(format!("{all:?}")),
    })
    .await;

    // Without the other, nobody serves: the domain waits for an edge that works, and it is said which one does not.
    one.agent.kill().await.unwrap();
    one.haproxy.kill().await.unwrap();
    replica.run(["edge", "remove", "one", "--yes"]).done();
    replica.run(["domain", "add", "b.test"]).done();
    let is = async |wanted: &str, cause: &str| {
        eventually(SOON, wanted, async || {
            let shown = replica.run(["domain", "show", "b.test", "--output", "json"]).done().json();
            let state = shown.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
            let why = shown.get("last_error").map(Value::to_string).unwrap_or_default();
            let met = state == wanted && why.contains(cause);
            if met { Ok(()) } else { Err(format!("{state}: {why}")) }
        })
        .await;
    };
    is("CertificateDeploying", "edge-error").await;

    // Back again, it takes what it was asked to, and that mends the domain.
    two.haproxy.start().await.unwrap();
    is("Active", "null").await;
    two.until_shown("b.test").await;
    two.until_shown("a.test").await;
}
