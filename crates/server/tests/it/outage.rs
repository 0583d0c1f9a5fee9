//! A database that cannot be used: everything that people and machines ask says so, and why; and work goes on by itself afterwards.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::body::Body;
use holdfast_engine::Pulse;
use holdfast_testkit::{Scratch, eventually};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::kit::{Answer, Kit};

const SOON: Duration = Duration::from_secs(60);

/// Another process that keeps the write lock of a database.
struct Locker(Child);

impl Locker {
    async fn start(file: &Path) -> Self {
        let mut child = Command::new("sqlite3")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.as_mut().unwrap();
        stdin.write_all(b".timeout 20000\nBEGIN EXCLUSIVE;\n.shell touch ").unwrap();
        let sign = file.with_extension("locked");
        writeln!(stdin, "{}", sign.display()).unwrap();
        eventually(SOON, "the lock of another process", async || {
            sign.exists().then_some(()).ok_or("no sign of it yet")
        })
        .await;
        Self(child)
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

async fn ask(kit: &Kit, path: &str) -> Answer {
    kit.send(Request::get(path).body(Body::empty()).unwrap()).await
}

/// Readiness with this status.
async fn ready(kit: &Kit, status: u16) -> Value {
    eventually(SOON, "readiness", async || {
        let answer = ask(kit, "/health/ready").await;
        if answer.status == status { Ok(answer.json()) } else { Err(answer.text()) }
    })
    .await
}

/// Everything that is asked tells this cause.
async fn all_tell(kit: &Kit, cause: &str) {
    let told = ready(kit, 503).await;
    assert_eq!(told["results"]["database"]["data"]["cause"], cause, "{told}");
    let health = ask(kit, "/health").await.expect(503);
    assert_eq!(health["results"]["database"]["data"]["cause"], cause, "{health}");
    assert_eq!(health["results"]["engine"]["status"], "Unhealthy", "{health}");
    let alerts = kit.get("/v1/alerts").await.expect(200);
    let alert = &alerts["items"][0];
    assert_eq!(
        (&alert["code"], &alert["subject"]),
        (&json!("database-unavailable"), &json!(cause))
    );
    let metrics = ask(kit, "/metrics").await.text();
    let line = format!("holdfast_store_outage{{cause=\"{cause}\"}} 1");
    assert!(metrics.contains(&line), "{metrics}");
}

async fn explained(kit: &Kit) -> Value {
    kit.get("/v1/domains/shop.example.com/explain").await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_process_is_told_everywhere_and_ends_by_itself() {
    let kit = Kit::with(|settings| settings.pulse = Some(Pulse::default())).await;
    kit.add("shop.example.com").await;
    ready(&kit, 200).await;
    let locker = Locker::start(&kit.scratch.path().join("holdfast.db")).await;
    all_tell(&kit, "database-locked").await;
    let named = format!("a lock of process {} (sqlite3)", locker.0.id());
    let told = ready(&kit, 503).await["results"]["database"]["description"].to_string();
    assert!(told.contains(&named), "{told}");
    let told = kit.get("/v1/alerts").await.expect(200)["items"][0]["detail"].to_string();
    assert!(told.contains(&named), "{told}");
    let why = explained(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("database-locked"), &json!("operator")));
    let body = json!({ "name": "new.example.com" });
    let refused = kit.json(Method::POST, "/v1/domains", &body).await;
    assert_eq!(refused.problem(503, "database-unavailable")["cause"], "database-locked");
    drop(locker);
    ready(&kit, 200).await;
    kit.add("new.example.com").await;
    assert_eq!(kit.get("/v1/alerts").await.expect(200)["items"], json!([]));
    assert_ne!(explained(&kit).await["cause"], "database-locked");
}

/// Overwrites the first page of a table.
#[expect(clippy::disallowed_methods, reason = "damage, which needs no crash point")]
fn damage(file: &Path, table: &str) {
    let sql = format!("SELECT rootpage FROM sqlite_master WHERE name = '{table}'");
    let found = Command::new("sqlite3").arg(file).arg(sql).output().unwrap();
    let page: usize = String::from_utf8(found.stdout).unwrap().trim().parse().unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xff);
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_is_told_once_it_was_met_and_does_not_heal() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.path().join("holdfast.db");
    holdfast_store::migrate(&format!("sqlite:{}", file.display())).await.unwrap();
    damage(&file, "webhook");
    let kit = Kit::in_directory(scratch, |settings| settings.pulse = Some(Pulse::default())).await;
    let refused = kit.get("/v1/webhooks").await;
    let problem = refused.problem(503, "database-unavailable");
    assert_eq!(problem["cause"], "database-corrupt");
    assert!(problem["detail"].as_str().unwrap().contains("restore a backup"), "{problem}");
    assert!(!refused.headers.contains_key("retry-after"));
    all_tell(&kit, "database-corrupt").await;
}
