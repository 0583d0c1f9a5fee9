//! Debian's Caddy fetches certificates by itself, at the handshake, and serves them.

use std::{process::Command, time::Duration};

use holdfast_testkit::{Pki, Process, Scratch, eventually, free_port};

use crate::{
    kit::{Ended, SOON, word},
    replica::{Database, Network, Replica},
};

/// What a visitor is shown for a name: the certificate's own names, and whether the root vouches for it.
fn visited(port: u16, name: &str, root: &str) -> Result<String, String> {
    let seen = Ended::of(Command::new("curl").args([
        "--silent",
        "--show-error",
        "--fail",
        "--max-time",
        "10",
        "--cacert",
        root,
        "--resolve",
        &format!("{name}:{port}:127.0.0.1"),
        &format!("https://{name}:{port}/"),
    ]));
    if seen.code == 0 { Ok(seen.stdout) } else { Err(seen.stderr) }
}

#[tokio::test]
async fn a_handshake_with_caddy_shows_our_certificate() {
    let network = Network::start().await;
    let (pull, https) = (free_port().unwrap(), free_port().unwrap());
    let extra = format!("[edge]\npull = \"127.0.0.1:{pull}\"");
    let replica = Replica::start(&network, Database::Sqlite, &extra).await;
    let token = |edge: &str, group: &str| {
        let made = replica.run([
            "token", "create", "--scope", "edge", "--edge", edge, "--group", group, "--output",
            "json",
        ]);
        made.done().json()["token"].as_str().unwrap().to_owned()
    };
    let (own, other) = (token("caddy-1", "default"), token("caddy-2", "other"));

    let files = Scratch::new().unwrap();
    let pki = Pki::of(&["shop.test"]).unwrap();
    let pem = format!("{}{}", pki.chain_pem, pki.key_pem);
    std::fs::create_dir(files.path().join("pems")).unwrap();
    files.write("pems/shop.pem", pem).unwrap();
    let root = word(&files.write("root.pem", &pki.root_pem).unwrap());
    let pems = word(&files.path().join("pems"));
    replica.run(["import", "--from", "pem-dir", &pems]).done();

    let ask = |token: &str, name: &str| {
        let url = format!("http://x:{token}@127.0.0.1:{pull}/v1/pull/caddy?server_name={name}");
        Ended::of(Command::new("curl").args([
            "--silent",
            "--max-time",
            "20",
            "--write-out",
            "%{http_code}",
            &url,
        ]))
        .stdout
    };
    eventually(SOON, "the certificate deployed", async || {
        let answer = ask(&own, "shop.test");
        if answer.ends_with("200") { Ok(()) } else { Err(answer) }
    })
    .await;
    assert!(ask(&own, "shop.test").contains("PRIVATE KEY"));
    assert_eq!(ask(&own, "none.test"), "204");
    assert_eq!(ask(&other, "shop.test"), "204", "of another group");
    assert!(ask("hf_wrong", "shop.test").ends_with("401"));
    assert!(ask(replica.read("admin.token").trim(), "shop.test").ends_with("403"));

    let caddyfile = format!(
        "{{\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port {}\n\thttps_port {https}\n}}\n\
         https:// {{\n\ttls {{\n\t\tget_certificate http http://caddy-1:{own}@127.0.0.1:{pull}/v1/pull/caddy\n\t}}\n\
         \trespond \"hello from caddy\"\n}}\n",
        free_port().unwrap()
    );
    let caddyfile = files.write("Caddyfile", caddyfile).unwrap();
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config", &word(&caddyfile)]);
    command.env("XDG_DATA_HOME", files.path().join("data"));
    command.env("XDG_CONFIG_HOME", files.path().join("config"));
    let caddy = Process::spawn("caddy", &command).unwrap();
    let shown = eventually(Duration::from_secs(120), "a handshake", async || {
        visited(https, "shop.test", &root).map_err(|why| format!("{why}\n{}", caddy.log()))
    })
    .await;
    assert_eq!(shown, "hello from caddy");
    assert!(visited(https, "none.test", &root).is_err());
}
