//! The clients people have: curl and openssl.

use std::process::Stdio;

use holdfast_testkit::Scratch;
use tokio::process::Command;

use crate::kit::{Ground, LIMIT};

/// Runs a command with empty input; gives its exit status, output and errors.
async fn run(program: &str, arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("an end in time");
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

struct People {
    ground: Ground,
    _scratch: Scratch,
    root: String,
}

impl People {
    async fn new() -> Self {
        let ground = Ground::new().await;
        let scratch = Scratch::new().unwrap();
        let root = scratch.write("root.pem", ground.authority.root_pem()).unwrap();
        Self { ground, root: root.to_str().unwrap().to_owned(), _scratch: scratch }
    }

    async fn curl(&self, url: &str, more: &[&str]) -> (bool, String, String) {
        let (http, https) = (self.ground.edge.http().unwrap(), self.ground.edge.https());
        let everywhere = [
            format!("::127.0.0.1:{}", https.port()),
            format!(":{}:127.0.0.1:{}", http.port(), http.port()),
        ];
        let mut arguments = vec!["-sS", "--noproxy", "*", "--cacert", &self.root];
        let to = if url.starts_with("https") { &everywhere[0] } else { &everywhere[1] };
        arguments.extend(["--connect-to", to]);
        arguments.extend(more);
        arguments.push(url);
        run("curl", &arguments).await
    }

    async fn openssl(&self, name: &str, more: &[&str]) -> (bool, String, String) {
        let connect = self.ground.edge.https().to_string();
        let mut arguments = vec!["s_client", "-connect", &connect, "-CAfile", &self.root];
        arguments.extend(["-verify_return_error", "-servername", name]);
        arguments.extend(more);
        run("openssl", &arguments).await
    }
}

#[tokio::test]
async fn curl_verifies_two_domains_on_one_port_before_and_after_a_swap() {
    let people = People::new().await;
    for _ in 0..2 {
        for host in ["one.test", "two.test"] {
            people.ground.swap(host).await;
            for version in ["--http1.1", "--http2"] {
                let format = [
                    "-w",
                    "%{http_code} %{ssl_verify_result} %{http_version}",
                    "-o",
                    "/dev/null",
                    version,
                ];
                let (ok, seen, error) = people.curl(&format!("https://{host}/"), &format).await;
                let wanted = if version == "--http2" { "200 0 2" } else { "200 0 1.1" };
                assert!(ok && seen == wanted, "{host} {version}: {seen} {error}");
            }
        }
    }
    let (ok, _, error) = people.curl("https://three.test/", &[]).await;
    assert!(!ok && error.contains("unrecognized name"), "{error}");
}

#[tokio::test]
async fn curl_follows_from_http_to_https() {
    let people = People::new().await;
    people.ground.swap("one.test").await;
    let (http, https) =
        (people.ground.edge.http().unwrap().port(), people.ground.edge.https().port());
    let url = format!("http://one.test:{http}/?a=b");
    let resolve = [format!("one.test:{http}:127.0.0.1"), format!("one.test:{https}:127.0.0.1")];
    let format = [
        "-L",
        "-w",
        "%{url_effective} %{http_code}",
        "-o",
        "/dev/null",
        "--resolve",
        &resolve[0],
        "--resolve",
        &resolve[1],
    ];
    let (ok, seen, error) = people.curl(&url, &format).await;
    assert!(ok && seen == format!("https://one.test:{https}/?a=b 200"), "{seen} {error}");
}

#[tokio::test]
async fn openssl_verifies_and_resumes_with_both_versions_of_tls() {
    let people = People::new().await;
    people.ground.swap("one.test").await;
    for version in ["-tls1_2", "-tls1_3"] {
        let (ok, seen, error) =
            people.openssl("one.test", &[version, "-verify_hostname", "one.test"]).await;
        assert!(ok && seen.contains("Verify return code: 0 (ok)"), "{version}: {seen} {error}");
    }
    let (ok, seen, _) = people.openssl("one.test", &["-tls1_2", "-reconnect"]).await;
    assert!(ok && seen.matches("Reused, TLSv1.2").count() == 5, "{seen}");
    let (ok, seen, error) = people.openssl("none.test", &[]).await;
    assert!(!ok && error.contains("unrecognized name"), "{seen} {error}");
    let (ok, _, _) = people.openssl("one.test", &["-tls1_1"]).await;
    assert!(!ok);
}

#[tokio::test]
async fn openssl_sees_the_challenge_certificate() {
    let people = People::new().await;
    people.ground.memory.alpn("new.test", "token.thumbprint");
    let connect = people.ground.edge.https().to_string();
    let arguments =
        ["s_client", "-connect", &connect, "-servername", "new.test", "-alpn", "acme-tls/1"];
    let (_, seen, error) = run("openssl", &arguments).await;
    assert!(seen.contains("ALPN protocol: acme-tls/1"), "{seen} {error}");
    assert!(error.contains("self-signed certificate"), "{seen} {error}");
}
