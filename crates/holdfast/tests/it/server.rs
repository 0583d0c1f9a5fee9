//! `holdfast server`: roles, start, end, and what it refuses to start with.

use std::{process::Command, time::Duration};

use holdfast_testkit::{Pki, Postgres, Process, Scratch, eventually, free_port};

use crate::{
    kit::{Ended, SOON, is_ready, program, text, word},
    replica::{Database, Network, Replica},
};

#[tokio::test]
async fn a_domain_becomes_active_on_both_databases() {
    for database in [Database::Sqlite, Database::Postgres] {
        let network = Network::start().await;
        let mut replica = Replica::start(&network, database, "").await;
        replica.run(["domain", "add", "shop.test", "--wait"]).done();
        replica.end(SOON).await;
        replica.begin().await;
        assert!(replica.run(["domain", "list"]).done().stdout.contains("Active"));
    }
}

#[tokio::test]
async fn one_replica_asks_and_another_works() {
    let network = Network::start().await;
    // Both have one configuration file, but for the address.
    let mut api = Replica::prepare(&network, Database::Postgres, "").await;
    api.begin().await;
    api.end(SOON).await;
    let mut asking = api.command();
    asking.args(["--role", "api"]);
    let asking = Process::spawn("api", &asking).unwrap();
    asking.wait_for_line(SOON, is_ready).await.unwrap();
    api.run(["domain", "add", "shop.test"]).done();
    let mut working = api.command();
    working
        .args(["--role", "worker"])
        .env("HOLDFAST__SERVER__LISTEN", format!("127.0.0.1:{}", free_port().unwrap()));
    let working = Process::spawn("worker", &working).unwrap();
    working.wait_for_line(SOON, is_ready).await.unwrap();
    eventually(SOON, "Active", async || {
        let shown = api.run(["domain", "show", "shop.test"]).done().stdout;
        if shown.contains("Active") { Ok(()) } else { Err(shown) }
    })
    .await;
}

#[tokio::test]
async fn many_that_start_at_once_agree_on_key_token_and_schema() {
    let network = Network::start().await;
    let first = Replica::prepare(&network, Database::Postgres, "").await;
    let start = |at: usize| {
        let mut command = first.command();
        if at > 0 {
            let listen = format!("127.0.0.1:{}", free_port().unwrap());
            command.env("HOLDFAST__SERVER__LISTEN", listen);
        }
        Process::spawn("replica", &command).unwrap()
    };
    let replicas: Vec<_> = (0..5).map(start).collect();
    for replica in &replicas {
        replica.wait_for_line(SOON, is_ready).await.unwrap();
    }
    first.run(["domain", "add", "shop.test", "--wait"]).done();
    let tokens = first.run(["token", "list", "--output", "json"]).done().json();
    assert_eq!(
        tokens.pointer("/items").and_then(serde_json::Value::as_array).map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn the_built_in_edge_serves_in_server_mode() {
    let network = Network::start().await;
    let api = free_port().unwrap();
    let extra = format!(
        "[edge]\nmode = \"builtin\"\nhttp = \"127.0.0.1:{}\"\nhttps = \"127.0.0.1:{}\"\nredirect_port = 443",
        network.http, network.tls
    );
    let mut replica = Replica::prepare(&network, Database::Sqlite, &extra).await;
    let text = replica.read("holdfast.toml").replacen(
        &format!("listen = \"127.0.0.1:{}\"", network.http),
        &format!("listen = \"127.0.0.1:{api}\""),
        1,
    );
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.port = api;
    replica.begin().await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let (name, port) = ("shop.test", network.tls);
    let seen = Ended::of(Command::new("curl").args([
        "--silent",
        "--show-error",
        "--fail",
        "--cacert",
        &word(&network.root()),
        "--resolve",
        &format!("{name}:{port}:127.0.0.1"),
        &format!("https://{name}:{port}/"),
    ]));
    assert!(seen.done().stdout.contains(name));
    let resolve = format!("{name}:{}:127.0.0.1", network.http);
    let url = format!("http://{name}:{}/x?y", network.http);
    let led = ["--silent", "--write-out", "%{redirect_url}", "--output", "/dev/null"];
    let led = Ended::of(Command::new("curl").args(led).args(["--resolve", &resolve, &url]));
    assert_eq!(led.done().stdout, "https://shop.test/x?y");
}

#[tokio::test]
async fn it_drains_and_ends_in_order() {
    let network = Network::start().await;
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let text = replica.read("holdfast.toml").replace("drain_seconds = 0", "drain_seconds = 2");
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    let ready = |expected: &str| {
        let url = format!("{}/health/ready", replica.url());
        let ended = Ended::of(Command::new("curl").args([
            "--silent",
            "--write-out",
            "%{http_code}",
            "--output",
            "/dev/null",
            &url,
        ]));
        if ended.stdout == expected { Ok(()) } else { Err(ended.stdout) }
    };
    eventually(SOON, "ready", async || ready("200")).await;
    let (ended, ()) = tokio::join!(replica.process().terminate(SOON), async {
        eventually(SOON, "not ready while it still serves", async || ready("503")).await;
    });
    assert!(ended.unwrap().success());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let network = Network::start().await;
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let text = replica.read("holdfast.toml").replace("drain_seconds = 0", "drain_seconds = 3600");
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    let pid = replica.process().pid().to_string();
    let signal = || Ended::of(Command::new("kill").args(["-INT", &pid])).done();
    signal();
    replica.process().wait_for_line(SOON, |line| line.contains("asked to end")).await.unwrap();
    signal();
    let status = replica.process().wait(Duration::from_secs(5)).await.unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told_soon() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let absent = format!("postgres://holdfast:s3cr3t@127.0.0.1:{}/holdfast", free_port().unwrap());
    let mut command = replica.command();
    let began = tokio::time::Instant::now();
    let ended = Ended::of(command.env("HOLDFAST__DATABASE__URL", absent));
    assert!(began.elapsed() < Duration::from_secs(20));
    let ended = ended.refused(3, &["database"]);
    assert!(!ended.stderr.contains("s3cr3t"), "{ended:?}");
}

/// The status and the body of a path of health.
fn health(port: u16, path: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "5", "--write-out", " %{http_code}"]);
    Ended::of(curl.arg(format!("http://127.0.0.1:{port}/health/{path}"))).stdout
}

#[tokio::test]
async fn a_lock_on_the_schema_is_waited_for_aloud() {
    let network = Network::start().await;
    let url = Postgres::shared().await.unwrap().database().await.unwrap();
    let mut psql = Command::new("psql");
    let hold =
        "SELECT pg_advisory_lock(x'686f6c6466617374'::bigint); SELECT 'held'; SELECT pg_sleep(600)";
    psql.args([&*url, "--no-psqlrc", "--command", "SET application_name = 'somebody'"]);
    for statement in hold.split("; ") {
        psql.args(["--command", statement]);
    }
    let holder = Process::spawn("holder", &psql).unwrap();
    holder.wait_for_line(SOON, |line| line.contains("held")).await.unwrap();
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let mut command = replica.command();
    let started = Process::spawn("replica", command.env("HOLDFAST__DATABASE__URL", &url)).unwrap();
    let tells = |line: &str| line.contains("migrates the schema") && line.contains("somebody");
    started.wait_for_line(SOON, tells).await.unwrap();
    assert!(health(replica.port, "live").ends_with(" 200"));
    for path in ["ready", "startup"] {
        let told = health(replica.port, path);
        assert!(told.ends_with(" 503") && told.contains("application somebody"), "{told}");
    }
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'somebody'";
    Ended::of(Command::new("psql").args([&*url, "--no-psqlrc", "--command", end])).done();
    started.wait_for_line(SOON, is_ready).await.unwrap();
    assert!(health(replica.port, "ready").ends_with(" 200"));
}

#[tokio::test]
async fn one_process_per_sqlite_file() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let mut second = replica.command();
    second.env("HOLDFAST__SERVER__LISTEN", format!("127.0.0.1:{}", free_port().unwrap()));
    Ended::of(&mut second).refused(1, &["holdfast.db", "in use"]);
    let taken = Replica::prepare(&network, Database::Sqlite, "").await;
    Ended::of(&mut taken.command())
        .refused(1, &["The API cannot listen", &network.http.to_string()]);
}

#[tokio::test]
async fn without_a_way_to_hand_over_the_admin_token_it_does_not_start() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let text = replica.read("holdfast.toml").replace("admin_token_file = \"admin.token\"", "");
    replica.scratch.write("holdfast.toml", text).unwrap();
    Ended::of(&mut replica.command()).refused(2, &["admin_token_file"]);
    replica
        .scratch
        .write(
            "holdfast.toml",
            replica
                .read("holdfast.toml")
                .replace("[security]", "[security]\nadmin_token = \"correct-horse-battery\""),
        )
        .unwrap();
    let process = Process::spawn("replica", &replica.command()).unwrap();
    process.wait_for_line(SOON, is_ready).await.unwrap();
    Ended::of(program().args([
        "domain",
        "list",
        "--server",
        &replica.url(),
        "--token",
        "correct-horse-battery",
    ]))
    .done();
    assert!(!process.log().contains("correct-horse-battery"));
}

#[tokio::test]
async fn what_a_key_names_must_be_there() {
    let network = Network::start().await;
    let scratch = Scratch::new().unwrap();
    let bad = scratch.write("bad.pem", "no certificate").unwrap();
    let cases = [
        ("acme", "ROOT_CERTIFICATE", "/nonexistent.pem", "acme.root_certificate"),
        ("acme", "ROOT_CERTIFICATE", &word(&bad), "acme"),
        ("security", "ADMIN_TOKEN_FILE", &word(&bad), "admin_token_file"),
        ("security", "MASTER_KEY_FILE", &word(&bad), "master key"),
    ];
    for (section, key, value, says) in cases {
        let replica = Replica::prepare(&network, Database::Sqlite, "").await;
        let variable = format!("HOLDFAST__{}__{key}", section.to_ascii_uppercase());
        Ended::of(replica.command().env(variable, value)).refused(2, &[says]);
    }
}

#[tokio::test]
async fn logs_can_be_json() {
    let network = Network::start().await;
    let replica =
        Replica::start(&network, Database::Sqlite, "[log]\nformat = \"json\"\nlevel = \"debug\"")
            .await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let log = replica.process().log();
    for line in log.lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "{line}");
    }
    let (token, key) = (replica.read("admin.token"), replica.read("master.key"));
    assert!(
        !log.contains(token.trim()) && !log.contains(key.trim()) && !log.contains("PRIVATE KEY")
    );
}

#[tokio::test]
async fn the_api_speaks_tls_to_who_trusts_it() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let pki = Pki::new().unwrap();
    let root = replica.scratch.write("root.pem", &pki.root_pem).unwrap();
    replica.scratch.write("chain.pem", &pki.chain_pem).unwrap();
    replica.scratch.write("key.pem", &pki.key_pem).unwrap();
    let tls = "[server]\ntls_certificate = \"chain.pem\"\ntls_key = \"key.pem\"";
    let text = replica.read("holdfast.toml").replacen("[server]", tls, 1);
    replica.scratch.write("holdfast.toml", text).unwrap();
    let process = Process::spawn("replica", &replica.command()).unwrap();
    process.wait_for_line(SOON, is_ready).await.unwrap();
    let (url, token) = (format!("https://127.0.0.1:{}", replica.port), replica.read("admin.token"));
    let list = |root: &[&str]| {
        let words = ["domain", "list", "--server", &url, "--token", token.trim()];
        Ended::of(program().args(words).args(root))
    };
    list(&["--root-certificate", &word(&root)]).done();
    list(&[]).refused(3, &[&url, "ertificate"]);
    replica.with_config(["doctor"]).done();
    // A key that belongs to another certificate.
    replica.scratch.write("key.pem", Pki::new().unwrap().key_pem).unwrap();
    replica.with_config(["doctor"]).refused(1, &["wrong"]);
    let mut second = replica.command();
    second
        .env("HOLDFAST__DATABASE__URL", "sqlite:other.db")
        .env("HOLDFAST__SECURITY__MASTER_KEY_FILE", "other.key");
    second.env("HOLDFAST__SERVER__LISTEN", format!("127.0.0.1:{}", free_port().unwrap()));
    Ended::of(&mut second).refused(1, &["server.tls_certificate"]);
}

#[tokio::test]
async fn a_replica_is_known_by_the_name_of_its_pod() {
    let network = Network::start().await;
    let replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let mut command = replica.command();
    command.env("POD_NAME", "holdfast-7");
    let process = Process::spawn("replica", &command).unwrap();
    process.wait_for_line(SOON, is_ready).await.unwrap();
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    let history = replica.run(["domain", "history", "shop.test", "--output", "json"]).done().json();
    assert_eq!(text(&history, "/items/1/instance"), "holdfast-7");
}
