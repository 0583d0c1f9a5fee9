//! Which statements of the sources were not made, by their text: each call of `sql`, and each constant that holds a statement.

use std::fs;
use std::path::{Path, PathBuf};

use super::{made_in, words};

/// Read past these: what they run is run once, at the start or by hand, and touches everything or nothing.
const APART: [&str; 5] = ["migration.rs", "restore.rs", "lock.rs", "writer.rs", "rights.rs"];

/// Fails with the places of the statements in `src/{part}` that were not made.
pub(super) fn check(part: &str) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut missing = Vec::new();
    for file in rust_files(&sources.join(part), &APART) {
        missing.extend(calls_not_made(&file));
        missing.extend(constants_not_made(&file, part));
    }
    missing.extend(constants_not_made(&sources.join("query.rs"), part));
    assert!(
        missing.is_empty(),
        "src/plans/tour.rs does not run these statements; call there what makes them:\n{}",
        missing.join("\n")
    );
}

pub(super) fn rust_files(directory: &Path, apart: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files.extend(rust_files(&path, apart));
        } else if !apart.contains(&name.as_str()) {
            files.push(path);
        }
    }
    let beside = directory.with_extension("rs");
    files.extend(Some(beside).filter(|path| path.exists() && !files.contains(path)));
    files
}

/// Calls of `sql` that nobody reached. A statement that is made otherwise could not be looked at.
fn calls_not_made(path: &Path) -> Vec<String> {
    let (source, mut missing) = (fs::read_to_string(path).unwrap(), Vec::new());
    let name = path.to_str().unwrap().rsplit_once("/src/").unwrap().1.to_owned();
    let made: Vec<_> =
        made_in(&format!("src/{name}")).iter().map(|at| (at.line, at.column)).collect();
    for (number, line) in (1_u32..).zip(source.lines()) {
        if line.trim_start().starts_with("//") || line.contains("fn sql(") {
            continue;
        }
        for (at, _) in line.match_indices("sql(") {
            let before = line[..at].chars().next_back();
            let column = u32::try_from(line[..at].chars().count()).unwrap() + 1;
            let is_call = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.');
            if is_call && !made.contains(&(number, column)) {
                missing.push(format!("src/{name}:{number}: {}", line.trim()));
            }
        }
    }
    missing
}

/// Constants whose words are in no statement that was made: several may go through one call.
fn constants_not_made(path: &Path, part: &str) -> Vec<String> {
    let source = fs::read_to_string(path).unwrap();
    let name = path.to_str().unwrap().rsplit_once("/src/").unwrap().1.to_owned();
    let made: Vec<_> = made_in(&format!("src/{part}")).iter().map(|one| words(one.text)).collect();
    let mut missing = Vec::new();
    for start in source.match_indices("const ").map(|(at, _)| at) {
        let rest = &source[start..];
        let Some((declared, value)) = rest.split_once('=') else { continue };
        if !(declared.contains(": &str") || declared.contains(": [&str")) {
            continue;
        }
        let constant = declared.split(':').next().unwrap().trim_start_matches("const ").to_owned();
        for alternative in literals(value) {
            let is_sql = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
            let is_sql =
                alternative.iter().any(|text| is_sql.iter().any(|word| text.contains(word)));
            let parts: Vec<_> = alternative.iter().map(|text| words(text)).collect();
            let found = made.iter().any(|text| parts.iter().all(|part| text.contains(part)));
            if is_sql && !found {
                missing.push(format!("src/{name}: {constant}"));
            }
        }
    }
    missing
}

/// The texts in quotes up to the end of a constant; of a list of texts, each by itself.
fn literals(value: &str) -> Vec<Vec<String>> {
    let (mut texts, mut characters) = (Vec::new(), value.chars().peekable());
    let is_list = value.trim_start().starts_with('[');
    while let Some(character) = characters.next() {
        match character {
            ';' => break,
            '/' if characters.peek() == Some(&'/') => {
                characters.by_ref().take_while(|c| *c != '\n').for_each(drop);
            }
            '"' => texts.push(literal(&mut characters)),
            _ => {}
        }
    }
    if is_list { texts.into_iter().map(|text| vec![text]).collect() } else { vec![texts] }
}

/// To the closing quote. A backslash at the end of a line joins it to the next.
fn literal(characters: &mut impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => {
                text.extend(characters.next().map(|next| if next == '\n' { ' ' } else { next }));
            }
            _ => text.push(character),
        }
    }
    text
}
