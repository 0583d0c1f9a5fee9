//! The whole against Pebble, a CA that is not ours, on both databases.

use holdfast_testkit::{ChallTestSrv, Pebble, PebbleConfig, Postgres, Process, Scratch, free_port};

use crate::kit::{Ended, SOON, is_ready, program, word};

async fn issue(database: &str) {
    let dns = ChallTestSrv::start().await.unwrap();
    let (api, tls) = (free_port().unwrap(), free_port().unwrap());
    let pebble = Pebble::start(&PebbleConfig::new(dns.dns(), api, tls)).await.unwrap();
    dns.set_cname("shop.example.com", "edge.example.net").await.unwrap();
    let scratch = Scratch::new().unwrap();
    let text = format!(
        r#"
        server {{ 
          listen = "127.0.0.1:{api}"
          drain_seconds = 0
        }}
        database {{ url = "{database}" }}
        acme {{
          directory = "{}"
          root_certificate = "{}"
          email = "ops@example.com"
          agree_terms = true
        }}
        dns {{
          targets = ["edge.example.net"]
          resolvers = ["{}"]
        }}
        security {{
          master_key_file = "master.key"
          admin_token = env("TEST_TOKEN")
        }}
        "#,
        pebble.directory_url(),
        word(&pebble.tls_root_file()),
        dns.dns(),
    );
    let config = scratch.write("holdfast.hcl", text).unwrap();
    let mut command = program();
    command.args(["server", "--config", &word(&config)]).env("TEST_TOKEN", "correct-horse-battery");
    let replica = Process::spawn("replica", &command).unwrap();
    replica.wait_for_line(SOON, is_ready).await.unwrap();
    let server = format!("http://127.0.0.1:{api}");
    let client = |words: &[&str]| {
        Ended::of(program().args(words).args([
            "--server",
            &server,
            "--token",
            "correct-horse-battery",
        ]))
    };
    client(&["domain", "add", "shop.example.com", "--wait"]).done();
    let shown = client(&["domain", "show", "shop.example.com"]).done();
    assert!(shown.stdout.contains("Pebble"), "{shown:?}");
    // A database file is the running replica's alone.
    if database.starts_with("postgres") {
        pinned(&word(&config));
    }
}

/// Pebble's root is not that of its TLS: the issuer of its first chain is pinned, until a person lets go of it.
fn pinned(config: &str) {
    let configured = |words: &[&str]| {
        let mut command = program();
        command.args(words).args(["--config", config]);
        Ended::of(command.env("TEST_TOKEN", "correct-horse-battery"))
    };
    let doctor = configured(&["doctor"]);
    assert!(doctor.stdout.contains("its first chain led to `CN=Pebble Root"), "{doctor:?}");
    assert!(doctor.stdout.contains("acme.issuer_roots"), "{doctor:?}");
    for said in ["is not held to `CN=Pebble Root", "was held to no issuer"] {
        let unpinned = configured(&["ca", "unpin"]).done();
        assert!(unpinned.stdout.contains(said), "{unpinned:?}");
    }
}

#[tokio::test]
async fn a_certificate_from_pebble_on_sqlite() {
    issue("sqlite:holdfast.db").await;
}

#[tokio::test]
async fn a_certificate_from_pebble_on_postgresql() {
    issue(&Postgres::shared().await.unwrap().database().await.unwrap()).await;
}
