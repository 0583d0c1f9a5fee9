//! Tokens: made, used, revoked; over the API and straight on the database.

use serde_json::Value;

use crate::{
    kit::{Ended, Up, program, text, word},
    replica::{Database, Network, Replica},
};

#[tokio::test]
async fn a_token_may_do_what_its_scope_says_until_it_is_revoked() {
    let up = Up::start().await;
    let made = up.json(["token", "create", "--scope", "read", "--name", "dashboard"]);
    let (id, token) = (text(&made, "/id").to_owned(), text(&made, "/token").to_owned());
    let as_reader = |words: &[&str]| {
        Ended::of(program().args(words).args(["--token", &token, "--data", &word(&up.data())]))
    };
    as_reader(&["domain", "list"]).done();
    as_reader(&["domain", "add", "shop.test"]).refused(1, &["read"]);
    as_reader(&["token", "list"]).refused(1, &["read"]);
    let list = up.run(["token", "list"]).done().stdout;
    assert!(list.contains("dashboard") && !list.contains(&token), "{list}");
    up.run(["token", "revoke", &id]).done();
    as_reader(&["domain", "list"]).refused(1, &["revoked"]);
    up.run(["token", "revoke", "nonsense"]).refused(1, &["token list"]);
    let edge = up.json(["token", "create", "--scope", "edge", "--edge", "e1", "--group", "g"]);
    assert_eq!((text(&edge, "/edge"), text(&edge, "/group")), ("e1", "g"));
    up.run(["token", "create", "--scope", "read", "--edge", "e1"]).refused(1, &["edge"]);
}

#[tokio::test]
async fn who_lost_the_last_admin_token_makes_one_on_the_database() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "").await;
    let config = word(&replica.config());
    let create =
        || {
            Ended::of(program().args([
                "token", "create", "--scope", "admin", "--config", &config, "--output", "json",
            ]))
            .done()
            .json()
        };
    let made = create();
    let list = |token: &str| {
        Ended::of(program().args([
            "token",
            "list",
            "--server",
            &replica.url(),
            "--output",
            "json",
            "--token",
            token,
        ]))
    };
    let items = list(text(&made, "/token")).done().json();
    assert!(
        items.pointer("/items").and_then(Value::as_array).is_some_and(|items| items.len() >= 2)
    );
    let ended =
        Ended::of(program().args(["token", "revoke", text(&made, "/id"), "--config", &config]));
    ended.done();
    list(text(&made, "/token")).refused(1, &["revoked"]);
    let listed = Ended::of(program().args(["token", "list", "--config", &config])).done();
    assert!(listed.stdout.contains(text(&made, "/id")), "{listed:?}");
    Ended::of(
        program().args(["token", "create", "--scope", "read", "--edge", "e", "--config", &config]),
    )
    .refused(2, &["--edge"]);
    Ended::of(program().args(["token", "revoke", "nonsense", "--config", &config]))
        .refused(1, &["token list"]);
}
