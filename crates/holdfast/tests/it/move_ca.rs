//! Another CA: after `[acme] directory` changed, what the old one issued is served, and moves when asked.

use holdfast_testkit::eventually;
use serde_json::Value;

use crate::{
    kit::SOON,
    replica::{Database, Network, Replica},
};

fn directories(replica: &Replica) -> Vec<String> {
    let listed = replica.run(["domain", "list", "--output", "json"]).done().json();
    let of =
        |domain: &Value| domain["certificate"]["directory"].as_str().unwrap_or_default().to_owned();
    listed["items"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn certificates_move_to_another_ca_when_asked() {
    let old = Network::start().await;
    let mut replica = Replica::start(&old, Database::Postgres, "").await;
    for number in 0..30 {
        replica.run(["domain", "add", &format!("shop-{number}.test")]).done();
    }
    let old_directory = format!("https://127.0.0.1:{}/directory", old.ca);
    let all_from = async |replica: &Replica, directory: &str| {
        eventually(SOON * 2, "all are from that CA", async || {
            let seen = directories(replica);
            let done = seen.len() == 30 && seen.iter().all(|from| from == directory);
            if done { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    };
    all_from(&replica, &old_directory).await;
    replica.end(SOON).await;

    let new = Network::start_at(old.http, old.tls).await;
    let new_directory = format!("https://127.0.0.1:{}/directory", new.ca);
    let text = replica.read("holdfast.toml").replace(&old_directory, &new_directory);
    let text = text.replace(&old.root().display().to_string(), &new.root().display().to_string());
    replica.scratch.write("holdfast.toml", text).unwrap();
    replica.begin().await;
    assert!(directories(&replica).iter().all(|from| *from == old_directory), "moved unasked");
    replica.run(["domain", "renew", "--all", "--issued-by", &old_directory]).done();
    all_from(&replica, &new_directory).await;
}
