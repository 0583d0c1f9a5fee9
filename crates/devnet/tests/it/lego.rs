//! lego, as Debian has it, obtains certificates in all three ways, renews and revokes.

use tokio::process::Command;

use crate::child::Bench;

fn lego(bench: &Bench, name: &str, challenge: &[&str], action: &[&str]) -> Command {
    let mut command = bench.command("lego");
    command
        .env("LEGO_CA_CERTIFICATES", bench.path("root.pem"))
        .args(["--server", &bench.world.net.directory_url()])
        .args(["--accept-tos", "--email", "ops@shop.test", "--path"])
        .arg(bench.path("lego"))
        .args(["--domains", name])
        .args(challenge)
        .args(action);
    command
}

#[tokio::test]
async fn by_http_then_renewed_and_revoked() {
    let name = "lego-http.test";
    let bench = Bench::start(&[name]).await;
    let port = format!("127.0.0.2:{}", bench.http_port);
    let challenge = ["--http", "--http.port", &port];
    bench.run(lego(&bench, name, &challenge, &["run"])).await;
    bench.check(&format!("lego/certificates/{name}.crt"), name);
    bench.finalized_once(name).await;
    bench
        .run(lego(&bench, name, &challenge, &["renew", "--days", "1000", "--no-random-sleep"]))
        .await;
    bench.run(lego(&bench, name, &challenge, &["revoke"])).await;
    let certificates = bench.world.json("/dev/certificates").await;
    assert_eq!(certificates.as_array().unwrap().len(), 2);
    assert!(certificates[0]["revoked"].is_null() && certificates[1]["revoked"].is_object());
}

#[tokio::test]
async fn by_tls_alpn() {
    let name = "lego-tls.test";
    let bench = Bench::start(&[name]).await;
    let port = format!("127.0.0.2:{}", bench.tls_port);
    bench.run(lego(&bench, name, &["--tls", "--tls.port", &port], &["run"])).await;
    bench.check(&format!("lego/certificates/{name}.crt"), name);
    bench.finalized_once(name).await;
}

#[tokio::test]
async fn by_dns_with_a_hook_and_a_wildcard() {
    let bench = Bench::start(&[]).await;
    let set = bench.curl(r#"-X PUT -d "{\"name\":\"$2\",\"type\":\"TXT\",\"value\":\"$3\"}""#);
    let script = bench.script("hook", &format!("[ \"$1\" = present ] || exit 0\n{set}\n"));
    let challenge = [
        "--dns",
        "exec",
        "--dns.disable-cp",
        "--dns.resolvers",
        &bench.world.net.dns_address().to_string(),
    ];
    let mut command = lego(&bench, "*.lego-dns.test", &challenge, &["run"]);
    command.env("EXEC_PATH", script);
    bench.run(command).await;
    bench.check("lego/certificates/_.lego-dns.test.crt", "any.lego-dns.test");
}

#[tokio::test]
async fn through_bad_nonces_and_slow_processing() {
    let name = "lego-faults.test";
    let bench = Bench::start(&[name]).await;
    bench.world.net.faults().set("bad-nonce", "0.2", None).unwrap();
    bench.world.net.faults().set("processing", "1200", None).unwrap();
    let port = format!("127.0.0.2:{}", bench.http_port);
    bench.run(lego(&bench, name, &["--http", "--http.port", &port], &["run"])).await;
    bench.check(&format!("lego/certificates/{name}.crt"), name);
}
