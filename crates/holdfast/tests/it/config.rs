//! Configurations that are refused before anything starts: each with file, key, value and remedy.

use holdfast_testkit::Scratch;

use crate::kit::{Ended, program, word};

const DOCUMENTED: &str = include_str!("../../examples/holdfast.toml");

/// A change to the documented file, and what the refusal must say.
struct Case {
    change: (&'static str, &'static str),
    says: &'static [&'static str],
}

const fn case(from: &'static str, to: &'static str, says: &'static [&'static str]) -> Case {
    Case { change: (from, to), says }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("[server]", "[servers]", &["servers", "unknown section", "[server]"]),
    case("role = \"all\"", "rolle = \"all\"", &["server.rolle", "unknown key", "server.role"]),
    case("role = \"all\"", "role = \"boss\"", &["server.role = \"boss\"", "\"all\", \"api\" or \"worker\""]),
    case("role = \"all\"", "role = 7", &["server.role = 7"]),
    case("listen = \"127.0.0.1:8600\"", "listen = \"8600\"", &["server.listen = \"8600\"", "127.0.0.1:8600"]),
    case("listen = \"127.0.0.1:8600\"", "listen = \"127.0.0.1:0\"", &["server.listen", "port 0"]),
    case("listen = \"127.0.0.1:8600\"", "listen = \"localhost:8600\"", &["server.listen = \"localhost:8600\""]),
    case("url = \"http://127.0.0.1:8600\"", "url = \"127.0.0.1:8600\"", &["server.url = \"127.0.0.1:8600\""]),
    case("url = \"http://127.0.0.1:8600\"", "url = \"http://u:p@x\"", &["server.url", "credentials"]),
    case("url = \"http://127.0.0.1:8600\"", "url = \"https://127.0.0.1:8600\"", &["server.url", "speaks no TLS", "tls_certificate"]),
    case("drain_seconds = 10", "drain_seconds = 10\ntls_certificate = \"a.pem\"", &["server.tls_key", "set both"]),
    case("drain_seconds = 10", "drain_seconds = 10\ntls_certificate = \"a.pem\"\ntls_key = \"a.key\"", &["server.url", "write https"]),
    case("drain_seconds = 10", "drain_seconds = 10\nclient_ca = \"a.pem\"", &["server.client_ca", "TLS"]),
    case("drain_seconds = 10", "drain_seconds = -1", &["server.drain_seconds = -1", "0 to 3600"]),
    case("drain_seconds = 10", "drain_seconds = \"10\"", &["server.drain_seconds = \"10\"", "whole number"]),
    case("drain_seconds = 10", "drain_seconds = 99999999999", &["server.drain_seconds", "0 to 3600"]),
    case("writes = \"any\"", "writes = \"maybe\"", &["server.writes = \"maybe\"", "forward"]),
    case("postgres://holdfast@127.0.0.1:5432/holdfast", "mysql://root:hunter2@db/holdfast", &["database.url = (hidden)", "postgres://", "sqlite:"]),
    case("postgres://holdfast@127.0.0.1:5432/holdfast", "sqlite:", &["database.url", "sqlite:FILE"]),
    case("[database]\nurl = \"postgres://holdfast@127.0.0.1:5432/holdfast\"", "[database]", &["database.url is missing", "sqlite:FILE"]),
    case("lease_duration_seconds = 30", "lease_duration_seconds = 29", &["coordination.lease_duration_seconds = 29", "29 < 3 × 10 = 30"]),
    case("lease_duration_seconds = 30", "lease_duration_seconds = 0", &["coordination.lease_duration_seconds = 0"]),
    case("backend = \"database\"", "backend = \"redis\"", &["coordination.backend", "coordination.url"]),
    case("backend = \"database\"", "backend = \"database\"\nurl = \"redis://x\"", &["coordination.url", "backend"]),
    case("backend = \"database\"", "backend = \"redis\"\nurl = \"http://x\"", &["coordination.url", "redis://"]),
    case("backend = \"database\"", "backend = \"redis\"\nurl = \"redis+sentinel://a:1,b:2/m\"", &["coordination.url", "weak_store"]),
    case("stale_seconds = 30", "stale_seconds = 15", &["replicas.stale_seconds = 15", "15 < 2 × 10 = 20"]),
    case("directory = \"https://127.0.0.1:14000/dir\"", "directory = \"http://ca.example/dir\"", &["acme.directory = \"http://ca.example/dir\"", "https"]),
    case("directory = \"https://127.0.0.1:14000/dir\"", "directory = \"letsencrypt\"", &["acme.directory = \"letsencrypt\""]),
    case("agree_terms = true", "agree_terms = false", &["acme.agree_terms = false", "terms"]),
    case("agree_terms = true", "agree_terms = \"yes\"", &["acme.agree_terms = \"yes\"", "true or false"]),
    case("email = \"ops@example.com\"", "email = \"ops\"", &["acme.email = \"ops\""]),
    case("key_type = \"ecdsa-p256\"", "key_type = \"rsa-4096\"", &["acme.key_type = \"rsa-4096\"", "rsa-2048"]),
    case("key_type = \"ecdsa-p256\"", "key_type = \"ecdsa-p256\"\neab_key_id = \"k\"", &["acme.eab_hmac_key", "set both"]),
    case("key_type = \"ecdsa-p256\"", "key_type = \"ecdsa-p256\"\neab_key_id = \"k\"\neab_hmac_key = \"§§\"", &["acme.eab_hmac_key = (hidden)"]),
    case("max_orders_in_flight = 64", "max_orders_in_flight = 0", &["acme.max_orders_in_flight = 0"]),
    case("targets = [\"edge.example.net\"]", "targets = []", &["dns.targets", "empty"]),
    case("targets = [\"edge.example.net\"]", "targets = \"edge.example.net\"", &["dns.targets = \"edge.example.net\"", "list"]),
    case("targets = [\"edge.example.net\"]", "targets = [\"edge.example.net\", \"edge_2\"]", &["dns.targets.1 = \"edge_2\"", "host name"]),
    case("targets = [\"edge.example.net\"]", "targets = [\"192.0.2.1\"]", &["dns.targets.0 = \"192.0.2.1\"", "IP address"]),
    case("addresses = []", "addresses = [\"edge\"]", &["dns.addresses.0 = \"edge\""]),
    case("addresses = []", "addresses = [\"0.0.0.0\"]", &["dns.addresses.0", "no address of a machine"]),
    case("resolvers = [\"127.0.0.1:8053\"]", "resolvers = []", &["dns.resolvers", "empty"]),
    case("resolvers = [\"127.0.0.1:8053\"]", "resolvers = [\"dns.example\"]", &["dns.resolvers.0 = \"dns.example\""]),
    case("concurrency = 64", "concurrency = 0", &["provisioning.concurrency = 0", "1 to 10000"]),
    case("claim_seconds = 30", "claim_seconds = 30.5", &["provisioning.claim_seconds = 30.5", "whole number"]),
    case("before_days = 30", "before_days = 89", &["renewal.before_days = 89", "1 to 80"]),
    case("mode = \"none\"", "mode = \"builtin\"", &["edge.mode = \"builtin\"", "edge.https"]),
    case("mode = \"none\"", "mode = \"builtin\"\nhttps = \"127.0.0.1:8600\"", &["edge.https", "collides with server.listen"]),
    case("mode = \"none\"", "mode = \"none\"\nhttps = \"127.0.0.1:8643\"", &["edge.https", "builtin"]),
    case("mode = \"none\"", "mode = \"builtin\"\nhttps = \"127.0.0.1:8643\"\nupstream = \"https://x/y\"", &["edge.upstream = \"https://x/y\"", "http://127.0.0.1:3000"]),
    case("mode = \"none\"", "mode = \"none\"\nredirect_port = 443", &["edge.redirect_port = 443", "builtin"]),
    case("mode = \"none\"", "mode = \"builtin\"\nhttps = \"127.0.0.1:8643\"\nredirect_port = 443", &["edge.redirect_port = 443", "edge.http"]),
    case("mode = \"none\"", "mode = \"builtin\"\nhttps = \"127.0.0.1:8643\"\nhttp = \"127.0.0.1:8680\"\nredirect_port = 0", &["edge.redirect_port = 0", "1 to 65535"]),
    case("mode = \"none\"", "mode = \"none\"\npull = \"0.0.0.0:8610\"", &["edge.pull = \"0.0.0.0:8610\"", "allow_plaintext"]),
    case("mode = \"none\"", "mode = \"none\"\npull = \"127.0.0.1:8600\"", &["edge.pull", "collides with server.listen"]),
    case("mode = \"none\"", "mode = \"none\"\ngroup = \"a b\"", &["edge.group = \"a b\""]),
    case("master_key_file = \"master.key\"", "", &["security.master_key_file", "is missing"]),
    case("master_key_file = \"master.key\"", "master_key_file = \"a\"\nmaster_key = \"YQ==\"", &["security.master_key_file", "both set"]),
    case("master_key_file = \"master.key\"", "master_key = \"aHVudGVyMg==\"", &["security.master_key = (hidden)", "32 bytes"]),
    case("master_key_file = \"master.key\"", "master_key_file = \"a\"\nadmin_token = \"hunter2\"", &["security.admin_token = (hidden)", "16 characters"]),
    case("level = \"info\"", "level = \"loud\"", &["log.level = \"loud\"", "debug"]),
    case("format = \"text\"", "format = \"xml\"", &["log.format = \"xml\"", "json"]),
    case("[log]", "[log", &["line", "TOML"]),
    case("[log]", "[renewal]", &["line", "TOML"]),
    case("[log]\nlevel = \"info\"\nformat = \"text\"", "log = 3", &["log"]),
];

#[test]
fn what_cannot_be_is_refused_with_file_key_value_and_remedy() {
    let scratch = Scratch::new().unwrap();
    for case in CASES {
        let (from, to) = case.change;
        let text = DOCUMENTED.replacen(from, to, 1);
        assert_ne!(text, DOCUMENTED, "{from} is not in the document");
        let file = scratch.write("holdfast.toml", &text).unwrap();
        let ended = Ended::of(program().args(["server", "--config", &word(&file)]));
        let ended = ended.refused(2, case.says).refused(2, &[&word(&file), "; "]);
        assert!(
            !ended.stderr.contains("hunter2") && !ended.stderr.contains("aHVudGVyMg"),
            "{ended:?}"
        );
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn files_that_are_none_are_refused() {
    let scratch = Scratch::new().unwrap();
    let refused = |file: &std::path::Path, says: &str| {
        Ended::of(program().args(["server", "--config", &word(file)]))
            .refused(2, &[&word(file), says]);
    };
    refused(&scratch.path().join("missing.toml"), "does not exist");
    refused(&scratch.write("holdfast.yaml", DOCUMENTED).unwrap(), ".toml or .hcl");
    refused(&scratch.write("bytes.toml", [0xff, 0xfe]).unwrap(), "UTF-8");
    refused(&scratch.write("large.toml", vec![b'#'; 2 << 20]).unwrap(), "bytes");
    refused(&scratch.write("bad.hcl", "server { listen = }").unwrap(), "HCL");
    refused(&scratch.write("twice.hcl", "log {}\nlog {}").unwrap(), "two blocks");
    refused(&scratch.write("label.hcl", "log \"x\" {}").unwrap(), "label");
    refused(&scratch.write("loose.hcl", "level = \"info\"").unwrap(), "outside a section");
    refused(&scratch.write("sum.hcl", "server { drain_seconds = 1 + 2 }").unwrap(), "computed");
    refused(
        &scratch.write("env.hcl", "database { url = env(\"HOLDFAST_TEST_UNSET\") }").unwrap(),
        "HOLDFAST_TEST_UNSET",
    );
    refused(scratch.path(), "");
}

#[test]
fn the_environment_is_refused_by_the_same_rules() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.write("holdfast.toml", DOCUMENTED).unwrap();
    let cases = [
        ("HOLDFAST__SERVER__DRAIN_SECONDS", "soon", "server.drain_seconds"),
        ("HOLDFAST__SERVER__ROLLE", "all", "server.rolle"),
        ("HOLDFAST__SERVERS__ROLE", "all", "servers"),
        ("HOLDFAST__LEVEL", "info", "HOLDFAST__SECTION__KEY"),
        ("HOLDFAST__ACME__AGREE_TERMS", "maybe", "acme.agree_terms"),
        ("HOLDFAST__DNS__TARGETS", "edge.example.net,a b", "dns.targets"),
        ("HOLDFAST__COORDINATION__LEASE_DURATION_SECONDS", "5", "5 < 3 × 10 = 30"),
    ];
    for (variable, value, says) in cases {
        let mut command = program();
        command.args(["server", "--config", &word(&file)]).env(variable, value);
        Ended::of(&mut command).refused(2, &[variable, says]);
    }
}

#[test]
fn the_documented_file_is_not_refused() {
    let scratch = Scratch::new().unwrap();
    for (name, text) in [
        ("holdfast.toml", DOCUMENTED),
        ("holdfast.hcl", include_str!("../../examples/holdfast.hcl")),
    ] {
        let file = scratch.write(name, text).unwrap();
        // Its peers are not there, which is another matter than its keys.
        let ended = Ended::of(
            program()
                .args(["migrate", "--config", &word(&file)])
                .env("HOLDFAST__DATABASE__URL", "postgres://holdfast@127.0.0.1:1/holdfast"),
        );
        ended.refused(3, &["database"]);
    }
}

#[test]
fn a_check_tells_what_was_understood_and_starts_nothing() {
    let scratch = Scratch::new().unwrap();
    let text = DOCUMENTED.replace("postgres://holdfast@", "postgres://holdfast:hunter2@");
    let file = scratch.write("holdfast.toml", text).unwrap();
    let check = ["server", "--config", &word(&file), "--check", "--role", "worker"];
    let told = Ended::of(program().args(check).env("POD_NAME", "holdfast-7")).done().stdout;
    for words in ["is good", "holdfast-7", "worker", "postgres://127.0.0.1:5432/holdfast"] {
        assert!(told.contains(words), "no `{words}` in: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
    assert!(!scratch.path().join("master.key").exists(), "nothing is made");
    let mut wrong = program();
    wrong.args(check).env("HOLDFAST__SERVER__ROLE", "boss");
    Ended::of(&mut wrong).refused(2, &["server.role"]);
}

#[test]
fn a_check_tells_what_the_built_in_edge_does_and_what_it_lacks() {
    let scratch = Scratch::new().unwrap();
    let told = |edge: &str| {
        let text = DOCUMENTED.replace("mode = \"none\"", edge);
        let file = scratch.write("holdfast.toml", text).unwrap();
        Ended::of(program().args(["server", "--config", &word(&file), "--check"])).done().stdout
    };
    let https = "mode = \"builtin\"\nhttps = \"0.0.0.0:443\"";
    let without = told(https);
    for words in ["Note: edge.http is not set", "TLS-ALPN-01", "Set edge.http"] {
        assert!(without.contains(words), "no `{words}` in: {without}");
    }
    let whole = told(&format!(
        "{https}\nhttp = \"0.0.0.0:80\"\nredirect_port = 8443\nupstream = \"http://127.0.0.1:3000\""
    ));
    assert!(!whole.contains("Note"), "{whole}");
    let words = "builtin, https on 0.0.0.0:443, http on 0.0.0.0:80, redirects to port 8443, before http://127.0.0.1:3000";
    assert!(whole.contains(words), "{whole}");
    let none = told("mode = \"none\"");
    assert!(!none.contains("Note") && none.contains("edge        none\n"), "{none}");
}
