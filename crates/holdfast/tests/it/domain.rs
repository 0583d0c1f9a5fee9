//! Domains on the command line, against a running `up`.

use std::process::Command;

use holdfast_testkit::{Scratch, eventually};
use serde_json::Value;

use crate::kit::{Ended, SOON, Up, text, word};

fn states(up: &Up, name: &str) -> Vec<String> {
    let history = up.json(["domain", "history", name]);
    let items = history.pointer("/items").and_then(Value::as_array).unwrap();
    items.iter().filter_map(|item| item.get("to")?.as_str().map(str::to_owned)).collect()
}

async fn reaches(up: &Up, name: &str, state: &str) {
    eventually(SOON, &format!("{name} in {state}"), async || {
        let domain = up.json(["domain", "show", name]);
        let seen = text(&domain, "/state").to_owned();
        if seen == state { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test]
async fn wrong_dns_is_explained_and_mends_by_itself() {
    let up = Up::start().await;
    up.run(["dev", "dns", "set", "shop.test", "NONE", "-"]).done();
    let added = up.run(["domain", "add", "shop.test", "--orchestration-id", "o-1", "--wait"]);
    added.refused(1, &["shop.test", "edge.holdfast.test"]);
    let explained = up.json(["domain", "explain", "shop.test"]);
    assert_eq!(text(&explained, "/cause"), "dns-nxdomain");
    assert_eq!(text(&explained, "/who"), "customer");
    assert!(explained.pointer("/next_attempt_at").is_some_and(Value::is_string));
    up.run(["domain", "explain", "shop.test"]).done();
    assert!(up.json(["dev", "dns", "list"]).to_string().contains("NONE"));
    up.run(["dev", "dns", "clear", "shop.test"]).done();
    reaches(&up, "shop.test", "Active").await;
    up.visit("shop.test").done();
    assert!(states(&up, "shop.test").contains(&"DnsVerificationFailed".to_owned()));
    // The same request again is judged by how it stands, not by how it once stood.
    up.run(["domain", "add", "shop.test", "--orchestration-id", "o-1", "--wait"]).done();
}

#[tokio::test]
async fn another_address_is_another_cause_and_retry_is_at_once() {
    let up = Up::start().await;
    up.run(["dev", "dns", "set", "shop.test", "CNAME", "elsewhere.test"]).done();
    up.run(["dev", "dns", "set", "elsewhere.test", "A", "192.0.2.7"]).done();
    up.run(["domain", "add", "shop.test", "--wait"]).refused(1, &["elsewhere.test"]);
    assert_eq!(text(&up.json(["domain", "explain", "shop.test"]), "/cause"), "dns-cname-elsewhere");
    up.run(["dev", "dns", "clear", "shop.test"]).done();
    up.run(["domain", "retry", "shop.test", "--wait"]).done();
    up.visit("shop.test").done();
    // Again there is nothing to do, and whoever waits is told so.
    up.run(["domain", "retry", "shop.test", "--wait"]).done();
}

#[tokio::test]
async fn removal_frees_the_name() {
    let up = Up::start().await;
    let first =
        ["domain", "add", "shop.test", "--resource", "one", "--orchestration-id", "o-1", "--wait"];
    let added = up.json(first);
    up.run(["domain", "add", "shop.test"]).refused(1, &["one"]);
    up.run(["domain", "remove", "shop.test", "--wait"]).done();
    assert_ne!(up.visit("shop.test").code, 0);
    up.run(["domain", "show", "shop.test"]).refused(1, &[]);
    up.run(first).refused(1, &["shop.test", "removed at", "a new id"]);
    // Its history outlives it, by id.
    assert!(up.run(["domain", "history", text(&added, "/id")]).done().stdout.contains("Active"));
    let again = up.json(["domain", "add", "shop.test", "--resource", "two", "--wait"]);
    assert_ne!(text(&again, "/id"), text(&added, "/id"));
    up.visit("shop.test").done();
}

#[tokio::test]
async fn a_certificate_that_is_there_is_imported_without_an_order() {
    let up = Up::start().await;
    let scratch = Scratch::new().unwrap();
    let (chain, key) = (scratch.path().join("chain.pem"), scratch.path().join("key.pem"));
    let made = Ended::of(
        Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "60",
                "-subj",
                "/CN=own.test",
                "-addext",
                "subjectAltName=DNS:own.test",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-keyout",
            ])
            .arg(&key)
            .arg("-out")
            .arg(&chain),
    );
    made.done();
    let words = [
        "domain",
        "add",
        "own.test",
        "--certificate",
        &word(&chain),
        "--key",
        &word(&key),
        "--wait",
    ];
    up.run(words).done();
    let states = states(&up, "own.test");
    assert!(!states.iter().any(|state| state.starts_with("Acme")), "{states:?}");
    let port = up.ports.https;
    let seen = Ended::of(
        Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--cacert"])
            .arg(&chain)
            .args([
                "--resolve",
                &format!("own.test:{port}:127.0.0.1"),
                &format!("https://own.test:{port}/"),
            ]),
    );
    seen.done();
    assert_eq!(
        text(&up.json(["domain", "show", "own.test"]), "/certificate/directory"),
        "imported"
    );
    // A pair that does not fit is refused before anything is made.
    up.run(["domain", "add", "other.test", "--certificate", &word(&chain), "--key", &word(&key)])
        .refused(1, &["other.test"]);
    up.run(["domain", "show", "other.test"]).refused(1, &[]);
}

#[tokio::test]
async fn a_renewal_swaps_the_certificate() {
    let up = Up::start().await;
    let first = up.json(["domain", "add", "shop.test", "--wait"]);
    let renewed = up.json(["domain", "renew", "shop.test", "--wait"]);
    assert_ne!(text(&first, "/certificate/sha256"), text(&renewed, "/certificate/sha256"));
    up.visit("shop.test").done();
    up.run(["domain", "renew", "--all", "--issued-by", "https://old.example/directory"]).done();
    let retried = up.run(["domain", "retry", "shop.test"]).done().stdout;
    assert!(retried.contains("nothing to try again"), "{retried}");
}

#[tokio::test]
async fn the_same_request_again_is_the_same_domain() {
    let up = Up::start().await;
    let words = [
        "domain",
        "add",
        "shop.test",
        "--tenant",
        "t",
        "--label",
        "a=b",
        "--orchestration-id",
        "o-1",
    ];
    let (first, again) = (up.json(words), up.json(words));
    assert_eq!(text(&first, "/id"), text(&again, "/id"));
    assert_eq!(text(&first, "/labels/a"), "b");
    up.run(["domain", "add", "shop.test", "--tenant", "u", "--orchestration-id", "o-1"])
        .refused(1, &["o-1"]);
    up.run(["domain", "add", "shop.test", "--orchestration-id", "o-2"]).refused(1, &["in use"]);
}

#[tokio::test]
async fn bad_input_is_refused_in_the_servers_words() {
    let up = Up::start().await;
    let names = [
        "*.shop.test",
        "localhost",
        "127.0.0.1",
        "a..b.test",
        "co.uk",
        "edge.holdfast.test",
        "x.edge.holdfast.test",
        "a b.test",
        "https://shop.test/",
        "",
        "[::1]",
    ];
    for name in names {
        let ended = up.run(["domain", "add", name]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (1, 1), "{name}: {ended:?}");
    }
    for words in [
        ["domain", "show"],
        ["domain", "explain"],
        ["domain", "history"],
        ["domain", "retry"],
        ["domain", "renew"],
        ["domain", "remove"],
    ] {
        let [noun, verb] = words;
        up.run([noun, verb, "nobody.test"]).refused(1, &[]);
        up.run([noun, verb, "../tokens"]).refused(1, &[]);
        up.run([noun, verb, "0190b5e0-7e1c-7000-8000-000000000000"]).refused(1, &[]);
    }
    up.run(["domain", "list", "--state", "Happy"]).refused(2, &["Happy", "DnsVerifying"]);
    up.run(["domain", "add", "*.test"]).refused(1, &["wildcards are not supported", "by itself"]);
    up.run(["dev", "dns", "set", "shop.test", "MX", "x"]).refused(1, &[]);
    up.run(["dev", "fault", "set", "earthquake", "1"]).refused(1, &["earthquake"]);
}

#[tokio::test]
async fn lists_and_faults_are_shown() {
    let up = Up::start().await;
    up.run(["domain", "add", "shop.test", "--tenant", "acme", "--wait"]).done();
    up.run(["domain", "add", "blog.test", "--wait"]).done();
    let list = up.run(["domain", "list"]).done().stdout;
    assert!(
        list.starts_with("NAME") && list.contains("shop.test") && list.contains("blog.test"),
        "{list}"
    );
    assert!(!list.contains('\u{1b}'), "colours without a terminal");
    let tenant = up.json(["domain", "list", "--tenant", "acme"]);
    assert_eq!(tenant.pointer("/items").and_then(Value::as_array).map(Vec::len), Some(1));
    let none = up.json(["domain", "list", "--q", "zzz"]);
    assert_eq!(none.pointer("/items").and_then(Value::as_array).map(Vec::len), Some(0));
    assert!(up.run(["edge", "list"]).done().stdout.contains("yes"));
    assert!(up.run(["domain", "show", "shop.test"]).done().stdout.contains("Active"));
    up.run(["dev", "fault", "set", "reject-identifier", "bad.test"]).done();
    assert!(up.run(["dev", "fault", "list"]).done().stdout.contains("bad.test"));
    up.run(["domain", "add", "bad.test", "--wait"]).refused(1, &["bad.test"]);
    assert_eq!(
        text(&up.json(["domain", "explain", "bad.test"]), "/cause"),
        "acme-rejected-identifier"
    );
    up.run(["dev", "fault", "clear"]).done();
    up.run(["domain", "retry", "bad.test", "--wait"]).done();
}
