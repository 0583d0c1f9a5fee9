//! `holdfast edge …` against a real control plane; the edge is a few requests.

use std::process::Command;

use holdfast_testkit::{Process, Scratch, eventually};
use http::Method;
use serde_json::{Value, json};

use crate::{
    cluster::group::Group,
    kit::{Ended, SOON, is_ready, program, word},
    replica::{Database, Network, Replica},
};

pub(crate) fn token(replica: &Replica, edge: &str) -> String {
    let made = replica.run([
        "token", "create", "--scope", "edge", "--edge", edge, "--group", "eu", "--output", "json",
    ]);
    made.done().json()["token"].as_str().unwrap().to_owned()
}

/// What an agent would say.
pub(crate) fn say(
    replica: &Replica,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> String {
    let url = format!("{}/v1/edges/{path}", replica.url());
    let bearer = format!("Authorization: Bearer {token}");
    let asked = Ended::of(Command::new("curl").args([
        "--silent",
        "--write-out",
        " %{http_code}",
        "--request",
        method,
        "--header",
        &bearer,
        "--header",
        "Content-Type: application/json",
        "--data",
        &body.to_string(),
        &url,
    ]));
    asked.stdout
}

#[tokio::test]
async fn an_edge_that_is_gone_for_good_is_removed() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "[edge]\nmode = \"agents\"").await;
    let token = token(&replica, "fra-1");
    let registered = say(&replica, &token, "PUT", "fra-1", &json!({}));
    assert!(registered.ends_with(" 200"), "{registered}");
    let error = json!({"code": "edge-disk", "detail": "No space left on device"});
    let report = json!({"up_to": "0.0", "error": error});
    let reported = say(&replica, &token, "POST", "fra-1/report", &report);
    assert!(reported.ends_with(" 204"), "{reported}");

    let listed = replica.run(["edge", "list"]).done().stdout;
    for word in ["NAME", "fra-1", "eu", "yes", " ago", "0.0", "No space left on device"] {
        assert!(listed.contains(word), "no `{word}` in: {listed}");
    }
    replica.run(["edge", "remove", "fra-1"]).refused(2, &["fra-1", "--yes"]);
    replica.run(["edge", "remove", "nyc-1", "--yes"]).refused(1, &["nyc-1", "edge list"]);
    let removed = replica.run(["edge", "remove", "fra-1", "--yes"]).done().stdout;
    assert!(
        removed.contains("fra-1 of group eu is forgotten. Its token works no more"),
        "{removed}"
    );
    assert!(!replica.run(["edge", "list"]).done().stdout.contains("fra-1"));
    replica.run(["edge", "remove", "fra-1", "--yes"]).refused(1, &["There is no edge"]);
    let refused = say(&replica, &token, "PUT", "fra-1", &json!({}));
    assert!(refused.ends_with(" 401") && refused.contains("revoked"), "{refused}");

    let token = self::token(&replica, "fra-1");
    let back = say(&replica, &token, "PUT", "fra-1", &json!({}));
    assert!(back.ends_with(" 200") && back.contains("\"0.0\""), "{back}");
    let json = replica.run(["edge", "remove", "fra-1", "--yes", "--output", "json"]).done().json();
    assert_eq!(json, json!({"name": "fra-1", "group": "eu", "tokens": ["fra-1"]}));
}

/// What an edge tells of a restored database is shown until it is mended, also beyond what was told by name.
#[tokio::test]
async fn what_an_edge_and_a_restored_database_disagree_on_is_shown() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "[edge]\nmode = \"agents\"").await;
    let token = token(&replica, "fra-1");
    say(&replica, &token, "PUT", "fra-1", &json!({}));
    let tell = |unknown: Value| {
        let absent = json!({"count": 0, "names": []});
        let told = json!({"unknown": unknown, "absent": absent});
        let taken = say(&replica, &token, "PUT", "fra-1/difference", &told);
        assert!(taken.ends_with(" 204"), "{taken}");
        replica.run(["edge", "show", "fra-1"]).done().stdout
    };
    let shown = tell(json!({"count": 3, "names": ["lost.test"]}));
    for words in
        ["UNKNOWN SINCE THE RESTORE", "lost.test", "and 2 more", "holdfast domain add NAME"]
    {
        assert!(shown.contains(words), "no `{words}` in: {shown}");
    }
    assert!(!shown.contains("NOT SERVED BEFORE"), "{shown}");
    let shown = tell(json!({"count": 500, "names": []}));
    assert!(shown.contains("and 500 more"), "{shown}");
    let shown = tell(json!({"count": 0, "names": []}));
    assert!(!shown.contains("UNKNOWN"), "{shown}");
}

/// An agent that knows one replica alone.
async fn agent(group: &Group, at: usize, edge: &str, files: &Scratch) -> Process {
    let made = group.run(
        0,
        [
            "token", "create", "--scope", "edge", "--edge", edge, "--group", "default", "--output",
            "json",
        ],
    );
    files.write("edge.token", made.done().json()["token"].as_str().unwrap()).unwrap();
    std::fs::create_dir_all(files.path().join("certs")).unwrap();
    let config = format!(
        "[agent]\nname = \"{edge}\"\nserver = \"http://127.0.0.1:{}\"\ntoken_file = \"edge.token\"\ndata = \"data\"\n\
         [files]\ndirectory = \"certs\"\nreload = [\"true\"]\n",
        group.members[at].port
    );
    let config = word(&files.write("agent.toml", config).unwrap());
    let agent = Process::spawn("agent", program().args(["agent", "--config", &config])).unwrap();
    agent.wait_for_line(SOON, is_ready).await.unwrap();
    agent
}

/// Where the leader alone takes writes, an agent that knows nobody but a follower is heard all the same.
#[tokio::test]
async fn an_agent_beside_a_follower_is_heard() {
    let mut group = Group::start(2, 30, "[edge]\nmode = \"agents\"").await;
    for writes in ["forward", "reject"] {
        group.writes = Some(writes);
        group.end(1).await;
        group.begin(1).await;
        assert_eq!(group.leader(1).await, "r0");
        if writes == "reject" {
            let add = json!({"name": "shop.example.com"});
            let (status, _) = group.ask(1, Method::POST, "/v1/domains", Some(&add)).await.unwrap();
            assert_eq!(status.as_u16(), 421, "a follower that takes no writes");
        }
        let (edge, files) = (format!("beside-{writes}"), Scratch::new().unwrap());
        let _agent = agent(&group, 1, &edge, &files).await;
        eventually(SOON * 2, "its report", async || {
            let edges = group.items(0, "/v1/edges").await?;
            let own = edges.iter().find(|one| one["name"] == edge.as_str());
            // Registered, and heard since: a revision is in a report alone.
            match own {
                Some(own) if own["live"] == true && own["revision"] == "1.0" => Ok(()),
                _ => Err(format!("{edges:?}")),
            }
        })
        .await;
    }
}
