//! `holdfast import`: existing certificates come in as they are, again and again, and no order is sent.

use std::{path::Path, process::Command, time::Instant};

use holdfast_testkit::{Pki, Scratch, eventually};
use serde_json::{Value, json};

use crate::{
    kit::{Ended, SOON, word},
    replica::{Database, Network, Replica},
};

/// A PEM file as HAProxy has it.
fn bundle(pki: &Pki) -> String {
    format!("{}{}{}", pki.chain_pem, pki.root_pem, pki.key_pem)
}

fn write(scratch: &Scratch, file: &str, names: &[&str]) -> Pki {
    let pki = Pki::of(names).unwrap();
    scratch.write(file, bundle(&pki)).unwrap();
    pki
}

fn import(replica: &Replica, kind: &str, path: &Path, more: &[&str]) -> Ended {
    let token = replica.read("admin.token");
    let mut command = crate::kit::program();
    command.args(["import", "--from", kind, &word(path)]).args(more);
    Ended::of(command.args(["--server", &replica.url(), "--token", token.trim()]))
}

/// How many orders the CA has seen.
fn orders(network: &Network) -> usize {
    let url = format!("https://127.0.0.1:{}/dev/orders", network.ca);
    let root = word(&network.root());
    let asked =
        Ended::of(Command::new("curl").args(["--silent", "--fail", "--cacert", &root, &url]));
    let answer = asked.done().json();
    answer["items"].as_array().or_else(|| answer.as_array()).expect("a list of orders").len()
}

async fn all_active(replica: &Replica, count: usize) {
    eventually(SOON * 4, "all Active", async || {
        let list = replica.run(["domain", "list", "--state", "Active", "--output", "json"]).done();
        let active = list.json()["items"].as_array().map_or(0, Vec::len);
        if active == count { Ok(()) } else { Err(format!("{active} of {count}")) }
    })
    .await;
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
    replica.with_config(["import", "--acme-account", &rsa]).refused(1, &["RSA", "P-256"]);
    // Before the first replica, which would make one of its own; again is the same.
    replica.with_config(["import", "--acme-account", &own]).done();
    replica.with_config(["import", "--acme-account", &own]).done();
    replica.with_config(["import", "--acme-account", &other]).refused(1, &["in use already"]);

    replica.begin().await;
    replica.run(["domain", "add", "shop.test", "--wait"]).done();
    replica.run(["import", "--acme-account", &own]).done();
    replica.run(["import", "--acme-account", &other]).refused(1, &["in use already", "--config"]);
    replica.run(["import", "--acme-account", &rsa]).refused(1, &["RSA", "P-256"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    crate::kit::run(["import"]).refused(2, &["required"]);
    crate::kit::run(["import", "--from", "csv"]).refused(2, &["FILE"]);
    crate::kit::run(["import", "--from", "nginx", "x"]).refused(2, &["haproxy-crt-list"]);
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
