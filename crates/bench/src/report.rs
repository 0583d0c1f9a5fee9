//! docs/benchmarks.md: people's words stay as they are, each figure's section is replaced between its markers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;

use crate::machine;

/// The document.
pub struct Report {
    path: PathBuf,
}

impl Report {
    /// The document at a path.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Replaces a figure's section; `load` is what the machine did besides, before.
    pub fn write(&self, name: &str, load: f64, body: &str) -> Result<()> {
        let read = std::fs::read_to_string(&self.path);
        let text = read.with_context(|| format!("reading {}", self.path.display()))?;
        let made = format!(
            "Made by `./dev bench {name}` on {}: {}. Load before: {load:.2}.\n\n{}\n",
            machine::today(),
            machine::facts(),
            body.trim()
        );
        let replaced = replace(&text, name, &made)
            .with_context(|| format!("{} has no markers for {name}", self.path.display()))?;
        files::write(Point::FILE_OTHER, &self.path, replaced.as_bytes(), Access::Public)?;
        Ok(())
    }
}

fn replace(text: &str, name: &str, section: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{section}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "words\n<!-- begin up -->\nold\n<!-- end up -->\nmore words\n";

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let replaced = replace(TEXT, "up", "new\n").unwrap();
        assert_eq!(replaced, TEXT.replace("old", "new"));
        assert_eq!(replace(TEXT, "down", "new\n"), None);
    }
}
