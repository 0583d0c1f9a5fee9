//! docs/nginx.md: what is printed there is what is tested. Only addresses, ports and paths are of a test's own, and users where the test is
//! not root.

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    process::Command,
};

use holdfast_testkit::{Process, Scratch, eventually, free_port};
use serde_json::Value;

use crate::{
    haproxy::{application, is_root, replaced},
    kit::{Ended, SOON, is_ready, program, word},
    replica::{Database, Network, Replica},
};

const DOCUMENT: &str = include_str!("../../../../docs/nginx.md");

fn printed(language: &str) -> &'static str {
    let rest = DOCUMENT.split(language).nth(1).unwrap();
    rest.split("```").next().unwrap()
}

/// An edge by the book.
struct Book {
    scratch: Scratch,
    network: Network,
    replica: Replica,
    https: u16,
}

impl Book {
    async fn open() -> Self {
        let network = Network::start().await;
        let mut replica =
            Replica::prepare(&network, Database::Sqlite, "[edge]\nmode = \"agents\"").await;
        // Where the CA asks, nginx listens.
        let own = free_port().unwrap();
        let listen = |port| format!("listen = \"127.0.0.1:{port}\"");
        let text =
            replaced(&replica.read("holdfast.toml"), &[(&listen(network.http), listen(own))]);
        replica.scratch.write("holdfast.toml", text).unwrap();
        replica.port = own;
        replica.begin().await;
        let book = Self {
            scratch: Scratch::new().unwrap(),
            network,
            replica,
            https: free_port().unwrap(),
        };
        book.make_directory();
        book
    }

    fn directory(&self) -> PathBuf {
        self.scratch.path().join("holdfast")
    }

    /// As the command that is printed makes it, but for its owner.
    fn make_directory(&self) {
        let words: Vec<_> = printed("```console\n$ ").split_whitespace().collect();
        assert_eq!(words[..4], ["install", "-d", "-o", "holdfast-agent"]);
        let directory = word(&self.directory());
        let arguments = words[4..].iter().map(|word| match *word {
            "/etc/nginx/holdfast" => directory.clone(),
            word => word.to_owned(),
        });
        let arguments: Vec<_> = arguments.collect();
        let arguments = if is_root(&self.scratch) { &arguments[..] } else { &arguments[2..] };
        Ended::of(Command::new("install").arg("-d").args(arguments)).done();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.scratch.path(), open).unwrap();
    }

    async fn start_agent(&self) -> Process {
        let token = self.replica.run([
            "token", "create", "--scope", "edge", "--edge", "edge-1", "--group", "default",
            "--output", "json",
        ]);
        let token = token.done().json();
        let token = token.get("token").and_then(Value::as_str).unwrap();
        self.scratch.write("edge.token", token).unwrap();
        self.scratch.write("ca.pem", std::fs::read(self.network.root()).unwrap()).unwrap();
        let text = replaced(
            printed("```toml\n"),
            &[
                ("https://replica1.internal:8600", self.replica.url()),
                (
                    "https://replica2.internal:8600",
                    format!("http://127.0.0.2:{}", self.replica.port),
                ),
                ("/var/lib/holdfast-agent", word(&self.scratch.path().join("data"))),
                ("/etc/nginx/holdfast", word(&self.directory())),
                ("127.0.0.1:443", format!("127.0.0.1:{}", self.https)),
            ],
        );
        let file = word(&self.scratch.write("agent.toml", text).unwrap());
        let agent = Process::spawn("agent", program().args(["agent", "--config", &file])).unwrap();
        agent.wait_for_line(SOON, is_ready).await.unwrap();
        agent
    }

    async fn start_nginx(&self) -> Process {
        let servers = replaced(
            printed("```nginx\n"),
            &[
                ("/etc/nginx/holdfast", word(&self.directory())),
                ("listen 80 ", format!("listen 127.0.0.1:{} ", self.network.http)),
                ("listen 443 ", format!("listen 127.0.0.1:{} ", self.https)),
                ("127.0.0.1:8600", format!("127.0.0.1:{}", self.replica.port)),
                ("127.0.0.2:8600", format!("127.0.0.2:{}", self.replica.port)),
                ("127.0.0.1:3000", format!("127.0.0.1:{}", application())),
            ],
        );
        self.scratch.write("holdfast.conf", servers).unwrap();
        let user = if is_root(&self.scratch) { "user www-data;" } else { "" };
        let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {kind};"))
            .concat();
        let text = format!(
            "{user} daemon off; pid nginx.pid; error_log stderr; events {{}}\nhttp {{ access_log off; {places} include holdfast.conf; }}\n"
        );
        self.scratch.write("nginx.conf", text).unwrap();
        let prefix = format!("{}/", self.scratch.path().display());
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.args(["-p", &prefix, "-c", "nginx.conf"]);
        let nginx = Process::spawn("nginx", &nginx).unwrap();
        let https = self.https;
        eventually(SOON, "nginx to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", https)).await.map(drop)
        })
        .await;
        nginx
    }

    fn visit(&self, name: &str, trust: &[&str]) -> Ended {
        let port = self.https;
        Ended::of(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "10"])
                .args(trust)
                .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
                .arg(format!("https://{name}:{port}/cart?item=1")),
        )
    }
}

#[tokio::test]
async fn the_printed_configuration_serves_renews_and_removes() {
    let book = Book::open().await;
    let nginx = book.start_nginx().await;
    let _agent = book.start_agent().await;
    book.replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let root = word(&book.network.root());
    let seen = book.visit("shop.test", &["--cacert", &root]).done().stdout.to_lowercase();
    assert!(
        seen.contains("x-forwarded-proto: https") && seen.contains("host: shop.test"),
        "{seen}"
    );
    let key = book.directory().join("shop.test.key");
    let made = std::fs::metadata(&key).unwrap();
    assert_eq!(made.mode() & 0o7777, 0o640);
    let group = std::fs::metadata(book.directory()).unwrap().gid();
    assert_eq!(made.gid(), group);
    let before = std::fs::read(&key).unwrap();
    book.replica.run(["domain", "renew", "shop.test"]).done();
    eventually(SOON, "another key", async || match std::fs::read(&key) {
        Ok(now) if now != before => Ok(()),
        _ => Err("the same"),
    })
    .await;
    book.visit("shop.test", &["--cacert", &root]).done();
    // A visitor chooses what he asks for, and not where it is looked for.
    book.visit("other.test", &["--insecure"]).refused(35, &[]);
    book.replica.run(["domain", "remove", "shop.test"]).done();
    eventually(SOON, "the files to be gone", async || {
        let left = std::fs::read_dir(book.directory()).unwrap().count();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    book.visit("shop.test", &["--insecure"]).refused(35, &[]);
    // Killed, it would leave its workers behind.
    nginx.terminate(SOON).await.unwrap();
}
