//! Exit codes and sentences, without a server.

use holdfast_testkit::{Scratch, free_port};

use crate::kit::{Ended, program, run, word};

#[test]
fn wrong_words_are_wrong_usage() {
    let cases: &[&[&str]] = &[
        &[],
        &["domains"],
        &["domain"],
        &["domain", "add"],
        &["domain", "add", "a.example", "b.example"],
        &["domain", "add", "a.example", "--certificate", "x.pem"],
        &["domain", "add", "a.example", "--label", "nothing"],
        &["domain", "list", "--output", "xml"],
        &["domain", "list", "--state", "Foo"],
        &["domain", "renew"],
        &["domain", "renew", "--all"],
        &["domain", "renew", "--issued-by", "https://ca.example/"],
        &["domain", "renew", "a.example", "--all", "--issued-by", "https://ca.example/"],
        &["token", "create"],
        &["token", "create", "--scope", "root"],
        &["token", "create", "--scope", "edge"],
        &["key", "rotate", "--config", "x.toml"],
        &["server"],
        &["server", "--config", "x.toml", "--role", "boss"],
        &["up", "--api", "8600"],
        &["up", "--frobnicate"],
        &["dev", "dns", "set", "shop.test"],
        &["lease"],
        &["lease", "release"],
        &["restored", "--config", "x.toml", "--above", "7"],
        &["restored", "--config", "x.toml", "--above", "9007199254740991.0"],
        &["lease", "step-down", "holdfast", "--to"],
    ];
    for words in cases {
        let ended = Ended::of(program().args(*words));
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(!ended.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn help_and_version_are_no_failure() {
    for words in [
        ["--help", ""],
        ["--version", ""],
        ["help", "domain"],
        ["domain", "--help"],
        ["up", "--help"],
    ] {
        let words = words.iter().filter(|word| !word.is_empty());
        let ended = Ended::of(program().args(words)).done();
        assert!(ended.stdout.to_lowercase().contains("holdfast"), "{ended:?}");
    }
}

#[test]
fn without_a_server_the_way_to_one_is_told() {
    let scratch = Scratch::new().unwrap();
    let ended = Ended::of(program().current_dir(scratch.path()).args(["domain", "list"]));
    ended.refused(3, &["holdfast up", "--server"]);
    let ended = Ended::of(program().current_dir(scratch.path()).args(["dev", "dns", "list"]));
    ended.refused(3, &["holdfast dev net", "--data"]);
    let ended = Ended::of(program().current_dir(scratch.path()).args(["doctor"]));
    ended.refused(3, &["--server", "doctor --config FILE"]);
}

#[test]
fn a_server_that_is_not_there_is_code_three() {
    let server = format!("http://127.0.0.1:{}", free_port().unwrap());
    for words in [["domain", "list"], ["edge", "list"], ["token", "list"], ["key", "rotate"]] {
        let ended = Ended::of(program().args(words).args(["--server", &server, "--token", "t"]));
        ended.refused(3, &[&server, "cannot be reached"]);
    }
    let ended = Ended::of(program().args(["doctor", "--server", &server, "--token", "t"]));
    ended.refused(3, &[&server, "doctor --config FILE"]);
}

#[test]
fn bad_addresses_and_missing_tokens_are_wrong_usage() {
    run(["domain", "list", "--server", "127.0.0.1:8600", "--token", "t"])
        .refused(2, &["--server", "http://127.0.0.1:8600"]);
    run(["domain", "list", "--server", "ftp://x", "--token", "t"]).refused(2, &["--server"]);
    run(["domain", "list", "--server", "http://127.0.0.1:1"])
        .refused(2, &["--token", "HOLDFAST_TOKEN"]);
    run([
        "domain",
        "list",
        "--server",
        "http://127.0.0.1:1",
        "--token",
        "t",
        "--root-certificate",
        "/nonexistent.pem",
    ])
    .refused(2, &["/nonexistent.pem"]);
    run([
        "domain",
        "add",
        "a.example",
        "--server",
        "http://127.0.0.1:1",
        "--token",
        "t",
        "--certificate",
        "/nonexistent.pem",
        "--key",
        "/nonexistent.pem",
    ])
    .refused(2, &["/nonexistent.pem"]);
}

#[test]
fn the_environment_stands_in_for_options() {
    let server = format!("http://127.0.0.1:{}", free_port().unwrap());
    let mut command = program();
    command.args(["domain", "list"]).env("HOLDFAST_SERVER", &server).env("HOLDFAST_TOKEN", "t");
    Ended::of(&mut command).refused(3, &[&server]);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_told() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.write("file", "not a directory").unwrap();
    run(["up", "--data", &word(&file)]).refused(1, &["--data", &word(&file)]);
}

#[test]
fn nothing_is_written_to_a_reader_that_went_away() {
    let shell = format!("{} --help | true", env!("CARGO_BIN_EXE_holdfast"));
    let ended = Ended::of(std::process::Command::new("sh").args(["-c", &shell]));
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}
