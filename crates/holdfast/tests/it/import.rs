//! `holdfast import`: existing certificates come in as they are, again and again, and no order is sent.

use std::{path::Path, process::Command, time::Instant};

use holdfast_testkit::{Pki, Process, Scratch, eventually};
use serde_json::{Value, json};

use crate::{
    kit::{Ended, SOON, word},
    replica::{Database, Network, Replica},
};

/// A PEM file as HAProxy has it.
pub(crate) fn bundle(pki: &Pki) -> String {
    format!("{}{}{}", pki.chain_pem, pki.root_pem, pki.key_pem)
}

fn write(scratch: &Scratch, file: &str, names: &[&str]) -> Pki {
    let pki = Pki::of(names).unwrap();
    scratch.write(file, bundle(&pki)).unwrap();
    pki
}

pub(crate) fn import(replica: &Replica, kind: &str, path: &Path, more: &[&str]) -> Ended {
    let token = replica.read("admin.token");
    let mut command = crate::kit::program();
    command.args(["import", "--from", kind, &word(path)]).args(more);
    Ended::of(command.args(["--server", &replica.url(), "--token", token.trim()]))
}

/// How many orders the CA has seen.
pub(crate) fn orders(network: &Network) -> usize {
    let url = format!("https://127.0.0.1:{}/dev/orders", network.ca);
    let root = word(&network.root());
    let asked =
        Ended::of(Command::new("curl").args(["--silent", "--fail", "--cacert", &root, &url]));
    let answer = asked.done().json();
    answer["items"].as_array().or_else(|| answer.as_array()).expect("a list of orders").len()
}

/// How many are Active, by the counts: listing thousands again and again would take the time that they need.
fn active(replica: &Replica) -> usize {
    let url = format!("{}/metrics", replica.url());
    let text = Ended::of(Command::new("curl").args(["--silent", "--fail", &url])).done().stdout;
    let count =
        text.lines().find_map(|line| line.strip_prefix("holdfast_domains{state=\"Active\"} "));
    count.expect("a count of Active domains").trim().parse().unwrap()
}

/// Waits as long as there are more and more of them.
async fn all_active(replica: &Replica, count: usize) {
    let mut seen = active(replica);
    while seen < count {
        seen = eventually(SOON * 4, "more to be Active", async || {
            let now = active(replica);
            if now > seen { Ok(now) } else { Err(format!("{now} of {count}")) }
        })
        .await;
    }
    assert_eq!(seen, count);
}

#[tokio::test]
async fn a_crt_list_comes_in_and_repeating_it_changes_nothing() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let files = Scratch::new().unwrap();
    write(&files, "shop.pem", &["shop.test", "www.shop.test", "*.shop.test"]);
    write(&files, "two.pem", &["a.two.test", "b.two.test"]);
    write(&files, "dummy.pem", &["dummy.test"]);
    write(&files, "again.pem", &["shop.test"]);
    let apart = Pki::of(&["apart.test"]).unwrap();
    files.write("apart.pem", &apart.chain_pem).unwrap();
    files.write("apart.pem.key", &apart.key_pem).unwrap();
    files.write("keyless.pem", &apart.chain_pem).unwrap();
    std::fs::create_dir(files.path().join("dir")).unwrap();
    write(&files, "dir/below.pem", &["below.test"]);
    let list = "# ours\ndummy.pem !*\nshop.pem [alpn h2] shop.test www.shop.test other.test\n\
        two.pem !b.two.test\napart.pem\nkeyless.pem\nagain.pem\ndir\nmissing.pem\n";
    let list = files.write("list.txt", list).unwrap();

    let dry = import(&replica, "haproxy-crt-list", &list, &["--dry-run"]);
    assert!(dry.stdout.contains("would be imported"), "{dry:?}");
    assert_eq!(
        replica.run(["domain", "list", "--output", "json"]).done().json()["items"],
        json!([])
    );

    let first = import(&replica, "haproxy-crt-list", &list, &["--tenant", "acme"]);
    let first = first.refused(
        1,
        &[
            "shop.pem other.test: invalid-certificate",
            "keyless.pem: holds no private key",
            "missing.pem: cannot be read",
            "3 were refused",
        ],
    );
    assert!(first.stdout.contains("5      imported"), "{first:?}");
    all_active(&replica, 5).await;
    let shown = replica.run(["domain", "show", "shop.test", "--output", "json"]).done().json();
    assert_eq!(
        (&shown["tenant"], &shown["certificate"]["directory"]),
        (&json!("acme"), &json!("imported"))
    );

    let again =
        import(&replica, "haproxy-crt-list", &list, &["--tenant", "acme", "--output", "json"]);
    assert_eq!(again.code, 1);
    let summary: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&summary["created"], &summary["present"]), (&json!(0), &json!(5)));
    assert_eq!(summary["skipped"].as_array().unwrap().len(), 2, "{summary}");
    assert_eq!(orders(&network), 0);
}

#[tokio::test]
async fn a_directory_and_a_csv_come_in() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let files = Scratch::new().unwrap();
    std::fs::create_dir_all(files.path().join("pems/live.test")).unwrap();
    write(&files, "pems/one.pem", &["one.test"]);
    let live = Pki::of(&["live.test"]).unwrap();
    files.write("pems/live.test/fullchain.pem", &live.chain_pem).unwrap();
    files.write("pems/live.test/privkey.pem", &live.key_pem).unwrap();
    files.write("pems/one.pem.ocsp", [0x30, 0x03]).unwrap();
    let directory = files.path().join("pems");
    import(&replica, "pem-dir", &directory, &[]).done();

    let three = Pki::of(&["three.test"]).unwrap();
    files.write("three.crt", &three.chain_pem).unwrap();
    files.write("three.key", &three.key_pem).unwrap();
    let csv = "name,chain_file,key_file,tenant,resource,labels\n\
        three.test,three.crt,three.key,acme,r-3,plan=gold;region=eu\n";
    let csv = files.write("domains.csv", csv).unwrap();
    import(&replica, "csv", &csv, &[]).done();
    all_active(&replica, 3).await;
    let shown = replica.run(["domain", "show", "three.test", "--output", "json"]).done().json();
    assert_eq!((&shown["resource"], &shown["labels"]["plan"]), (&json!("r-3"), &json!("gold")));

    let wrong = files.write("wrong.csv", "domain,file\n").unwrap();
    import(&replica, "csv", &wrong, &[]).refused(2, &["`domain`", "chain_file"]);
    import(&replica, "pem-dir", &files.path().join("none"), &[])
        .refused(2, &["none", "cannot be read"]);
    assert_eq!(orders(&network), 0);
}

#[tokio::test]
async fn an_existing_account_is_used_from_the_first_order_on() {
    let network = Network::start().await;
    let mut replica = Replica::prepare(&network, Database::Sqlite, "").await;
    let files = Scratch::new().unwrap();
    let key = |name: &str, text: &str| word(&files.write(name, text).unwrap());
    let own = key("account.pem", &Pki::new().unwrap().key_pem);
    let other = key("other.pem", &Pki::new().unwrap().key_pem);
    let rsa = key("rsa.json", r#"{"kty": "RSA", "n": "AQ", "e": "AQAB", "d": "AQ"}"#);
    let why = ["is RSA", "signed with ECDSA P-256", "key rollover", "leave it out"];
    replica.with_config(["import", "--acme-account", &rsa]).refused(1, &why);
    // Before the first replica, which would make one of its own; again is the same.
    replica.with_config(["import", "--acme-account", &own]).done();
    replica.with_config(["import", "--acme-account", &own]).done();
    replica.with_config(["import", "--acme-account", &other]).refused(1, &["in use already"]);

    replica.begin().await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    replica.run(["import", "--acme-account", &own]).done();
    replica.run(["import", "--acme-account", &other]).refused(1, &["in use already", "--config"]);
    replica.run(["import", "--acme-account", &rsa]).refused(1, &why);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    crate::kit::run(["import"]).refused(2, &["required"]);
    crate::kit::run(["import", "--from", "csv"]).refused(2, &["FILE"]);
    crate::kit::run(["import", "--from", "nginx", "x"]).refused(2, &["haproxy-crt-list"]);
}

fn imported(replica: &Replica, directory: &Path, more: &[&str]) -> Value {
    let more: Vec<_> = more.iter().copied().chain(["--output", "json"]).collect();
    import(replica, "pem-dir", directory, &more).done().json()
}

async fn gone(replica: &Replica, name: &str) {
    replica.run(["domain", "remove", name]).done();
    eventually(SOON, "the name to be free", async || {
        let shown = replica.run(["domain", "show", name]);
        if shown.code == 1 { Ok(()) } else { Err(shown.stdout) }
    })
    .await;
}

/// What was imported, removed and is imported again is there again, however often, with this certificate or another.
#[tokio::test]
async fn a_name_that_was_removed_comes_in_again() {
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let files = Scratch::new().unwrap();
    let id = || {
        let shown = replica.run(["domain", "show", "shop.test", "--output", "json"]).done().json();
        (shown["id"].clone(), shown["certificate"]["sha256"].clone())
    };
    let mut before = Vec::new();
    write(&files, "shop.pem", &["shop.test"]);
    for life in 0..5 {
        // The same file twice, then a newer one, then that one again.
        if life == 2 {
            write(&files, "shop.pem", &["shop.test"]);
        }
        let dry = imported(&replica, files.path(), &["--dry-run"]);
        assert_eq!((&dry["created"], &dry["present"]), (&json!(1), &json!(0)), "life {life}");
        let first = imported(&replica, files.path(), &[]);
        assert_eq!((&first["created"], &first["present"]), (&json!(1), &json!(0)), "life {life}");
        all_active(&replica, 1).await;
        let again = imported(&replica, files.path(), &[]);
        assert_eq!((&again["created"], &again["present"]), (&json!(0), &json!(1)), "life {life}");
        let now = id();
        assert!(!before.iter().any(|(id, _)| *id == now.0), "another domain: {before:?} {now:?}");
        assert_eq!(before.last().is_none_or(|(_, sha)| *sha == now.1), life != 2, "life {life}");
        before.push(now);
        gone(&replica, "shop.test").await;
    }
    // Of one that lives, another certificate is none to import: it is renewed here from now on.
    imported(&replica, files.path(), &[]);
    write(&files, "shop.pem", &["shop.test"]);
    import(&replica, "pem-dir", files.path(), &[])
        .refused(1, &["shop.test: orchestration-mismatch", "1 were refused"]);
    assert_eq!(orders(&network), 0);
}

/// Killed in the middle and run again: everything is there, and once.
#[tokio::test]
async fn an_import_that_was_killed_goes_on() {
    const MANY: usize = 1_000;
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Sqlite, "").await;
    let files = Scratch::new().unwrap();
    // One certificate for all of them: making them is not what this is about.
    let names: Vec<_> = (0..MANY).map(|n| format!("n{n:04}.many.test")).collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    for (n, some) in all.chunks(50).enumerate() {
        write(&files, &format!("{n:02}.pem"), some);
    }
    let token = replica.read("admin.token");
    let mut command = crate::kit::program();
    command.args(["import", "--from", "pem-dir", &word(files.path())]);
    command.args(["--server", &replica.url(), "--token", token.trim()]);
    let first = Process::spawn("import", &command).unwrap();
    first.wait_for_line(SOON * 2, |line| line.starts_with("200 of")).await.unwrap();
    first.kill().await.unwrap();

    let second = imported(&replica, files.path(), &[]);
    let count = |name: &str| usize::try_from(second[name].as_u64().unwrap()).unwrap();
    assert_eq!(count("created") + count("present"), MANY, "{second}");
    assert!(count("present") >= 200, "{second}");
    assert_eq!(imported(&replica, files.path(), &[])["present"], json!(MANY));
    all_active(&replica, MANY).await;
    assert_eq!(orders(&network), 0);
}

/// An operator's move of two thousand certificates; what it took is printed.
#[tokio::test]
async fn two_thousand_come_in() {
    const MANY: usize = 2_000;
    let network = Network::start().await;
    let replica = Replica::start(&network, Database::Postgres, "").await;
    let files = Scratch::new().unwrap();
    let mut list = String::new();
    for n in 0..MANY {
        let name = format!("n{n:04}.many.test");
        write(&files, &format!("{name}.pem"), &[&name]);
        list.push_str(&format!("{name}.pem [alpn h2,http/1.1] {name}\n"));
    }
    let list = files.write("list.txt", list).unwrap();
    let begun = Instant::now();
    let ended = import(&replica, "haproxy-crt-list", &list, &[]).done();
    println!("{MANY} certificates imported in {:?}", begun.elapsed());
    assert!(ended.stdout.contains("2000   imported"), "{}", ended.stdout);
    assert!(ended.stdout.contains("1000 of 2000\n"), "{}", ended.stdout);
    all_active(&replica, MANY).await;
    println!("{MANY} certificates Active after {:?}", begun.elapsed());
    assert_eq!(orders(&network), 0);
}
