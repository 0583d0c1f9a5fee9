//! Whoever writes `due_at` of a domain also writes `updated_at`, or as a claim `claimed_until`: by these, what a wrong clock wrote is
//! found.

use std::fs;
use std::path::Path;

use super::{coverage::rust_files, words};

#[test]
fn whoever_writes_due_at_also_writes_what_it_is_found_by() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut seen, mut wrong) = (0, Vec::new());
    for part in ["postgres", "sqlite"] {
        for file in rust_files(&sources.join(part), &[]) {
            let source = fs::read_to_string(&file).unwrap();
            for assigned in assignments(&source) {
                seen += 1;
                if !is_found_again(assigned) {
                    wrong.push(format!("{}: {}", file.display(), words(assigned)));
                }
            }
        }
    }
    assert!(seen > 30, "only {seen} statements write it");
    assert!(
        wrong.is_empty(),
        "these write due_at, and neither updated_at nor claimed_until:\n{}",
        wrong.join("\n")
    );
}

fn is_found_again(assigned: &str) -> bool {
    let claims =
        assigned.contains("claimed_until = ") && !assigned.contains("claimed_until = NULL");
    assigned.contains("updated_at =") || claims
}

/// From `SET` to the condition, of each statement that sets when a domain is due. A part of statements, as a macro gives it, is
/// taken for itself.
fn assignments(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("due_at = ") {
        let before = &source[..at];
        let is_column = before.ends_with([' ', '"', ',']);
        let begin = before
            .rfind("SET ")
            .max(before.rfind("concat!("))
            .max(before.rfind("{\n"))
            .unwrap_or(0);
        let table = before[..begin].rsplit("UPDATE ").next().unwrap_or_default();
        let rest = &source[at..];
        let ends = [rest.find("WHERE"), rest.find(" FROM "), rest.find("\";")];
        let end = at + ends.into_iter().flatten().min().unwrap_or(rest.len());
        let is_rust = before.ends_with("let ") || before.ends_with("next_");
        if is_column && !is_rust && !table.starts_with("delivery") {
            found.push(&source[begin..end]);
        }
    }
    found
}
