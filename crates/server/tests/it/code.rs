//! Codes that people meet: every cause of `explain` and every alert stands in docs/troubleshooting.md. The sources are read, so that a
//! code that is added later is missed here first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where causes, notes and alerts are made.
const SOURCES: [&str; 8] = [
    "acme/src",
    "agent/src",
    "dns/src",
    "engine/src",
    "model/src",
    "server/src/alert",
    "server/src/database.rs",
    "store/src/outage.rs",
];

/// What begins so in those sources is a code.
const PREFIXES: [&str; 6] = ["acme-", "ca-", "certificate-", "database-", "dns-", "edge-"];

/// What stands before a code of any other form.
const BEFORE: [&str; 10] = [
    "Note::new(",
    "noted(",
    "trouble(",
    "hopeless(",
    "pending(",
    "alert(",
    "code:",
    "Who::Nobody,",
    "Who::Holdfast,",
    "Who::Operator,",
];

/// Here what a match leads to is a code.
const LISTS: [&str; 4] = ["error.rs", "outage.rs", "problem.rs", "verdict.rs"];

fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths: Vec<_> = SOURCES.iter().map(|path| crates.join(path)).collect();
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.retain(|path| !path.ends_with("tests.rs"));
    files
}

fn is_code(literal: &str) -> bool {
    let kebab = |character: char| character.is_ascii_lowercase() || character == '-';
    literal.len() > 2 && literal.chars().all(kebab) && !literal.ends_with('-')
}

/// The codes in a file, by its name and its text.
fn codes(file: &str, text: &str) -> Vec<String> {
    let (mut found, mut before) = (Vec::new(), String::new());
    let text = text.split("#[cfg(test)]").next().unwrap();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let line = line.replace("\\\"", "").replace("'\"'", "");
        for (at, part) in line.split('"').enumerate() {
            if at % 2 == 0 {
                before.extend(part.chars().filter(|character| !character.is_whitespace()));
                continue;
            }
            let named = PREFIXES.iter().any(|prefix| part.starts_with(prefix));
            let made = BEFORE.iter().any(|made| before.ends_with(made));
            let listed = LISTS.contains(&file) && part.contains('-') && before.ends_with("=>");
            if is_code(part) && (named || made || listed) {
                found.push(part.to_owned());
            }
            before.clear();
        }
    }
    found
}

#[test]
fn codes_are_found_in_sources() {
    let text = r#"
        Some(_) => Note::new(
            "one-code", format!("a \"word\" {x}")),
        let b = Answer::new(Who::Nobody, "two", "three");
        x == "edge-four" => "no-code",
        // "edge-comment"
    "#;
    assert_eq!(codes("x.rs", text), ["one-code", "two", "edge-four"]);
    assert_eq!(codes("error.rs", text), ["one-code", "two", "edge-four", "no-code"]);
}

#[test]
fn every_cause_and_every_alert_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubleshooting.md");
    let page = fs::read_to_string(page).unwrap();
    let mut missing = BTreeMap::new();
    let mut seen = 0;
    for path in sources() {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        for code in codes(&file, &fs::read_to_string(&path).unwrap()) {
            seen += 1;
            if !page.contains(&format!("`{code}`")) {
                missing.insert(code, path.display().to_string());
            }
        }
    }
    assert!(seen > 100, "the sources are somewhere else: {seen} codes");
    assert!(missing.is_empty(), "not in docs/troubleshooting.md: {missing:#?}");
}
