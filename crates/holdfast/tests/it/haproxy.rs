//! docs/haproxy.md: what is printed there is what is tested. Only addresses, ports and paths are of a test's own, and user and group where
//! the test is not root.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::PathBuf,
    process::Command,
};

use holdfast_testkit::{Process, Scratch, eventually, free_port};
use serde_json::Value;

use crate::{
    kit::{Ended, SOON, is_ready, program, word},
    replica::{Database, Network, Replica},
};

const DOCUMENT: &str = include_str!("../../../../docs/haproxy.md");

/// What is printed in this language.
fn printed(language: &str) -> impl Iterator<Item = &'static str> {
    DOCUMENT.split(language).skip(1).map(|rest| rest.split("```").next().unwrap())
}

/// Puts what is a test's own in the place of what is printed, all of which must be there.
pub(crate) fn replaced(printed: &str, own: &[(&str, String)]) -> String {
    own.iter().fold(printed.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no `{from}` in:\n{text}");
        text.replace(from, to)
    })
}

/// An application that shows each request as it came to it.
pub(crate) fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut head, mut buffer) = (Vec::new(), [0; 8_192]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => head.extend_from_slice(&buffer[..read]),
                }
            }
            let length = head.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            // HAProxy's check hangs up without a request.
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&head));
        }
    });
    port
}

/// An edge by the book: a control plane, an application, and the printed files with a test's own places in them.
struct Book {
    scratch: Scratch,
    network: Network,
    replica: Replica,
    app: u16,
    https: u16,
    /// Who may open the Runtime API.
    group: String,
}

impl Book {
    async fn open() -> Self {
        let network = Network::start().await;
        let extra = "[edge]\nmode = \"agents\"";
        let mut replica = Replica::prepare(&network, Database::Sqlite, extra).await;
        // Where the CA asks, HAProxy listens.
        let (asked, own) = (network.http, free_port().unwrap());
        let listen = |port| format!("listen = \"127.0.0.1:{port}\"");
        let text = replaced(&replica.read("holdfast.toml"), &[(&listen(asked), listen(own))]);
        replica.scratch.write("holdfast.toml", text).unwrap();
        replica.port = own;
        replica.begin().await;
        let scratch = Scratch::new().unwrap();
        std::fs::create_dir(scratch.path().join("holdfast")).unwrap();
        let group = match is_root(&scratch) {
            true => "haproxy".to_owned(),
            false => Ended::of(Command::new("id").arg("-gn")).done().stdout.trim().to_owned(),
        };
        let https = free_port().unwrap();
        Self { scratch, network, replica, app: application(), https, group }
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("admin.sock")
    }

    /// The agent, from its printed file. It makes what HAProxy needs for its first start.
    async fn start_agent(&self) -> Process {
        let token = self.replica.run([
            "token", "create", "--scope", "edge", "--edge", "edge-1", "--group", "default",
            "--output", "json",
        ]);
        let token = token.done().json();
        let token = token.get("token").and_then(Value::as_str).unwrap();
        self.scratch.write("edge.token", token).unwrap();
        self.scratch.write("ca.pem", std::fs::read(self.network.root()).unwrap()).unwrap();
        let path = |name: &str| word(&self.scratch.path().join(name));
        let text = replaced(
            printed("```toml\n").next().unwrap(),
            &[
                ("https://replica1.internal:8600", self.replica.url()),
                (
                    "https://replica2.internal:8600",
                    format!("http://127.0.0.2:{}", self.replica.port),
                ),
                ("/var/lib/holdfast-agent", path("data")),
                ("127.0.0.1:8611", format!("127.0.0.1:{}", free_port().unwrap())),
                ("/run/haproxy/admin.sock", word(&self.socket())),
                ("/etc/haproxy/holdfast", path("holdfast")),
                ("127.0.0.1:443", format!("127.0.0.1:{}", self.https)),
            ],
        );
        let file = word(&self.scratch.write("agent.toml", text).unwrap());
        let agent = Process::spawn("agent", program().args(["agent", "--config", &file])).unwrap();
        agent.wait_for_line(SOON, is_ready).await.unwrap();
        agent
    }

    fn configuration(&self, printed: &str) -> String {
        let mut text = replaced(
            printed,
            &[
                ("/etc/haproxy/holdfast", word(&self.scratch.path().join("holdfast"))),
                ("/run/haproxy/admin.sock", word(&self.socket())),
                // As many files as a test may open.
                ("maxconn 20000", "maxconn 200".to_owned()),
                ("bind :80", format!("bind 127.0.0.1:{}", self.network.http)),
                ("bind :443 ", format!("bind 127.0.0.1:{} ", self.https)),
                // Of three replicas only the first is there.
                (":8600 check", format!(":{} check", self.replica.port)),
                ("127.0.0.1:3000", format!("127.0.0.1:{}", self.app)),
            ],
        );
        if !is_root(&self.scratch) {
            text = text
                .replace("    user haproxy\n    group haproxy\n", "")
                .replace("group haproxy", &format!("group {}", self.group));
        }
        text
    }

    /// HAProxy with this configuration, which it finds nothing odd in, once it has looked at who is behind it.
    async fn start_haproxy(&self, printed: &str) -> Process {
        let text = self.configuration(printed);
        let file = word(&self.scratch.write("haproxy.cfg", text).unwrap());
        let ended = Ended::of(Command::new("haproxy").args(["-c", "-f", &file])).done();
        assert!(!ended.stderr.contains("WARNING"), "{}", ended.stderr);
        let haproxy =
            Process::spawn("haproxy", Command::new("haproxy").args(["-db", "-f", &file])).unwrap();
        let wanted = [
            ("holdfast", "replica1", "UP"),
            ("holdfast", "replica2", "DOWN"),
            ("holdfast", "replica3", "DOWN"),
            ("app", "app1", "UP"),
        ];
        eventually(SOON, "HAProxy to know who is there", async || match self.ask("show stat") {
            Ok(said) if wanted.iter().all(|server| is_found(&said, server)) => Ok(()),
            Ok(said) => Err(said),
            Err(error) => Err(format!("{error}\n{}", haproxy.log())),
        })
        .await;
        haproxy
    }

    /// Says something over the Runtime API.
    fn ask(&self, command: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.write_all(format!("{command}\n").as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    fn the_socket_is_for_its_group(&self) {
        let known = Ended::of(Command::new("getent").args(["group", &self.group])).done().stdout;
        let group: u32 = known.split(':').nth(2).unwrap().parse().unwrap();
        let made = std::fs::metadata(self.socket()).unwrap();
        assert_eq!((made.gid(), made.mode() & 0o777), (group, 0o660));
    }

    /// What somebody who asks for a path of shop.test over HTTP gets at a port: body, status, and where else to go.
    fn asked(&self, port: u16, path: &str) -> String {
        let url = format!("http://127.0.0.1:{port}{path}");
        let said = Ended::of(Command::new("curl").args([
            "--silent",
            "--show-error",
            "--max-time",
            "10",
            "--header",
            "Host: shop.test",
            "--write-out",
            "\n%{http_code} %{redirect_url}",
            &url,
        ]));
        said.done().stdout
    }

    /// What the CA and the control plane ask for comes to the control plane; whatever else is sent on to HTTPS.
    fn only_what_is_asked_by_the_ca_is_not_redirected(&self) {
        for (path, status) in [
            ("/.well-known/acme-challenge/some-token", "404"),
            ("/.well-known/holdfast/0123456789abcdef", "200"),
        ] {
            let said = self.asked(self.replica.port, path);
            assert!(said.ends_with(&format!("\n{status} ")), "{said}");
            assert_eq!(self.asked(self.network.http, path), said, "{path}");
        }
        for path in
            ["/", "/cart?item=1", "/.well-known/security.txt", "/health/ready", "/v1/domains"]
        {
            let said = self.asked(self.network.http, path);
            assert_eq!(said, format!("\n301 https://shop.test{path}"));
        }
    }

    /// A visitor's look at a name over TLS; this one claims to have come in the clear.
    fn visit(&self, name: &str, trust: &[&str]) -> Ended {
        let port = self.https;
        Ended::of(
            Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "10"])
                .args(trust)
                .args(["--header", "X-Forwarded-Proto: http"])
                .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
                .arg(format!("https://{name}:{port}/cart?item=1")),
        )
    }

    /// The CA's question was let through, the agent put the certificate there, and the application hears of TLS.
    fn a_new_name_is_served(&self) {
        self.replica.run(["domain", "add", "shop.test", "--wait"]).done();
        let root = word(&self.network.root());
        let seen = self.visit("shop.test", &["--cacert", &root]).done().stdout.to_lowercase();
        assert!(seen.starts_with("get /cart?item=1 http/1.1\r\n"), "{seen}");
        let told: Vec<_> = seen.lines().filter(|line| line.starts_with("x-forwarded-")).collect();
        assert_eq!(told, ["x-forwarded-proto: https"], "{seen}");
    }

    /// Also by who would take any certificate.
    fn an_unknown_name_is_refused(&self) {
        self.visit("other.test", &["--insecure"]).refused(35, &["unrecognized name"]);
    }
}

pub(crate) fn is_root(scratch: &Scratch) -> bool {
    std::fs::metadata(scratch.path()).unwrap().uid() == 0
}

/// Did HAProxy's check find the server so? What it takes for granted before it has looked does not count.
fn is_found(statistics: &str, (backend, server, status): &(&str, &str, &str)) -> bool {
    let mut lines = statistics.lines().map(|line| line.trim_start_matches("# ").split(','));
    let names: Vec<_> = lines.next().into_iter().flatten().collect();
    let at = |name: &str| names.iter().position(|known| *known == name);
    let (Some(found), Some(checked)) = (at("status"), at("check_status")) else { return false };
    lines.map(Iterator::collect::<Vec<_>>).any(|line| {
        line.starts_with(&[*backend, *server])
            && line.get(found) == Some(status)
            && line.get(checked).is_some_and(|how| how.starts_with('L'))
    })
}

async fn works(text: &str) {
    let book = Book::open().await;
    let _agent = book.start_agent().await;
    let _haproxy = book.start_haproxy(text).await;
    book.the_socket_is_for_its_group();
    book.only_what_is_asked_by_the_ca_is_not_redirected();
    book.a_new_name_is_served();
    book.an_unknown_name_is_refused();
}

#[tokio::test]
async fn the_documented_haproxy_configuration_works() {
    works(printed("```haproxy\n").next().unwrap()).await;
}

#[tokio::test]
async fn the_documented_thread_for_commands_works() {
    let [shared, apart] = printed("```haproxy\n").collect::<Vec<_>>().try_into().unwrap();
    let mut text = shared.replace("global\n", "global\n    nbthread 2\n");
    for line in apart.lines().filter(|line| line.contains(" thread ")) {
        let (without, _) = line.split_once(" thread ").unwrap();
        assert_eq!(text.matches(&format!("{without}\n")).count(), 1, "{without}");
        text = text.replace(&format!("{without}\n"), &format!("{line}\n"));
    }
    assert_eq!(text.matches(" thread ").count(), 3);
    works(&text).await;
}

#[test]
fn the_documented_files_of_the_agent_are_such() {
    let scratch = Scratch::new().unwrap();
    for block in printed("```toml\n") {
        let lines: Vec<_> =
            block.lines().map(|line| line.strip_prefix("   ").unwrap_or(line)).collect();
        let text = lines.join("\n");
        let text = match text.contains("[agent]") {
            true => text,
            false => format!(
                "[agent]\nname = \"e\"\nserver = \"https://x\"\ntoken_file = \"edge.token\"\ndata = \"d\"\n{text}"
            ),
        };
        let file = word(
            &scratch.write("agent.toml", text.replace("/var/lib/holdfast-agent", "data")).unwrap(),
        );
        // It gets as far as the files that it names.
        Ended::of(program().args(["agent", "--config", &file]))
            .refused(2, &["edge.token cannot be read"]);
    }
}
