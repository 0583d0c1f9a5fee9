//! The configuration as a whole: the documented file, its twins in HCL and in the environment, and whatever
//! bytes come along.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{node::Mismatch, *};

const DOCUMENTED: &str = include_str!("../../examples/holdfast.toml");
const IN_HCL: &str = include_str!("../../examples/holdfast.hcl");

/// The least there can be.
const LEAST: &str = r#"
[database]
url = "sqlite:holdfast.db"
[acme]
directory = "https://ca.example/dir"
agree_terms = true
[dns]
targets = ["edge.example.net"]
[security]
master_key_file = "master.key"
"#;

fn load(file: &str, text: &str, environment: &Environment) -> Result<Config, Problems> {
    let source = Source::parse(file, PathBuf::from("/etc/holdfast"), text, environment)?;
    Config::from_source(&source)
}

fn loaded(text: &str) -> Config {
    load("holdfast.toml", text, &Environment::default()).unwrap()
}

fn refused(text: &str, environment: &Environment) -> String {
    load("holdfast.toml", text, environment).unwrap_err().to_string()
}

#[test]
fn the_documented_file_passes_as_it_stands() {
    let config = loaded(DOCUMENTED);
    assert_eq!(config.acme.root_certificate, Some(PathBuf::from("/etc/holdfast/ca.pem")));
    assert_eq!(config.security.master_key_file, Some(PathBuf::from("/etc/holdfast/master.key")));
}

#[test]
fn files_of_roots_are_relative_to_the_configuration() {
    let text =
        LEAST.replace("agree_terms = true", "agree_terms = true\nissuer_roots = \"roots.pem\"");
    let config = loaded(&text);
    assert_eq!(config.acme.issuer_roots, Some(PathBuf::from("/etc/holdfast/roots.pem")));
    assert_eq!(loaded(LEAST).acme.issuer_roots, None);
}

#[test]
fn hcl_says_the_same() {
    let hcl = load("holdfast.hcl", IN_HCL, &Environment::default()).unwrap();
    assert_eq!(hcl, loaded(DOCUMENTED));
}

#[test]
fn what_is_left_out_has_the_documented_value() {
    let mut config = loaded(DOCUMENTED);
    config.acme = loaded(LEAST).acme;
    config.database = loaded(LEAST).database;
    config.dns.resolvers = None;
    config.server.url = None;
    assert_eq!(config, loaded(LEAST));
}

#[test]
fn the_environment_overrides_with_the_type_that_is_wanted() {
    let environment = Environment::of([
        ("HOLDFAST__SERVER__DRAIN_SECONDS", "7"),
        ("HOLDFAST__DNS__TARGETS", "a.example.net, b.example.net"),
        ("HOLDFAST__DNS__RESOLVERS", r#"["9.9.9.9","1.1.1.1:5353"]"#),
        ("HOLDFAST__DNS__UNIQUE_TARGET", "yes"),
        ("HOLDFAST__EDGE__MODE", "agents"),
        ("HOLDFAST__ACME__EMAIL", "me@example.com"),
        ("HOLDFAST_SERVER", "not an override"),
    ]);
    let config = load("holdfast.toml", LEAST, &environment).unwrap();
    assert_eq!(config.server.drain_seconds, 7);
    assert_eq!(config.dns.targets.len(), 2);
    let resolvers: Vec<_> =
        config.dns.resolvers.unwrap().iter().map(|resolver| resolver.0.to_string()).collect();
    assert_eq!(resolvers, ["9.9.9.9:53", "1.1.1.1:5353"]);
    assert!(config.dns.unique_target);
    assert_eq!(config.edge.mode, EdgeMode::Agents);
    assert_eq!(config.acme.email.as_deref(), Some("me@example.com"));
}

#[test]
fn a_refused_override_names_its_variable_and_the_file() {
    let environment = Environment::of([("HOLDFAST__SERVER__DRAIN_SECONDS", "soon")]);
    assert_eq!(
        refused(LEAST, &environment),
        "HOLDFAST__SERVER__DRAIN_SECONDS (environment, over holdfast.toml): server.drain_seconds = \"soon\" \
         has the wrong form; it must be a whole number of seconds from 0 to 3600"
    );
}

#[test]
fn hcl_reads_the_environment_where_asked() {
    let text = r#"
        database { url = "postgres://holdfast:${env("DB_PASSWORD")}@db/holdfast" }
        acme { 
          directory = "https://ca.example/dir"
          agree_terms = true
          max_orders_in_flight = env("IN_FLIGHT")
        }
        dns { targets = ["edge.example.net"] }
        security { master_key_file = "master.key" }
    "#;
    let environment = Environment::of([("DB_PASSWORD", "s3cr3t"), ("IN_FLIGHT", "9")]);
    let config = load("holdfast.hcl", text, &environment).unwrap();
    assert_eq!(config.database.url.expose(), "postgres://holdfast:s3cr3t@db/holdfast");
    assert_eq!(config.acme.max_orders_in_flight, 9);
    let unset = load("holdfast.hcl", text, &Environment::default()).unwrap_err().to_string();
    assert!(
        unset.contains("database.url asks for env(\"DB_PASSWORD\"), which is not set"),
        "{unset}"
    );
}

#[test]
fn every_fault_is_told_at_once() {
    let text = DOCUMENTED
        .replace("lease_duration_seconds = 30", "lease_duration_seconds = 20")
        .replace("agree_terms = true", "agree_terms = false")
        .replace("targets = [\"edge.example.net\"]", "targets = []");
    let problems = refused(&text, &Environment::default());
    assert_eq!(problems.lines().count(), 3, "{problems}");
    assert!(problems.contains("20 < 3 × 10 = 30"), "{problems}");
}

#[test]
fn forwarding_needs_a_way_that_nobody_reads_along() {
    let forward = DOCUMENTED.replace("writes = \"any\"", "writes = \"forward\"");
    load("holdfast.toml", &forward, &Environment::default()).unwrap();
    let elsewhere = forward.replace("http://127.0.0.1:8600", "http://10.0.0.7:8600");
    let problems = refused(&elsewhere, &Environment::default());
    assert!(problems.contains("server.url") && problems.contains("allow_plaintext"), "{problems}");
    let trusted = Environment::of([("HOLDFAST__SECURITY__ALLOW_PLAINTEXT", "true")]);
    load("holdfast.toml", &elsewhere, &trusted).unwrap();
    let tls = [
        ("HOLDFAST__SERVER__URL", "https://10.0.0.7:8600"),
        ("HOLDFAST__SERVER__TLS_CERTIFICATE", "a.pem"),
        ("HOLDFAST__SERVER__TLS_KEY", "a.key"),
    ];
    load("holdfast.toml", &forward, &Environment::of(tls)).unwrap();
    let [url, certificate, key] = tls;
    let mutual = [url, certificate, key, ("HOLDFAST__SERVER__CLIENT_CA", "ca.pem")];
    let problems = refused(&forward, &Environment::of(mutual));
    assert!(problems.contains("server.writes"), "{problems}");
}

#[test]
fn secrets_are_shown_neither_by_debug_nor_in_a_refusal() {
    let secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlYw==";
    let environment = Environment::of([
        ("HOLDFAST__SECURITY__MASTER_KEY", secret),
        ("HOLDFAST__SECURITY__ADMIN_TOKEN", secret),
        ("HOLDFAST__ACME__EAB_HMAC_KEY", secret),
        ("HOLDFAST__DATABASE__URL", "postgres://holdfast:c2VjcmV0@db/holdfast"),
    ]);
    let problems = refused(LEAST, &environment);
    assert!(problems.contains("both set") && !problems.contains("c2VjcmV0"), "{problems}");
    let environment =
        Environment::of([("HOLDFAST__DATABASE__URL", "mysql://holdfast:c2VjcmV0@db/holdfast")]);
    let problems = refused(LEAST, &environment);
    assert!(problems.contains("(hidden)") && !problems.contains("c2VjcmV0"), "{problems}");
    let text = LEAST.replace("master_key_file", "admin_token_file");
    let environment = Environment::of([(
        "HOLDFAST__SECURITY__MASTER_KEY",
        "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=",
    )]);
    let config = load("holdfast.toml", &text, &environment).unwrap();
    assert!(!format!("{config:?}").contains("YWFhY"), "{config:?}");
}

#[test]
fn a_line_that_does_not_parse_is_not_quoted() {
    let text = "[security]\nmaster_key = \"c2VjcmV0\" oops\n";
    let problem = refused(text, &Environment::default());
    assert!(problem.contains("line 2 is not TOML") && !problem.contains("c2VjcmV0"), "{problem}");
    let hcl = load("x.hcl", "security {\n master_key = c2VjcmV0 oops\n}", &Environment::default());
    let problem = hcl.unwrap_err().to_string();
    assert!(problem.contains("line 2 is not HCL") && !problem.contains("c2VjcmV0"), "{problem}");
}

#[test]
fn the_table_of_keys_is_complete() {
    let known = |path: &str| {
        let text = format!("{LEAST}\n{path}");
        let environment = Environment::default();
        let source = Source::parse("x.toml", PathBuf::new(), &text, &environment).unwrap();
        let error = serde_path_to_error::deserialize::<_, Config>(source.tree).unwrap_err();
        match error.into_inner() {
            Mismatch::UnknownKey(known) => known,
            other => panic!("{other:?}"),
        }
    };
    let mut keys = BTreeSet::new();
    for section in known("[zzz]") {
        let environment = Environment::of([]);
        let mut source = Source::parse("x.toml", PathBuf::new(), LEAST, &environment).unwrap();
        let node::Node::Table(sections) = &mut source.tree else { panic!("no table") };
        let zzz = [("zzz".to_owned(), node::Node::Null)];
        sections.insert((*section).to_owned(), node::Node::Table(zzz.into()));
        let error = serde_path_to_error::deserialize::<_, Config>(source.tree).unwrap_err();
        let Mismatch::UnknownKey(known) = error.into_inner() else { panic!("{section}") };
        keys.extend(known.iter().map(|key| format!("{section}.{key}")));
    }
    let table: BTreeSet<_> = keys::KEYS.iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(keys, table);
}

#[test]
fn a_deep_nest_is_refused_before_it_is_parsed() {
    for text in
        ["a { b = ".to_owned() + &"[".repeat(100_000), "a { b = ".to_owned() + &"!".repeat(100_000)]
    {
        assert!(load("x.hcl", &text, &Environment::default()).is_err());
    }
    assert!(
        load("x.toml", &("a = ".to_owned() + &"[".repeat(100_000)), &Environment::default())
            .is_err()
    );
}

/// Some keys and values, as they might be in a file.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let numbers = keys::KEYS.iter().filter(|key| key.range.is_some()).collect::<Vec<_>>();
    let number = (proptest::sample::select(numbers), any::<u32>()).prop_map(|(key, value)| {
        let range = key.range.clone().unwrap();
        let span = range.end() - range.start() + 1;
        (key.path, (range.start() + i64::from(value) % span).to_string())
    });
    let word = prop_oneof![
        "[a-z]{1,12}".prop_map(|name| ("edge.group", name)),
        "[a-z]{1,12}@[a-z]{1,9}\\.example".prop_map(|email| ("acme.email", email)),
        "[a-z]{1,9}\\.example\\.(net|com)".prop_map(|target| ("dns.targets", target)),
        any::<bool>().prop_map(|value| ("dns.unique_target", value.to_string())),
        (1_u16..).prop_map(|port| ("server.listen", format!("127.0.0.1:{port}"))),
    ];
    proptest::collection::vec(prop_oneof![number, word], 0..8)
}

fn written(
    settings: &[(&str, String)],
    open: impl Fn(&str) -> String,
    close: &str,
    bare: bool,
) -> String {
    let mut sections =
        std::collections::BTreeMap::<&str, std::collections::BTreeMap<&str, String>>::new();
    let least = [
        ("database.url", "sqlite:holdfast.db"),
        ("acme.directory", "https://ca.example/dir"),
        ("acme.agree_terms", "true"),
        ("dns.targets", "edge.example.net"),
        ("security.master_key_file", "master.key"),
    ];
    let least = least.map(|(path, value)| (path, value.to_owned()));
    let chosen = if bare { &[] } else { settings };
    for (path, value) in least.iter().chain(chosen) {
        let (section, key) = path.split_once('.').unwrap();
        let value = match value.parse::<i64>().is_ok() || value == "true" || value == "false" {
            true => value.clone(),
            false if *path == "dns.targets" => format!("[{value:?}]"),
            false => format!("{value:?}"),
        };
        sections.entry(section).or_default().insert(key, value);
    }
    let section = |(name, keys): (&&str, &std::collections::BTreeMap<&str, String>)| {
        let lines: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("{}\n{lines}{close}\n", open(name))
    };
    sections.iter().map(section).collect()
}

proptest! {
    #[test]
    fn bytes_never_panic(text in any::<String>(), hcl in any::<bool>()) {
        let file = if hcl { "x.hcl" } else { "x.toml" };
        prop_assert!(load(file, &text, &Environment::default()).is_err());
    }

    #[test]
    fn text_that_looks_like_a_configuration_never_panics(
        lines in proptest::collection::vec("(\\[?(server|dns|acme|log|x)\\]?|[a-z_]{1,12} ?= ?(\"[ -~]{0,9}\"|[0-9.e-]{1,6}|\\[[^\\n]{0,6}\\]|true)|[{}\\[\\]\"'=$(]{1,4})", 0..12),
        hcl in any::<bool>(),
    ) {
        let file = if hcl { "x.hcl" } else { "x.toml" };
        let refused = load(file, &lines.join("\n"), &Environment::default()).unwrap_err().to_string();
        prop_assert!(refused.lines().all(|line| line.contains("; ") && line.contains(file)), "{}", refused);
    }

    #[test]
    fn a_changed_document_never_panics(at in 0..DOCUMENTED.len(), with in "[ -~\\n]{0,4}") {
        let mut text = DOCUMENTED.to_owned();
        if text.is_char_boundary(at) {
            text.insert_str(at, &with);
            let _ = load("x.toml", &text, &Environment::default());
        }
    }

    #[test]
    fn the_three_ways_of_writing_mean_the_same(settings in settings()) {
        let none = Environment::default();
        let toml = load("x.toml", &written(&settings, |name| format!("[{name}]"), "", false), &none);
        let hcl = load("x.hcl", &written(&settings, |name| format!("{name} {{"), "}", false), &none);
        let variables = settings.iter().map(|(path, value)| {
            (format!("HOLDFAST__{}", path.replace('.', "__").to_ascii_uppercase()), value.clone())
        });
        let environment = Environment::from_pairs(variables);
        let bare = written(&settings, |name| format!("[{name}]"), "", true);
        let overridden = load("x.toml", &bare, &environment);
        prop_assert_eq!(toml.is_ok(), hcl.is_ok());
        prop_assert_eq!(toml.is_ok(), overridden.is_ok());
        if let (Ok(toml), Ok(hcl), Ok(overridden)) = (toml, hcl, overridden) {
            prop_assert_eq!(&toml, &hcl);
            prop_assert_eq!(&toml, &overridden);
        }
    }
}
