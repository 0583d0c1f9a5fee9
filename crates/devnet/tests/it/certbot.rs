//! certbot, as Debian has it, obtains certificates over HTTP and DNS.

use tokio::process::Command;

use crate::child::Bench;

fn certbot(bench: &Bench, action: &str) -> Command {
    let mut command = bench.command("certbot");
    command.env("REQUESTS_CA_BUNDLE", bench.path("root.pem")).arg(action);
    for directory in ["config", "work", "logs"] {
        command.arg(format!("--{directory}-dir")).arg(bench.path(directory));
    }
    command.args(["--server", &bench.world.net.directory_url(), "--non-interactive"]).args([
        "--agree-tos",
        "--email",
        "ops@shop.test",
        "--no-eff-email",
    ]);
    command
}

#[tokio::test]
async fn by_http() {
    let (name, second) = ("certbot-http.test", "www.certbot-http.test");
    let bench = Bench::start(&[name, second]).await;
    let mut command = certbot(&bench, "certonly");
    command
        .args(["--standalone", "--http-01-address", "127.0.0.2", "--http-01-port"])
        .arg(bench.http_port.to_string())
        .args(["-d", name, "-d", second]);
    bench.run(command).await;
    let chain = format!("config/live/{name}/fullchain.pem");
    bench.check(&chain, name);
    bench.check(&chain, second);
    bench.finalized_once(name).await;
}

#[tokio::test]
async fn by_dns_with_hooks() {
    let name = "certbot-dns.test";
    let bench = Bench::start(&[]).await;
    let record = r#"{\"name\":\"_acme-challenge.$CERTBOT_DOMAIN\",\"type\":\"TXT\",\"value\":\"$CERTBOT_VALIDATION\"}"#;
    let set = bench.script("set", &bench.curl(&format!("-X PUT -d \"{record}\"")));
    let clear = bench.curl("-X DELETE") + "/_acme-challenge.$CERTBOT_DOMAIN";
    let clear = bench.script("clear", &clear);
    let mut command = certbot(&bench, "certonly");
    command.args(["--manual", "--preferred-challenges", "dns"]).args([
        "--manual-auth-hook",
        &set,
        "--manual-cleanup-hook",
        &clear,
        "-d",
        name,
    ]);
    bench.run(command).await;
    bench.check(&format!("config/live/{name}/fullchain.pem"), name);
    bench.finalized_once(name).await;
    assert_eq!(bench.world.net.zone().list(), []);
}
