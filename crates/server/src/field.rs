//! Texts that operators give: bounded, without control characters, never empty.

use std::collections::BTreeMap;

use crate::{Kind, Problem};

/// Longest tenant, resource, orchestration id.
pub(crate) const KEY: usize = 255;

/// Longest name of a group, an edge or a token.
pub(crate) const NAME: usize = 63;

const LABELS: usize = 64;
const LABEL_NAME: usize = 63;
const LABEL_VALUE: usize = 255;

/// A text that can be kept.
pub(crate) fn text(field: &str, value: String, longest: usize) -> Result<String, Problem> {
    let length = value.chars().count();
    if length == 0 {
        return Err(invalid(field, format!("`{field}` is empty; leave it out, or give a value.")));
    }
    if length > longest {
        let detail = format!("`{field}` has {length} characters; at most {longest} are kept.");
        return Err(invalid(field, detail));
    }
    if value.contains(char::is_control) {
        let detail = format!("`{field}` has control characters: `{}`.", shown(&value));
        return Err(invalid(field, detail));
    }
    Ok(value)
}

/// A text that can be kept, if there is one.
pub(crate) fn optional(
    field: &str,
    value: Option<String>,
    longest: usize,
) -> Result<Option<String>, Problem> {
    value.map(|value| text(field, value, longest)).transpose()
}

/// Labels that can be kept.
pub(crate) fn labels(
    labels: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Problem> {
    if labels.len() > LABELS {
        let detail = format!("{} labels were given; at most {LABELS} are kept.", labels.len());
        return Err(invalid("labels", detail));
    }
    for (name, value) in &labels {
        label(name, value)?;
    }
    Ok(labels)
}

fn label(name: &str, value: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let field = format!("labels.{}", shown(name));
    if name.is_empty() || name.len() > LABEL_NAME || !name.chars().all(fits) {
        let detail = format!(
            "`{}` cannot name a label: 1 to {LABEL_NAME} letters, digits, `.`, `_`, `-` or `/`.",
            shown(name)
        );
        return Err(invalid(&field, detail));
    }
    if value.chars().count() > LABEL_VALUE || value.contains(char::is_control) {
        let detail = format!("`{field}` has over {LABEL_VALUE} characters, or control characters.");
        return Err(invalid(&field, detail));
    }
    Ok(())
}

/// A field with a value that cannot be taken.
pub(crate) fn invalid(field: &str, detail: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidField, detail).with("field", field)
}

/// What was given, cut short: it goes into a message.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
