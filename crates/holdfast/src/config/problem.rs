//! What is wrong with a configuration, in sentences: where, which key, what stands there, what to do.

use std::fmt;

use serde_path_to_error::Segment;

use super::{
    keys,
    node::{Mismatch, Node},
    source::Source,
};

/// Everything that was found wrong, a sentence each.
#[derive(Debug)]
pub(crate) struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// A single one that concerns the file as a whole.
    pub(super) fn with_file(file: &str, what: impl fmt::Display) -> Self {
        Self(vec![format!("{file}: {what}")])
    }

    /// From what serde said of a tree.
    pub(super) fn from_reading(
        source: &Source,
        error: &serde_path_to_error::Error<Mismatch>,
    ) -> Self {
        let path = dotted(error.path());
        Self(vec![sentence(source, &path, error.inner())])
    }
}

/// Gathers what checks refuse.
pub(super) struct Findings<'a> {
    source: &'a Source,
    found: Vec<String>,
}

impl<'a> Findings<'a> {
    pub(super) const fn new(source: &'a Source) -> Self {
        Self { source, found: Vec::new() }
    }

    /// Notes that the value of `path` cannot be, why, and what to do.
    pub(super) fn refuse(&mut self, path: &str, why: impl fmt::Display, remedy: impl fmt::Display) {
        self.found.push(format!("{} {why}; {remedy}", self.source.place(path)));
    }

    /// Refuses when the condition does not hold.
    pub(super) fn require(
        &mut self,
        holds: bool,
        path: &str,
        why: impl fmt::Display,
        remedy: impl fmt::Display,
    ) {
        if !holds {
            self.refuse(path, why, remedy);
        }
    }

    /// Notes that the value of `path` is not what the table of keys says it must be.
    pub(super) fn refuse_form(&mut self, path: &str, why: &str) {
        let remedy = must_be(path);
        self.refuse(path, why, remedy);
    }

    /// The verdict.
    pub(super) fn into_result(self) -> Result<(), Problems> {
        if self.found.is_empty() { Ok(()) } else { Err(Problems(self.found)) }
    }
}

/// Checks numbers against the bounds of the table.
pub(super) fn check_ranges(findings: &mut Findings<'_>) {
    for key in keys::KEYS.iter().chain(super::agent::KEYS) {
        let Some(range) = &key.range else { continue };
        let number = findings.source.tree.at(key.path).and_then(Node::integer);
        if number.is_some_and(|number| !range.contains(&number)) {
            findings.refuse_form(key.path, "is out of bounds");
        }
    }
}

fn must_be(path: &str) -> String {
    keys::find(path).map_or_else(String::new, |key| format!("it must be {}", key.must_be))
}

fn sentence(source: &Source, path: &str, mismatch: &Mismatch) -> String {
    match mismatch {
        Mismatch::UnknownKey(known) => unknown_key(source, path, known),
        Mismatch::Missing(field) => {
            let path =
                if path.is_empty() { (*field).to_owned() } else { format!("{path}.{field}") };
            missing(source, &path)
        }
        Mismatch::WrongType | Mismatch::UnknownWord(_) if keys::find(path).is_none() => {
            format!("{} is no section; write it as a table of keys: [{path}]", source.place(path))
        }
        Mismatch::UnknownWord(_) => {
            format!("{} is not known; {}", source.place(path), must_be(path))
        }
        Mismatch::WrongType => {
            format!("{} has the wrong form; {}", source.place(path), must_be(path))
        }
        Mismatch::Refused(why) => {
            format!("{} is refused ({}); {}", source.place(path), hidden(path, why), must_be(path))
        }
    }
}

/// What a parser said may repeat what it was given.
fn hidden<'a>(path: &str, why: &'a str) -> &'a str {
    if keys::find(path).is_some_and(|key| key.secret) { "it cannot be read" } else { why }
}

fn unknown_key(source: &Source, path: &str, known: &'static [&'static str]) -> String {
    let (section, typed) = path.rsplit_once('.').unwrap_or(("", path));
    let what = if section.is_empty() { "section" } else { "key" };
    let remedy = match keys::nearest(typed, known) {
        Some(word) if section.is_empty() => format!("did you mean [{word}]?"),
        Some(word) => format!("did you mean {section}.{word}?"),
        None => format!("remove it; known here are {}", known.join(", ")),
    };
    format!("{} is an unknown {what}; {remedy}", source.place(path))
}

fn missing(source: &Source, path: &str) -> String {
    let remedy = match keys::find(path) {
        Some(key) => format!("set it; it must be {}", key.must_be),
        None => format!("add a section [{path}]"),
    };
    format!("{} is missing; {remedy}", source.place(path))
}

fn dotted(path: &serde_path_to_error::Path) -> String {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Seq { index } => Some(index.to_string()),
        _ => None,
    });
    steps.collect::<Vec<_>>().join(".")
}
